//! The state of the eviction engine on disk: which thresholds are passed since when, and which conditions
//! last.
//!
//! A thread of its own writes the newest state: decisions never wait for a disk.

use std::path::Path;

use super::shared::Saved;
use crate::Pressure;
use nodewarden_storage::state_file::{Format, StateFile};
use nodewarden_storage::write_behind::WriteBehind;

const NAME: &str = "eviction.json";
const FORMAT: Format = Format::new("eviction", 1);

/// See the module. What was given is written also after this is dropped.
pub struct Saver(WriteBehind<Saved>);

/// What an earlier agent left, for the engine to go on with.
pub struct RestoredState {
    pub(super) saver: Saver,
    pub(super) saved: Saved,
    /// Why it cannot be read, if it cannot.
    pub(super) problem: Option<String>,
}

impl RestoredState {
    /// Reads `eviction.json` of the state directory.
    pub fn open(state_dir: &Path) -> Self {
        let (saver, saved, problem) = Saver::open(state_dir);
        Self { saver, saved, problem }
    }

    /// Conditions that were true when the state was written. Until the first assessment, evicted pods are not
    /// restarted while one of them applies.
    pub fn pressure(&self) -> Pressure {
        let mut pressure = self.saved.fast.pressure();
        pressure.0.extend(self.saved.disk.pressure().0);
        pressure
    }
}

impl Saver {
    /// What an earlier agent left, and why it cannot be read if it cannot.
    pub fn open(state_dir: &Path) -> (Self, Saved, Option<String>) {
        let (file, saved, problem) = StateFile::open::<Saved>(state_dir.join(NAME), FORMAT);
        let consequence = "after a restart thresholds count as passed from then on";
        let save = move |saved| file.save(&saved).map(drop);
        let writer = WriteBehind::on_thread("eviction-state", consequence, save);
        (Self(writer), saved.unwrap_or_default(), problem.map(|problem| problem.to_string()))
    }

    /// Writes it in the background.
    pub fn save(&self, saved: Saved) {
        self.0.save(saved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_agent_reads_what_was_saved() {
        let dir = tempfile::tempdir().unwrap();
        let (saver, nothing, problem) = Saver::open(dir.path());
        assert_eq!((nothing, problem), (Saved::default(), None));
        saver.save(Saved::default());
        saver.0.settle().unwrap();
        assert_eq!(Saver::open(dir.path()).2, None);
        std::fs::write(dir.path().join(NAME), "{").unwrap();
        assert!(Saver::open(dir.path()).2.is_some());
    }
}
