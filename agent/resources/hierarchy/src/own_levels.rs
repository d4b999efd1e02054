//! The levels (`kubepods` and the cgroups of the QoS classes) that this agent has created: recorded on disk
//! before they are created, so that those of earlier settings (`cgroupRoot`, the cgroup driver) are removed
//! when nothing is in them any more, and no others.
//!
//! `levels.json` in the state directory has their paths and the boot id of the machine: after a reboot the
//! same paths may be another agent's.

use std::collections::BTreeSet;
use std::path::Path;

use nodewarden_machine::cgroup::control::{Manager, Presence};
use nodewarden_machine::clock::read_clocks;
use nodewarden_qos::Levels;
use nodewarden_storage::state_file::{Format, StateFile, StateFileError};
use serde::{Deserialize, Serialize};

const NAME: &str = "levels.json";
const FORMAT: Format = Format::new("levels", 1);

/// The file and its content.
#[derive(Debug)]
pub struct OwnLevels {
    file: StateFile,
    own: Content,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Content {
    boot_id: String,
    paths: BTreeSet<String>,
}

impl OwnLevels {
    /// Reads the file that an earlier agent left in `dir`. If it cannot be read, the error is returned and no
    /// level counts as this agent's.
    pub fn open(dir: &Path) -> (Self, Option<StateFileError>) {
        Self::open_after_boot(dir, read_clocks().boot_id.to_string())
    }

    fn open_after_boot(dir: &Path, boot_id: String) -> (Self, Option<StateFileError>) {
        let (file, own, problem) = StateFile::open::<Content>(dir.join(NAME), FORMAT);
        let own = own.filter(|own| own.boot_id == boot_id);
        (Self { file, own: own.unwrap_or_else(|| Content { boot_id, ..Content::default() }) }, problem)
    }

    /// Records those levels that do not exist yet, before they are created.
    ///
    /// # Errors
    /// The file cannot be written: they will not be removed when the settings change.
    pub fn record_missing(&mut self, manager: &Manager, levels: &Levels) -> Result<(), StateFileError> {
        let missing =
            paths(manager, levels).into_iter().filter(|path| manager.presence(path) == Presence::Nowhere);
        let before = self.own.clone();
        self.own.paths.extend(missing);
        self.save_since(&before)
    }

    /// Those that are not `current`, each before the one that it is in.
    pub fn former(&self, manager: &Manager, current: Option<&Levels>) -> Vec<String> {
        let current = current.map(|levels| paths(manager, levels)).unwrap_or_default();
        let former = self.own.paths.iter().filter(|path| !current.contains(*path));
        former.rev().cloned().collect()
    }

    /// Removes one that is gone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remove(&mut self, path: &str) -> Result<(), StateFileError> {
        let before = self.own.clone();
        self.own.paths.remove(path);
        self.save_since(&before)
    }

    fn save_since(&mut self, before: &Content) -> Result<(), StateFileError> {
        if self.own == *before { Ok(()) } else { self.file.save(&self.own).map(drop) }
    }
}

fn paths(manager: &Manager, levels: &Levels) -> [String; 3] {
    [&levels.kubepods, &levels.burstable, &levels.best_effort].map(|level| manager.path(level))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn known(dir: &Path, boot_id: &str) -> Vec<String> {
        OwnLevels::open_after_boot(dir, boot_id.to_owned()).0.own.paths.into_iter().collect()
    }

    #[test]
    fn levels_of_this_boot_are_known_to_the_next_agent() {
        let dir = tempfile::tempdir().unwrap();
        let (mut levels, problem) = OwnLevels::open_after_boot(dir.path(), "a".into());
        assert!(problem.is_none() && levels.own.paths.is_empty());
        levels.own.paths.extend(["/x/kubepods".to_owned(), "/x/kubepods/burstable".to_owned()]);
        levels.save_since(&Content::default()).unwrap();
        assert_eq!(known(dir.path(), "a"), ["/x/kubepods", "/x/kubepods/burstable"]);
        assert_eq!(known(dir.path(), "b"), [""; 0], "all cgroups are gone since");
        levels.remove("/x/kubepods/burstable").unwrap();
        assert_eq!(known(dir.path(), "a"), ["/x/kubepods"]);
        fs::write(dir.path().join(NAME), "{").unwrap();
        let (levels, problem) = OwnLevels::open_after_boot(dir.path(), "a".into());
        assert!(problem.is_some() && levels.own.paths.is_empty());
    }
}
