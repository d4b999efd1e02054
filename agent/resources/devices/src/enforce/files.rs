//! Enforcement by the v1 devices controller: the files of the pod's cgroup carry the policy.
//!
//! What is refused at a cgroup is refused at all below it; what is allowed again is not (kernel documentation,
//! cgroup-v1/devices, "Hierarchy"). So what a pod's containers lose when a device is cut off is remembered, and written
//! again when it is given back. A container that lost a device before the agent's restart gets it at its own.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::EnforceError;
use super::list::{self, Allowed, List};
use crate::policy::PodPolicy;
use nodewarden_config::Enforcement;
use nodewarden_machine::cgroup::join;

/// The controller's mount, and what was taken from cgroups below pods' own.
#[derive(Debug)]
pub struct Files {
    mount: PathBuf,
    /// By pod; parents before children.
    taken: HashMap<String, Vec<(PathBuf, Allowed)>>,
}

impl Files {
    pub fn new(mount: &Path) -> Self {
        Self { mount: mount.to_owned(), taken: HashMap::new() }
    }

    /// Makes the pod's cgroup allow what the policy says.
    ///
    /// # Errors
    /// The mode cannot be had on v1, the pod has containers that were started without, or a file refuses.
    pub fn guard(&mut self, uid: &str, cgroup: &str, policy: &PodPolicy) -> Result<(), EnforceError> {
        let pod = join(&self.mount, cgroup);
        let found = read(&pod)?;
        match (policy.mode, found) {
            (Enforcement::Audit, _) => Err(EnforceError::AuditOnV1),
            (Enforcement::Off, List::Everything) => Ok(()),
            (Enforcement::Off, List::Only(_)) => everything(&pod, "devices.allow"),
            (Enforcement::Enforce, List::Everything) => {
                let wanted = list::wanted(&policy.rules);
                everything(&pod, "devices.deny")?;
                write_all(&pod, "devices.allow", &wanted)
            }
            (Enforcement::Enforce, List::Only(found)) => {
                self.change(uid, &pod, &found, &list::wanted(&policy.rules))
            }
        }
    }

    pub fn forget(&mut self, uid: &str) {
        self.taken.remove(uid);
    }

    fn change(
        &mut self,
        uid: &str,
        pod: &Path,
        found: &Allowed,
        wanted: &Allowed,
    ) -> Result<(), EnforceError> {
        write_all(pod, "devices.allow", &list::less(wanted, found))?;
        self.give_back(uid, wanted)?;
        let surplus = list::less(found, wanted);
        if surplus.is_empty() {
            return Ok(());
        }
        let below = below(pod);
        let lists: Vec<(PathBuf, List)> =
            below.into_iter().filter_map(|dir| read(&dir).ok().map(|list| (dir, list))).collect();
        write_all(pod, "devices.deny", &surplus)?;
        let taken = self.taken.entry(uid.to_owned()).or_default();
        for (dir, list) in lists {
            let List::Only(allowed) = list else { continue };
            let lost = list::both(&allowed, &surplus);
            if !lost.is_empty() {
                taken.push((dir, lost));
            }
        }
        Ok(())
    }

    /// Allows again at the cgroups below what was taken from them and is allowed now.
    fn give_back(&mut self, uid: &str, wanted: &Allowed) -> Result<(), EnforceError> {
        let Some(taken) = self.taken.get_mut(uid) else { return Ok(()) };
        taken.retain(|(dir, _)| dir.exists());
        for (dir, lost) in taken.iter_mut() {
            let back = list::both(lost, wanted);
            match write_all(dir, "devices.allow", &back) {
                // It ended meanwhile.
                Err(EnforceError::Write { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
            *lost = list::less(lost, &back);
        }
        taken.retain(|(_, lost)| !lost.is_empty());
        Ok(())
    }
}

fn read(dir: &Path) -> Result<List, EnforceError> {
    let path = dir.join("devices.list");
    let text = fs::read_to_string(&path).map_err(|source| EnforceError::Read { path, source })?;
    Ok(List::parse(&text))
}

/// Allows or refuses everything, which the kernel lets be done only to a cgroup without children.
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

/// The cgroups below one, parents before children.
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

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
