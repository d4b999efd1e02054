//! Enforcement by the v1 devices controller: the policy is written into the files of the pod's cgroup.
//!
//! Refusing at a cgroup refuses at all cgroups below it; allowing again does not (kernel documentation,
//! cgroup-v1/devices, "Hierarchy"). So the accesses that a pod's containers lose when a device is cut off are
//! remembered, and written again when the device is allowed again. A container that lost a device before a
//! restart of the agent gets it back when the container restarts.

mod list;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use nodewarden_config::Enforcement;
use nodewarden_machine::cgroup::join;

use super::error::EnforceError;
use crate::policy::PodPolicy;
pub use list::{Allowed, List};

/// Reads `devices.list`, writes the lines that allow the same, and reads those: both lists of lines.
#[cfg(feature = "fuzzing")]
pub fn devices_list(text: &str) -> [Vec<String>; 2] {
    let lines = |text: &str| match List::parse(text) {
        List::Everything => vec!["a *:* rwm".to_owned()],
        List::Only(allowed) => list::lines(&allowed).collect(),
    };
    let first = lines(text);
    let again = lines(&first.join("\n"));
    [first, again]
}

/// The controller's mount, and the accesses that were revoked from cgroups below pods' own.
#[derive(Debug)]
pub struct V1Controller {
    mount: PathBuf,
    /// By pod uid; parents before children.
    revoked: HashMap<String, Vec<(PathBuf, Allowed)>>,
}

impl V1Controller {
    pub fn new(mount: &Path) -> Self {
        Self { mount: mount.to_owned(), revoked: HashMap::new() }
    }

    /// Makes the pod's cgroup allow exactly what the policy says.
    ///
    /// # Errors
    /// v1 does not support the mode, the pod has containers that were started before it was guarded, or a
    /// file cannot be read or written.
    pub fn guard(&mut self, uid: &str, cgroup: &str, policy: &PodPolicy) -> Result<(), EnforceError> {
        let pod = join(&self.mount, cgroup);
        let current = read(&pod)?;
        match (policy.mode, current) {
            (Enforcement::Audit, _) => Err(EnforceError::AuditOnV1),
            (Enforcement::Off, List::Everything) => Ok(()),
            (Enforcement::Off, List::Only(_)) => everything(&pod, "devices.allow"),
            (Enforcement::Enforce, List::Everything) => {
                let wanted = list::wanted(&policy.rules);
                everything(&pod, "devices.deny")?;
                write_all(&pod, "devices.allow", &wanted)
            }
            (Enforcement::Enforce, List::Only(current)) => {
                self.change(uid, &pod, &current, &list::wanted(&policy.rules))
            }
        }
    }

    pub fn forget(&mut self, uid: &str) {
        self.revoked.remove(uid);
    }

    fn change(
        &mut self,
        uid: &str,
        pod: &Path,
        current: &Allowed,
        wanted: &Allowed,
    ) -> Result<(), EnforceError> {
        write_all(pod, "devices.allow", &list::difference(wanted, current))?;
        self.restore(uid, wanted)?;
        let excess = list::difference(current, wanted);
        if excess.is_empty() {
            return Ok(());
        }
        let below = below(pod);
        let lists: Vec<(PathBuf, List)> =
            below.into_iter().filter_map(|dir| read(&dir).ok().map(|list| (dir, list))).collect();
        write_all(pod, "devices.deny", &excess)?;
        let revoked = self.revoked.entry(uid.to_owned()).or_default();
        for (dir, list) in lists {
            let List::Only(allowed) = list else { continue };
            let lost = list::intersection(&allowed, &excess);
            if !lost.is_empty() {
                revoked.push((dir, lost));
            }
        }
        Ok(())
    }

    /// Allows again, at the cgroups below, what was revoked from them and is allowed now.
    fn restore(&mut self, uid: &str, wanted: &Allowed) -> Result<(), EnforceError> {
        let Some(revoked) = self.revoked.get_mut(uid) else { return Ok(()) };
        revoked.retain(|(dir, _)| dir.exists());
        for (dir, lost) in revoked.iter_mut() {
            let restored = list::intersection(lost, wanted);
            match write_all(dir, "devices.allow", &restored) {
                // The container ended meanwhile.
                Err(EnforceError::Write { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
            *lost = list::difference(lost, &restored);
        }
        revoked.retain(|(_, lost)| !lost.is_empty());
        Ok(())
    }
}

fn read(dir: &Path) -> Result<List, EnforceError> {
    let path = dir.join("devices.list");
    let text = fs::read_to_string(&path).map_err(|source| EnforceError::Read { path, source })?;
    Ok(List::parse(&text))
}

/// Allows or refuses everything, which the kernel permits only for a cgroup without children.
fn everything(dir: &Path, file: &str) -> Result<(), EnforceError> {
    match write(&dir.join(file), "a") {
        Err(EnforceError::Write { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
            Err(EnforceError::HasChildren { path: dir.into() })
        }
        other => other,
    }
}

fn write_all(dir: &Path, file: &str, allowed: &Allowed) -> Result<(), EnforceError> {
    let path = dir.join(file);
    list::lines(allowed).try_for_each(|line| write(&path, &line))
}

fn write(path: &Path, line: &str) -> Result<(), EnforceError> {
    let failed = |source| EnforceError::Write { path: path.into(), line: line.to_owned(), source };
    fs::write(path, line).map_err(failed)
}

/// The cgroups below a directory, parents before children.
fn below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let children = entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path());
    children
        .flat_map(|child| {
            let deeper = below(&child);
            std::iter::once(child).chain(deeper)
        })
        .collect()
}
