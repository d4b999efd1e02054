//! Kills the agent at a step of an allocation, from the thread that sees the step, so that there is no delay.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::{Mutex, MutexGuard};

use crate::fixture::Hook;
use crate::harness::Failure;

/// The steps at which an allocation is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The plugin got the call and has not answered.
    Asked,
    /// Its answer is being sent or has just arrived.
    Answered,
    /// The checkpoint's temporary file has been created.
    Written,
    /// The checkpoint has been renamed.
    Renamed,
    /// The container has been created.
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
            Self::Created => "container created",
            Self::Anywhere => "anywhere",
        }
    }
}

/// Name of the checkpoint file.
const CHECKPOINT: &str = "kubelet_internal_checkpoint";
/// About how long the answer takes to arrive.
const UNDER_WAY: Duration = Duration::from_micros(300);

/// Kills a process once when its step is seen after it was armed.
#[derive(Clone, Default)]
pub struct Trap(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    armed: Option<(Step, Pid)>,
    killed: bool,
}

impl Trap {
    /// Arms it: the process `pid` is killed when `step` is seen next.
    pub fn arm(&self, step: Step, pid: u32) {
        *self.lock() = State { armed: Some((step, Pid::from_raw(pid.cast_signed()))), killed: false };
    }

    /// Whether it has killed the process since it was armed.
    pub fn has_killed(&self) -> bool {
        self.lock().killed
    }

    /// Reports that this step happens now.
    pub fn seen(&self, step: Step) {
        let mut state = self.lock();
        if let Some((_, pid)) = state.armed.filter(|(wanted, _)| *wanted == step) {
            // The process is not reaped before the next one is armed, so the pid cannot belong to another
            // process.
            state.killed = kill(pid, Signal::SIGKILL).is_ok();
            state.armed = None;
        }
    }

    /// Disarms it.
    pub fn disarm(&self) {
        self.lock().armed = None;
    }

    /// The hook for the plugin, which reports the steps `Asked` and `Answered`.
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

    /// Watches the directory of the checkpoint until the test's process ends, and reports the steps `Written`
    /// and `Renamed`.
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_kills_once_and_only_at_its_step() {
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
        assert!(!trap.has_killed() && child.try_wait().unwrap().is_none());
        std::fs::rename(&temporary, folder.path().join(CHECKPOINT)).unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success() && trap.has_killed());
        trap.disarm();
        assert!(trap.has_killed());
    }
}
