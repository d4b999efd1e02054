//! The files of cgroups, and what systemd keeps of them.
//!
//! With the systemd driver pods and daemons are units. When a property of one is changed, such as by a
//! kubelet that resizes a pod, systemd writes the unit's other settings of the same controller again, by its
//! own properties: a bound that is in the file alone would be gone. So each bound that has a property is set
//! there too, after the file is written. That is left to a thread, because systemd may be slow to answer when
//! memory is short, and the file is what acts.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nodewarden_machine::cgroup::control::{MemoryBound, SystemdError, keep_memory_bound};
use nodewarden_machine::cgroup::{Controller, Layout, Version};
use nodewarden_tasks::parts::{self, Part};
use tracing::debug;

use super::machine::{Files, Machine};
use crate::wanted::Place;

/// Exists where systemd runs the machine (sd_booted(3)).
const BOOTED: &str = "/run/systemd/system";
/// What passes bounds to systemd, as a part of the agent.
const PART: &str = "properties of units";
/// How long systemd may take for one of them.
const LIMIT: Duration = Duration::from_secs(120);
/// Has systemd keep a bound of a unit; false if there is no such unit.
type SetBound = fn(&str, MemoryBound, Option<u64>) -> Result<bool, SystemdError>;
/// Where systemd answers.
const SOCKETS: [&str; 2] = ["/run/systemd/private", "/run/dbus/system_bus_socket"];

/// The files, and the properties of units. Dropping it waits until systemd has what was written.
#[derive(Debug)]
pub struct UnitFiles {
    /// Where the cgroups are mounted, and the thread; `None` where systemd cannot be asked.
    units: Option<Units>,
}

#[derive(Debug)]
struct Units {
    mount: PathBuf,
    /// `None` while it is dropped.
    changes: Option<Sender<Change>>,
    thread: Option<JoinHandle<()>>,
}

/// A bound that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    /// The cgroup below the mount.
    path: String,
    bound: MemoryBound,
    /// In bytes; `None` for no bound.
    bytes: Option<u64>,
}

impl UnitFiles {
    /// The machine's. Without systemd, or without cgroup v2 for memory, only files are written.
    pub fn new() -> Self {
        let answers = Path::new(BOOTED).is_dir() && SOCKETS.iter().any(|socket| Path::new(socket).exists());
        let layout = answers.then(|| Layout::detect().ok()).flatten();
        let hierarchy = layout.as_ref().and_then(|layout| layout.hierarchy(Controller::Memory));
        let mount = hierarchy.filter(|own| own.version == Version::V2).map(|own| own.mount.clone());
        Self { units: mount.and_then(|mount| Units::start(mount, keep_memory_bound)) }
    }
}

impl Default for UnitFiles {
    fn default() -> Self {
        Self::new()
    }
}

impl Units {
    /// `None` if no thread can be started.
    fn start(mount: PathBuf, set: SetBound) -> Option<Self> {
        let (changes, receiver) = channel();
        let thread = thread::Builder::new().name("augment-units".into()).spawn(move || {
            let part = parts::register(PART, LIMIT);
            keep(&receiver, set, &part);
            part.end();
        });
        match thread {
            Ok(thread) => Some(Self { mount, changes: Some(changes), thread: Some(thread) }),
            Err(error) => {
                debug!("properties of units are not set: cannot start a thread: {error}");
                None
            }
        }
    }
}

