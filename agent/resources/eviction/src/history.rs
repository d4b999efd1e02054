//! What was decided under pressure, kept for `nodewarden explain`: the newest decisions in memory, and in
//! `decisions.json` of the state directory.
//!
//! Nobody waits for the disk, which may be what is short: a thread of its own writes the newest state and ends when
//! there is no newer one. A damaged file is set aside and the history begins anew.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracing::warn;

use nodewarden_model::Decision;
use nodewarden_storage::state_file::{Format, StateFile, StateFileError};

const NAME: &str = "decisions.json";
const FORMAT: Format = Format::new("history", 1);

/// So many decisions are kept,
const DECISIONS: usize = 256;
/// and so many pods in all of them together, some 250 bytes each. The newest decision is kept whole anyway.
const CANDIDATES: usize = 8192;

/// See the module. Cloning shares it.
#[derive(Debug, Clone)]
pub struct History(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    file: StateFile,
    state: Mutex<State>,
    /// Rings when the writer has ended.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    kept: Kept,
    /// What is in memory is newer than what was last given to the disk.
    dirty: bool,
    /// The writer is on its way.
    writing: bool,
    /// The last write failed: said once.
    failing: bool,
}

/// What is on disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    /// The number that was given last.
    last: u64,
    /// Oldest first.
    #[serde(with = "shared")]
    decisions: VecDeque<Arc<Decision>>,
}

impl History {
    /// The decisions of earlier agents with this state directory; none of them, and why, where they cannot be read.
    pub fn open(state_dir: &Path) -> (Self, Option<StateFileError>) {
        let (file, kept, problem) = StateFile::open::<Kept>(state_dir.join(NAME), FORMAT);
        let state = State { kept: kept.unwrap_or_default(), ..State::default() };
        (Self(Arc::new(Shared { file, state: Mutex::new(state), idle: Condvar::new() })), problem)
    }

    /// Keeps a decision and gives it its number, which it returns. What of it is known later comes by
    /// [`Self::replace`].
    pub fn add(&self, decision: Decision) -> u64 {
        let mut state = self.0.state();
        state.kept.last += 1;
        let number = state.kept.last;
        state.kept.decisions.push_back(Arc::new(Decision { number, ..decision }));
        state.kept.shorten();
        self.save(state);
        number
    }

    /// Puts a decision in the place of the one with its number: more of it is known now. One that is not kept any more
    /// stays away.
    pub fn replace(&self, decision: Decision) {
        let mut state = self.0.state();
        let own = state.kept.decisions.iter_mut().rev().find(|own| own.number == decision.number);
        if let Some(own) = own {
            *own = Arc::new(decision);
            state.kept.shorten();
            self.save(state);
        }
    }

    /// Newest first.
    pub fn newest(&self) -> Vec<Arc<Decision>> {
        self.0.state().kept.decisions.iter().rev().cloned().collect()
    }

    /// Waits until everything so far is on disk or could not be written.
    pub fn settle(&self) {
        let mut state = self.0.state();
        while state.writing {
            self.0.idle.wait(&mut state);
        }
    }

    fn save(&self, mut state: MutexGuard<'_, State>) {
        state.dirty = true;
        if std::mem::replace(&mut state.writing, true) {
            return;
        }
        drop(state);
        let shared = self.0.clone();
        let writer = std::thread::Builder::new().name("decisions".into());
        if let Err(error) = writer.spawn(move || shared.write()) {
            // The next decision tries again.
            warn!("decisions are not written to disk: no thread: {error}");
            self.0.state().writing = false;
            self.0.idle.notify_all();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Writes until nothing is newer than what is on disk.
    fn write(&self) {
        loop {
            let kept = {
                let mut state = self.state();
                if !std::mem::take(&mut state.dirty) {
                    state.writing = false;
                    self.idle.notify_all();
                    return;
                }
                // Shares the decisions themselves.
                state.kept.clone()
            };
            let saved = self.file.save(&kept);
            let failed_before = std::mem::replace(&mut self.state().failing, saved.is_err());
            if let Err(error) = saved
                && !failed_before
            {
                warn!("{error}: a restart of the agent would not know its last decisions");
            }
        }
    }
}

impl Kept {
    /// Leaves out the oldest beyond the bounds.
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
        // Fewer where many pods are in them, the newest in any case.
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
        let (anew, problem) = History::open(dir.path());
        let told = problem.unwrap().to_string();
        assert!(told.contains("checksum") && told.contains("decisions.json.damaged"), "{told}");
        assert!(anew.newest().is_empty());
        anew.add(decision(1));
        anew.settle();
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
        // What could not be written goes with the next one.
        fs::create_dir(&missing).unwrap();
        history.add(decision(1));
        history.settle();
        assert_eq!(numbers(&History::open(&missing).0), [2, 1]);
    }
}
