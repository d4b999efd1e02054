//! Pods in whose work the agent panicked. Their workers wait before they start again, longer each time: a
//! pod that brings out a fault must not keep the agent from all others. The waiting times are those of a
//! container that crashes again and again (kubelet: `MaxCrashLoopBackOff`).
//!
//! One file a pod, so that the next agent knows of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use nodewarden_model::backoff::Backoff;

const WAITS: Backoff = Backoff::doubling(Duration::from_secs(10), Duration::from_secs(300));
/// After so long without another one a fault is the first again.
const FORGIVEN: SignedDuration = SignedDuration::from_mins(10);
const EXTENSION: &str = "json";

/// The last panic in the work for a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// How often it happened, each time within ten minutes of the time before.
    pub times: u32,
    /// When.
    pub at: Timestamp,
    /// The panic's text and place.
    pub text: String,
}

impl Fault {
    /// One that happens now, after `before`.
    fn after(before: Option<&Self>, text: &str, now: Timestamp) -> Self {
        let recent = before.filter(|before| now.duration_since(before.end()) < FORGIVEN);
        let times = recent.map_or(0, |before| before.times).saturating_add(1);
        Self { times, at: now, text: text.to_owned() }
    }

    /// When the worker may start again.
    fn end(&self) -> Timestamp {
        let wait = WAITS.nth(self.times.saturating_sub(1));
        // Only a damaged file has a time so late.
        self.at.checked_add(wait).unwrap_or(self.at)
    }

    /// How long the worker has to wait from `now` on. A clock that was set back makes it no longer.
    pub fn wait(&self, now: Timestamp) -> Duration {
        let longest = WAITS.nth(self.times.saturating_sub(1));
        let left = self.end().duration_since(now);
        Duration::try_from(left).unwrap_or_default().min(longest)
    }
}

/// The faults of all pods.
#[derive(Debug)]
pub struct Faults {
    dir: PathBuf,
    known: Mutex<BTreeMap<String, Fault>>,
}

impl Faults {
    /// Reads what an earlier agent wrote to `dir`. What cannot be read counts as nothing, and what is of no
    /// concern any more is removed.
    pub fn open(dir: &Path, now: Timestamp) -> Self {
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let read = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Fault>(&text).ok());
            match read.filter(|fault| now.duration_since(fault.end()) < FORGIVEN) {
                Some(fault) => drop(known.insert(name, fault)),
                // What stays is read again by the next agent.
                None => drop(fs::remove_file(&path)),
            }
        }
        Self { dir: dir.to_owned(), known: Mutex::new(known) }
    }

    /// The last fault of this pod.
    pub fn of(&self, uid: &str) -> Option<Fault> {
        self.known.lock().get(uid).cloned()
    }

    /// Writes down that the work for this pod panicked now. Blocks.
    ///
    /// # Errors
    /// The file cannot be written: this agent knows of it all the same, the next one does not.
    pub fn record(&self, uid: &str, text: &str, now: Timestamp) -> io::Result<()> {
        let mut known = self.known.lock();
        let fault = Fault::after(known.get(uid), text, now);
        let written = self.write(uid, &fault);
        known.insert(uid.to_owned(), fault);
        written
    }

    fn write(&self, uid: &str, fault: &Fault) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        fs::write(self.path(uid), serde_json::to_vec(fault)?)
    }

    /// The pod is gone.
    pub fn forget(&self, uid: &str) {
        if self.known.lock().remove(uid).is_some() {
            // A file that stays is removed by an agent that finds it too old.
            let _ = fs::remove_file(self.path(uid));
        }
    }

    fn path(&self, uid: &str) -> PathBuf {
        self.dir.join(format!("{uid}.{EXTENSION}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn each_fault_waits_twice_as_long_up_to_five_minutes_and_the_first_again_after_ten() {
        let mut now = 0;
        let mut fault = Fault::after(None, "x", at(now));
        let mut waits = Vec::new();
        for _ in 0..7 {
            let wait = fault.wait(at(now)).as_secs();
            waits.push(wait);
            now += i64::try_from(wait).unwrap() + 599;
            fault = Fault::after(Some(&fault), "x", at(now));
        }
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        let wait = i64::try_from(fault.wait(at(now)).as_secs()).unwrap();
        let later = Fault::after(Some(&fault), "y", at(now + wait + 600));
        assert_eq!((later.times, later.text.as_str()), (1, "y"));
    }

    #[test]
    fn the_wait_ends_and_a_clock_that_is_set_back_makes_it_no_longer() {
        let fault = Fault { times: 2, at: at(0), text: String::new() };
        for (now, wait) in [(0, 20), (5, 15), (20, 0), (1000, 0), (-3600, 20)] {
            assert_eq!(fault.wait(at(now)), Duration::from_secs(wait), "{now}");
        }
    }

    #[test]
    fn the_next_agent_knows_the_fault_until_the_pod_is_gone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("faults");
        let faults = Faults::open(&dir, at(0));
        assert_eq!(faults.of("u"), None);
        faults.record("u", "once", at(0)).unwrap();
        faults.record("u", "twice", at(30)).unwrap();
        let second = Fault { times: 2, at: at(30), text: "twice".into() };
        assert_eq!(faults.of("u"), Some(second.clone()));
        let next = Faults::open(&dir, at(31));
        assert_eq!(next.of("u"), Some(second));
        next.forget("u");
        assert_eq!((next.of("u"), Faults::open(&dir, at(32)).of("u")), (None, None));
    }

    #[test]
    fn what_is_old_or_damaged_counts_as_nothing_and_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let faults = Faults::open(temp.path(), at(0));
        faults.record("old", "x", at(0)).unwrap();
        fs::write(temp.path().join("damaged.json"), "{").unwrap();
        let next = Faults::open(temp.path(), at(611));
        assert_eq!((next.of("old"), next.of("damaged")), (None, None));
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