impl Drop for Units {
    fn drop(&mut self) {
        self.changes = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

impl Machine for UnitFiles {
    fn read(&self, place: &Place) -> io::Result<Option<(String, u64)>> {
        Files.read(place)
    }

    fn write(&self, place: &Place, identity: u64, value: &str) -> io::Result<bool> {
        let written = Files.write(place, identity, value)?;
        if written
            && let Some(units) = &self.units
            && let Some(change) = change(&units.mount, place, value)
            && let Some(changes) = &units.changes
        {
            // It fails only if the thread has panicked; the file is written.
            let _ = changes.send(change);
        }
        Ok(written)
    }
}

/// What systemd is to keep of a write; `None` if it is of no unit, or of a file without a property.
fn change(mount: &Path, place: &Place, value: &str) -> Option<Change> {
    let bound = MemoryBound::of_file(&place.file)?;
    let path = place.directory.strip_prefix(mount).ok()?.to_str()?;
    let is_unit = [".slice", ".scope", ".service"].iter().any(|kind| path.ends_with(kind));
    let bytes = match value {
        "max" => None,
        number => Some(number.parse().ok()?),
    };
    is_unit.then(|| Change { path: format!("/{path}"), bound, bytes })
}

/// Sets the newest bound of each unit until no more comes.
fn keep(changes: &Receiver<Change>, set: SetBound, part: &Part) {
    loop {
        part.waits();
        let Ok(first) = changes.recv() else { return };
        for (_, change) in newest(std::iter::once(first).chain(changes.try_iter())) {
            part.progress();
            match set(&change.path, change.bound, change.bytes) {
                Ok(true) => {}
                Ok(false) => debug!("{} is no unit of systemd", change.path),
                // Each of the others would wait as long, and the agent's end for all of them.
                Err(error @ (SystemdError::Connect { .. } | SystemdError::NoAnswer { .. })) => {
                    debug!("systemd does not answer, and keeps no bound that was written now: {error}");
                    break;
                }
                // The bound stands in its file until systemd writes it again.
                Err(error) => debug!("systemd does not keep a bound of {}: {error}", change.path),
            }
        }
    }
}

fn newest(all: impl Iterator<Item = Change>) -> BTreeMap<(String, MemoryBound), Change> {
    all.map(|change| ((change.path.clone(), change.bound), change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_units_are_kept_and_no_other_values() {
        let of = |directory: &str, file: &str, value: &str| {
            change(Path::new("/sys/fs/cgroup"), &Place::new(Path::new(directory), file), value)
        };
        let slice = "/sys/fs/cgroup/kubepods.slice/kubepods-podx.slice";
        let high = |bytes| Change {
            path: "/kubepods.slice/kubepods-podx.slice".into(),
            bound: MemoryBound::High,
            bytes,
        };
        assert_eq!(of(slice, "memory.high", "4096"), Some(high(Some(4096))));
        assert_eq!(of(slice, "memory.high", "max"), Some(high(None)), "it is put back");
        assert_eq!(of(slice, "cpu.idle", "1"), None, "CPUWeight is the kubelet's");
        assert_eq!(of("/sys/fs/cgroup/kubepods/podx", "memory.high", "4096"), None, "no unit");
        assert_eq!(of("/proc/7", "oom_score_adj", "0"), None);
        assert_eq!(of("/elsewhere/a.slice", "memory.high", "4096"), None);
    }

    #[test]
    fn a_panic_of_the_thread_is_noticed() {
        // Without the message and the backtrace, which would load the symbols into this process.
        let set: SetBound = |_, _, _| std::panic::resume_unwind(Box::new("planted"));
        let units = Units::start(PathBuf::from("/c"), set).unwrap();
        let change = Change { path: "/a.slice".into(), bound: MemoryBound::High, bytes: None };
        units.changes.as_ref().unwrap().send(change).unwrap();
        drop(units);
        let found = parts::Parts::of_process().health().into_iter().find(|one| one.part == PART);
        assert!(found.unwrap().problem.unwrap().starts_with("panicked"));
    }

    #[test]
    fn the_newest_bound_of_a_unit_counts() {
        let change = |path: &str, bytes| Change { path: path.into(), bound: MemoryBound::High, bytes };
        let all = [change("/a.slice", Some(1)), change("/b.slice", Some(2)), change("/a.slice", None)];
        let kept: Vec<_> = newest(all.into_iter()).into_values().collect();
        assert_eq!(kept, [change("/a.slice", None), change("/b.slice", Some(2))]);
    }
}
