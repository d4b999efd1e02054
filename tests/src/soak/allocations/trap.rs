//! Kills the agent at a step of an allocation, at once: from where the step is seen, not from where it was asked for.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::Hook;
use crate::harness::Failure;

/// Where an allocation is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The plugin has been asked and has not answered.
    Asked,
    /// Its answer is under way or just there.
    Answered,
    /// The checkpoint's temporary file is there.
    Written,
    /// The checkpoint has been renamed.
    Renamed,
    /// The container has been made.
    Created,
    /// At any moment.
    Anywhere,
}

impl Step {
    pub const ALL: [Self; 6] =
        [Self::Asked, Self::Answered, Self::Written, Self::Renamed, Self::Created, Self::Anywhere];

    pub fn name(self) -> &'static str {
        match self {
            Self::Asked => "before the answer",
            Self::Answered => "after the answer",
            Self::Written => "checkpoint being written",
            Self::Renamed => "checkpoint renamed",
            Self::Created => "container made",
            Self::Anywhere => "anywhere",
        }
    }
}

/// The name of the checkpoint in its directory.
const CHECKPOINT: &str = "kubelet_internal_checkpoint";
/// How long an answer is under way, about.
const UNDER_WAY: Duration = Duration::from_micros(300);

/// Kills once when it is armed and its step comes.
#[derive(Clone, Default)]
pub struct Trap(Arc<Mutex<Set>>);

#[derive(Default)]
struct Set {
    armed: Option<(Step, Pid)>,
    sprung: bool,
}

impl Trap {
    /// For the next time that this step is seen.
    pub fn arm(&self, step: Step, pid: u32) {
        *self.lock() = Set { armed: Some((step, Pid::from_raw(pid.cast_signed()))), sprung: false };
    }

    /// Whether it has killed since it was armed.
    pub fn has_sprung(&self) -> bool {
        self.lock().sprung
    }

    /// This step is seen now.
    pub fn seen(&self, step: Step) {
        let mut set = self.lock();
        if let Some((_, pid)) = set.armed.filter(|(wanted, _)| *wanted == step) {
            // Not reaped before the next one is armed: the number is nobody else's.
            set.sprung = kill(pid, Signal::SIGKILL).is_ok();
            set.armed = None;
        }
    }

    /// Nothing more happens until it is armed again.
    pub fn disarm(&self) {
        self.lock().armed = None;
    }

    /// What the plugin does when it is asked.
    pub fn hook(&self) -> Hook {
        let trap = self.clone();
        Arc::new(move |_| {
            trap.seen(Step::Asked);
            let later = trap.clone();
            std::thread::spawn(move || {
                std::thread::sleep(UNDER_WAY);
                later.seen(Step::Answered);
            });
        })
    }

    /// Watches the directory of the checkpoint until the test's process ends.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn watch(&self, folder: &Path) -> Result<(), Failure> {
        let failed = |error: nix::Error| Failure::file(folder)(error.into());
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC).map_err(failed)?;
        let events = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        inotify.add_watch(folder, events).map_err(failed)?;
        let trap = self.clone();
        std::thread::spawn(move || {
            while let Ok(events) = inotify.read_events() {
                for event in events {
                    let name = event.name.unwrap_or_default();
                    let name = name.to_string_lossy();
                    if event.mask.contains(AddWatchFlags::IN_MOVED_TO) {
                        if name == CHECKPOINT {
                            trap.seen(Step::Renamed);
                        }
                    } else if !name.ends_with(".sock") {
                        trap.seen(Step::Written);
                    }
                }
            }
        });
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_springs_once_and_only_at_its_step() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let trap = Trap::default();
        let folder = tempfile::tempdir().unwrap();
        trap.watch(folder.path()).unwrap();
        trap.arm(Step::Renamed, child.id());
        trap.seen(Step::Asked);
        let temporary = folder.path().join("temporary");
        std::fs::write(&temporary, "").unwrap();
        std::fs::write(folder.path().join("x.sock"), "").unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!trap.has_sprung() && child.try_wait().unwrap().is_none());
        std::fs::rename(&temporary, folder.path().join(CHECKPOINT)).unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success() && trap.has_sprung());
        trap.disarm();
        assert!(trap.has_sprung());
    }
}
