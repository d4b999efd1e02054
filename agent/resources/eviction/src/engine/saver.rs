//! The state of the eviction engine on disk: since when thresholds are passed and which conditions are true.
//!
//! A thread of its own writes the newest state: decisions never wait for a disk.

use std::path::Path;

use super::shared::Saved;
use crate::Pressure;
use nodewarden_storage::state_file::{Format, StateFile};
use nodewarden_storage::write_behind::WriteBehind;

const NAME: &str = "eviction.json";
const FORMAT: Format = Format::new("eviction", 1);

/// Writes the state; see the module. Pending state is written even after this is dropped.
pub struct Saver(WriteBehind<Saved>);

/// The state that an earlier agent has written, with which the engine continues.
pub struct RestoredState {
    pub(super) saver: Saver,
    pub(super) saved: Saved,
    /// The error if it cannot be read.
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
    /// The state that an earlier agent has written, and the error if it cannot be read.
    pub fn open(state_dir: &Path) -> (Self, Saved, Option<String>) {
        let (file, saved, problem) = StateFile::open::<Saved>(state_dir.join(NAME), FORMAT);
        let consequence = "after a restart thresholds count as passed from then on";
        let save = move |saved| file.save(&saved).map(drop);
        let writer = WriteBehind::on_thread("eviction-state", consequence, save);
        (Self(writer), saved.unwrap_or_default(), problem.map(|problem| problem.to_string()))
    }

    /// Writes the state in the background.
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
