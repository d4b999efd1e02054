//! The newest decisions made under pressure, for `nodewarden explain`: in memory and in `decisions.json` of
//! the state directory.
//!
//! Decisions never wait for the disk, which may be what the node is short of: the newest state is written in
//! the background. A damaged file is renamed, and the history starts empty.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use nodewarden_model::Decision;
use nodewarden_storage::state_file::{Format, StateFile, StateFileError};
use nodewarden_storage::write_behind::WriteBehind;

const NAME: &str = "decisions.json";
const FORMAT: Format = Format::new("history", 1);

/// Maximum number of decisions.
const DECISIONS: usize = 256;
/// Maximum number of pods in all decisions together, each of about 250 bytes. The newest decision is kept in
/// any case.
const CANDIDATES: usize = 8192;

/// The history; see the module. Clones share it.
#[derive(Debug, Clone)]
pub struct History(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    writer: WriteBehind<Kept>,
}

/// What is on disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// The number of the newest decision.
    last: u64,
    /// Oldest first.
    #[serde(with = "shared")]
    decisions: VecDeque<Arc<Decision>>,
}

impl History {
    /// Reads the decisions of earlier agents with this state directory. If they cannot be read, the history
    /// is empty, and the reason is returned.
    pub fn open(state_dir: &Path) -> (Self, Option<StateFileError>) {
        let (file, kept, problem) = StateFile::open::<Kept>(state_dir.join(NAME), FORMAT);
        let consequence = "a restart of the agent would not know its last decisions";
        let save = move |kept| file.save(&kept).map(drop);
        let writer = WriteBehind::on_thread("decisions", consequence, save);
        (Self(Arc::new(Shared { kept: Mutex::new(kept.unwrap_or_default()), writer })), problem)
    }

    /// Adds a decision and returns the number that it gets. Facts that become known later are added by
    /// [`Self::replace`].
    pub fn add(&self, decision: Decision) -> u64 {
        let mut kept = self.0.kept.lock();
        kept.last += 1;
        let number = kept.last;
        kept.decisions.push_back(Arc::new(Decision { number, ..decision }));
        kept.shorten();
        self.0.writer.save(kept.clone());
        number
    }

    /// Replaces the decision with the same number by this more complete record. Does nothing if that decision
    /// has been dropped.
    pub fn replace(&self, decision: Decision) {
        let mut kept = self.0.kept.lock();
        let own = kept.decisions.iter_mut().rev().find(|own| own.number == decision.number);
        if let Some(own) = own {
            *own = Arc::new(decision);
            kept.shorten();
            self.0.writer.save(kept.clone());
        }
    }

    /// The decisions, newest first.
    pub fn newest(&self) -> Vec<Arc<Decision>> {
        self.0.kept.lock().decisions.iter().rev().cloned().collect()
    }

    /// Waits until all changes so far are on disk or have failed to be written.
    #[cfg(test)]
    fn settle(&self) {
        let _ = self.0.writer.settle();
    }
}

impl Kept {
    /// Drops the oldest decisions beyond the limits.
    fn shorten(&mut self) {
        let mut candidates: usize = self.decisions.iter().map(|own| own.candidates.len()).sum();
        while self.decisions.len() > DECISIONS || (self.decisions.len() > 1 && candidates > CANDIDATES) {
            let oldest = self.decisions.pop_front();
            candidates -= oldest.map_or(0, |own| own.candidates.len());
        }
    }
}

/// Decisions that are shared, as a list of them.
mod shared {
    use super::{Arc, Decision, VecDeque};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(own: &VecDeque<Arc<Decision>>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(own.iter().map(|own| &**own))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<VecDeque<Arc<Decision>>, D::Error> {
        Ok(Vec::<Decision>::deserialize(from)?.into_iter().map(Arc::new).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use nodewarden_model::fixture::decisions;

    fn decision(candidates: usize) -> Decision {
        let mut own = (*decisions()[0]).clone();
        own.candidates = vec![own.candidates[0].clone(); candidates];
        own
    }

    fn numbers(history: &History) -> Vec<u64> {
        history.newest().iter().map(|own| own.number).collect()
    }

    #[test]
    fn outlives_the_agent_with_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let (history, problem) = History::open(dir.path());
        assert!(problem.is_none() && history.newest().is_empty(), "{problem:?}");
        assert_eq!([1, 2].map(|_| history.add(decision(1))), [1, 2]);
        let more = Decision { number: 1, outcome: "memory is back".into(), ..decision(1) };
        history.replace(more.clone());
        history.replace(Decision { number: 9, ..more });
        history.settle();
        let (again, problem) = History::open(dir.path());
        assert!(problem.is_none(), "{problem:?}");
        assert_eq!(again.newest(), history.newest());
        assert_eq!((numbers(&again), again.newest()[1].outcome.as_str()), (vec![2, 1], "memory is back"));
        assert_eq!(again.add(decision(1)), 3);
        again.settle();
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [NAME]);
    }

    #[test]
    fn the_newest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (history, _) = History::open(dir.path());
        for _ in 0..DECISIONS + 3 {
            history.add(decision(0));
        }
        let last = (DECISIONS + 3) as u64;
        assert_eq!(numbers(&history), (4..=last).rev().collect::<Vec<_>>());
        // Fewer if they contain many pods, but always the newest.
        history.add(decision(CANDIDATES));
        assert_eq!(history.newest().len(), DECISIONS);
        history.add(decision(1));
        assert_eq!(numbers(&history), [last + 2]);
        history.add(decision(CANDIDATES + 1));
        assert_eq!(numbers(&history), [last + 3]);
        history.settle();
        assert_eq!(numbers(&History::open(dir.path()).0), [last + 3]);
    }

    #[test]
    fn a_damaged_file_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let (history, _) = History::open(dir.path());
        history.add(decision(1));
        history.settle();
        let path = dir.path().join(NAME);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("shop", "shep")).unwrap();
        let (reopened, problem) = History::open(dir.path());
        let message = problem.unwrap().to_string();
        assert!(message.contains("checksum") && message.contains("decisions.json.damaged"), "{message}");
        assert!(reopened.newest().is_empty());
        reopened.add(decision(1));
        reopened.settle();
        assert_eq!(numbers(&History::open(dir.path()).0), [1]);
    }

    #[test]
    fn without_a_disk_it_is_kept_in_memory() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let (history, problem) = History::open(&missing);
        assert!(problem.is_none(), "{problem:?}");
        history.add(decision(1));
        history.settle();
        assert_eq!((numbers(&history), missing.exists()), (vec![1], false));
        // A failed write is made up for by the next one.
        fs::create_dir(&missing).unwrap();
        history.add(decision(1));
        history.settle();
        assert_eq!(numbers(&History::open(&missing).0), [2, 1]);
    }
}
