//! The pods that were killed and of which the API server has not heard yet, on disk.
//!
//! A thread of its own writes them: a kill never waits for a disk.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use nodewarden_storage::state_file::{Format, StateFile};
use nodewarden_storage::write_behind::WriteBehind;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

const NAME: &str = "killed.json";
const FORMAT: Format = Format::new("killed", 1);

/// A pod that was killed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Killed {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Why, in the kubelet's words.
    pub message: String,
    /// When.
    pub time: Timestamp,
}

/// Those that the API server does not have yet, by uid.
pub struct Record {
    waiting: Mutex<BTreeMap<String, Killed>>,
    writer: WriteBehind<Vec<Killed>>,
}

impl Record {
    /// Reads `killed.json` of the state directory. Also returns why it cannot be read, if so.
    pub fn open(state_dir: &Path) -> (Self, Option<String>) {
        let (file, waiting, problem) = StateFile::open::<Vec<Killed>>(state_dir.join(NAME), FORMAT);
        let consequence = "after a restart the API server will not hear of pods that were killed";
        let save = move |killed| file.save(&killed).map(drop);
        let writer = WriteBehind::on_thread("killed-pods", consequence, save);
        let waiting = waiting.unwrap_or_default().into_iter().map(|own| (own.uid.clone(), own)).collect();
        (Self { waiting: Mutex::new(waiting), writer }, problem.map(|problem| problem.to_string()))
    }

    /// All that wait.
    pub fn waiting(&self) -> Vec<Killed> {
        self.waiting.lock().values().cloned().collect()
    }

    /// Adds one. False if this pod waits already: it was started again before the API server heard of the
    /// first kill.
    pub fn add(&self, killed: Killed) -> bool {
        let mut waiting = self.waiting.lock();
        let is_new = waiting.insert(killed.uid.clone(), killed).is_none();
        self.writer.save(waiting.values().cloned().collect());
        is_new
    }

    /// The API server has heard of this one.
    pub fn remove(&self, uid: &str) {
        let mut waiting = self.waiting.lock();
        if waiting.remove(uid).is_some() {
            self.writer.save(waiting.values().cloned().collect());
        }
    }

    #[cfg(test)]
    fn settle(&self) {
        self.writer.settle().unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn killed(uid: &str) -> Killed {
        Killed {
            uid: uid.into(),
            namespace: "n".into(),
            name: format!("pod-{uid}"),
            message: "low".into(),
            time: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_next_agent_has_what_the_api_server_has_not() {
        let dir = tempfile::tempdir().unwrap();
        let (record, problem) = Record::open(dir.path());
        assert_eq!((record.waiting(), problem), (vec![], None));
        assert!(record.add(killed("a")) && record.add(killed("b")));
        assert!(!record.add(killed("b")), "it waits already");
        record.settle();
        let (next, _) = Record::open(dir.path());
        assert_eq!(next.waiting(), [killed("a"), killed("b")]);
        next.remove("a");
        next.remove("another");
        next.settle();
        assert_eq!(Record::open(dir.path()).0.waiting(), [killed("b")]);
    }

    #[test]
    fn a_damaged_file_is_reported_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(NAME), "{").unwrap();
        let (record, problem) = Record::open(dir.path());
        assert!(record.waiting().is_empty() && problem.is_some());
    }
}
