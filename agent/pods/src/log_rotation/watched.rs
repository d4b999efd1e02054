//! Which logs have to be looked at: those that were written to since the last look. The kernel reports the
//! first write after a look (inotify), so that a log that is never written costs nothing.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::inotify::WatchDescriptor;
use tokio::sync::watch;
use tracing::warn;

use nodewarden_cri::logs::LogPath;
use nodewarden_machine::inotify::{Changed, NextChange};

/// The longest time between two looks at all logs: finds what the kernel could not report.
const ALL: Duration = Duration::from_secs(300);

/// The logs that are watched; the others are looked at in each round.
pub struct Watched {
    /// `None` where the kernel cannot report writes.
    files: Option<Arc<NextChange>>,
    /// By id of the container.
    watches: BTreeMap<String, WatchDescriptor>,
    /// Some log was not watched after the last round.
    unwatched: bool,
}

impl Watched {
    /// Watches nothing yet. Must be called inside a tokio runtime.
    pub fn new() -> Self {
        let files = NextChange::new()
            .inspect_err(|error| warn!(%error, "inotify is off: every log is looked at in each round"))
            .ok();
        Self { files: files.map(Arc::new), watches: BTreeMap::new(), unwatched: true }
    }

    /// Waits until a log has to be looked at: it was written to, one is not watched, a pod has changed
    /// (`pods`), or the last look at all of them was long ago.
    pub async fn due(&mut self, pods: &mut watch::Receiver<()>) {
        if self.unwatched {
            return;
        }
        let Some(files) = self.files.clone() else { return };
        loop {
            tokio::select! {
                changed = files.changed() => match changed {
                    Ok(changed) => if self.ended(&changed) { return },
                    Err(_) => break,
                },
                Ok(()) = pods.changed() => return,
                () = tokio::time::sleep(ALL) => break,
            }
        }
        self.forget_all();
    }

    /// Takes what changed meanwhile. What is not watched from now on is looked at in this round.
    pub fn begin_round(&mut self) {
        self.unwatched = false;
        let Some(changed) = self.files.as_ref().map(|files| files.take()) else { return };
        self.ended(&changed);
    }

    /// Whether the log of this container has to be looked at in this round.
    pub fn is_due(&self, id: &str) -> bool {
        !self.watches.contains_key(id)
    }

    /// Ends the watches of containers that `runs` returns false for.
    pub fn retain(&mut self, runs: impl Fn(&str) -> bool) {
        let Some(files) = &self.files else { return };
        self.watches.retain(|id, watch| {
            let runs = runs(id);
            if !runs {
                files.forget(*watch);
            }
            runs
        });
    }

    /// What a thread for blocking work watches with, before it looks at the log.
    pub fn files(&self) -> Option<Arc<NextChange>> {
        self.files.clone()
    }

    /// The log of this container was found to be small. `watch`: from before that; without it the log is
    /// looked at in the next round too.
    pub fn seen(&mut self, id: String, watch: Option<WatchDescriptor>) {
        match watch {
            Some(watch) => drop(self.watches.insert(id, watch)),
            None => self.unwatched = true,
        }
    }

    /// Ends a watch of a log that is rotated.
    pub fn forget(&self, watch: Option<WatchDescriptor>) {
        if let (Some(files), Some(watch)) = (&self.files, watch) {
            files.forget(watch);
        }
    }

    /// A log has to be looked at again in the next round.
    pub fn again(&mut self) {
        self.unwatched = true;
    }

    /// Returns whether a log that is watched has changed.
    fn ended(&mut self, changed: &Changed) -> bool {
        if changed.lost {
            self.forget_all();
            return true;
        }
        let ended: HashSet<&WatchDescriptor> = changed.watches.iter().collect();
        let before = self.watches.len();
        self.watches.retain(|_, watch| !ended.contains(watch));
        self.watches.len() < before
    }

    fn forget_all(&mut self) {
        self.retain(|_| false);
    }
}

/// Watches a log, and then whether it has to be rotated: it has reached `max_size`, is missing, or is no
/// regular file. Blocks.
pub fn look(files: Option<&NextChange>, log: &LogPath, max_size: u64) -> Look {
    // First: a write after the look is reported.
    let watch = files.map(|files| files.watch(&log.full()));
    let due = !log.seems_smaller_than(max_size);
    Look { watch: watch.and_then(io::Result::ok), due }
}

/// What was found of a log.
pub struct Look {
    pub watch: Option<WatchDescriptor>,
    /// It has to be rotated.
    pub due: bool,
}
