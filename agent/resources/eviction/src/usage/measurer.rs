//! Counts directories in turns: what is not finished in one turn continues in the next.
//!
//! Every directory gets its share of the time, those first that waited longest, so that a large one delays no
//! other. A finished figure that is older than twice the time that counting took is counted again when its
//! turn comes, and used for a few seconds more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::budget::Budget;
use super::walk::{BUFFER, Progress, Walk, identity, is_mount};
use crate::DiskUse;

/// One directory is counted for so long before others have their turn.
const SLICE: Duration = Duration::from_millis(50);
/// A directory is not counted again for this time and twice the time that counting took.
const FRESH: Duration = Duration::from_millis(500);
/// A figure is used for this time and twice the time that counting took, unless a newer one is finished.
const USABLE: Duration = Duration::from_secs(10);
/// A layer of which the runtime has no figure for this time although it answers, and which has no directory
/// here, cannot be counted: no decision waits for a figure of it.
const UNKNOWN: Duration = Duration::from_secs(30);
/// A walk that was not continued for this time starts over: what it counted is too old.
const ABANDONED: Duration = Duration::from_secs(180);
/// After so many walks in a row that missed something, the rest of a directory cannot be counted.
const PARTIAL_ENDS: u32 = 3;
/// Threads of one measurement: file systems answer several requests at a time.
const THREADS: usize = 4;

/// A part of a pod that is counted by itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// An `emptyDir` on disk, by name.
    Volume(String),
    /// The pod's directory without those.
    PodDir,
    /// Logs of a container, by name.
    Logs(String),
    /// The pod's log directory without those.
    OtherLogs,
    /// Writable layer, by container id.
    Layer(String),
}

/// A directory to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    /// Uid of the pod.
    pub uid: String,
    pub part: Part,
    pub path: PathBuf,
    /// Directories below that are not counted.
    pub skip: Vec<PathBuf>,
}

/// What is known of each directory, by the pod's uid and the part of its use.
type Slots = BTreeMap<(String, Part), Arc<Mutex<Slot>>>;

/// Keeps figures and walks of directories between measurements.
#[derive(Debug, Default)]
pub struct Measurer {
    slots: Mutex<Slots>,
    /// Since when a runtime that answers says nothing of a writable layer, by uid and container id.
    unknown: Mutex<BTreeMap<(String, String), Instant>>,
    budget: Budget,
}

/// What is known of one directory.
#[derive(Debug, Default)]
struct Slot {
    path: PathBuf,
    walk: Option<Started>,
    last: Option<Finished>,
    partial_ends: u32,
    served: Option<Instant>,
}

#[derive(Debug)]
struct Started {
    walk: Walk,
    began: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Finished {
    used: DiskUse,
    at: Instant,
    took: Duration,
}

impl Finished {
    /// Whether it is younger than `age` and twice the time that counting took.
    fn is_within(&self, age: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= age + 2 * self.took
    }
}

impl Measurer {
    /// Counts `directories` for at most `time`, and returns what is known of each by then, in their order.
    pub(super) fn measure(&self, directories: &[Directory], time: Duration) -> Vec<DiskUse> {
        let until = Instant::now() + time;
        let slots: Vec<_> = directories.iter().map(|directory| self.slot(directory)).collect();
        let mut order: Vec<_> = slots.iter().enumerate().map(|(at, slot)| (slot.lock().served, at)).collect();
        order.sort_unstable();
        let queue: Mutex<VecDeque<usize>> = Mutex::new(order.into_iter().map(|(_, at)| at).collect());
        let work = || {
            let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
            while Instant::now() < until {
                let Some(at) = queue.lock().pop_front() else { break };
                let (Some(directory), Some(slot)) = (directories.get(at), slots.get(at)) else { continue };
                let slice = until.min(Instant::now() + SLICE);
                if !slot.lock().advance(directory, &self.budget, slice, &mut buffer) {
                    queue.lock().push_back(at);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..THREADS.min(directories.len()) {
                let _ = thread::Builder::new().name("disk use".into()).spawn_scoped(scope, work);
            }
            work();
        });
        let now = Instant::now();
        slots.iter().map(|slot| slot.lock().used(now)).collect()
    }

    /// What is known of directories now, without counting.
    pub(super) fn known(&self, directories: &[Directory]) -> Vec<DiskUse> {
        let now = Instant::now();
        directories.iter().map(|directory| self.slot(directory).lock().used(now)).collect()
    }

    /// Finished figures are not used any more, because the disk has changed. Walks under way continue.
    pub(crate) fn expire(&self) {
        for slot in self.slots.lock().values() {
            slot.lock().last = None;
        }
    }

    /// Forgets pods that are not among `uids`, and what was not counted for a while.
    pub(crate) fn retain(&self, uids: &BTreeSet<&str>) {
        let now = Instant::now();
        let is_used = |slot: &Arc<Mutex<Slot>>| match slot.try_lock() {
            Some(slot) => slot.served.is_none_or(|at| now.saturating_duration_since(at) < ABANDONED),
            None => true,
        };
        self.unknown.lock().retain(|(uid, _), _| uids.contains(uid.as_str()));
        self.slots.lock().retain(|(uid, _), slot| uids.contains(uid.as_str()) && is_used(slot));
    }

    /// Whether a layer cannot be counted because nothing is known of it: a runtime that answers and has no
    /// figure of it for this time will not have one later. The time begins again with each figure (`known`),
    /// and while the runtime does not answer, which says nothing of the layer.
    pub(super) fn is_given_up(
        &self,
        uid: &str,
        container: &str,
        known: bool,
        answers: bool,
        now: Instant,
    ) -> bool {
        let key = (uid.to_owned(), container.to_owned());
        let mut unknown = self.unknown.lock();
        if known || !answers {
            unknown.remove(&key);
            return false;
        }
        let since = *unknown.entry(key).or_insert(now);
        now.saturating_duration_since(since) >= UNKNOWN
    }

    fn slot(&self, directory: &Directory) -> Arc<Mutex<Slot>> {
        let key = (directory.uid.clone(), directory.part.clone());
        self.slots.lock().entry(key).or_default().clone()
    }
}

impl Slot {
    /// Counts on. Returns whether there is a figure of all that can be counted now.
    fn advance(
        &mut self,
        directory: &Directory,
        budget: &Budget,
        until: Instant,
        buffer: &mut [MaybeUninit<u8>],
    ) -> bool {
        let now = Instant::now();
        if self.path != directory.path {
            *self = Self { path: directory.path.clone(), ..Self::default() };
        }
        let served = self.served.replace(now);
        if self.last.is_some_and(|last| last.is_within(FRESH, now)) {
            return true;
        }
        self.walk.take_if(|_| served.is_none_or(|at| now.saturating_duration_since(at) >= ABANDONED));
        let mut started = match self.walk.take() {
            Some(started) => started,
            None => {
                // What a container mounted over its volume is not the volume's, and may never answer.
                if matches!(directory.part, Part::Volume(_)) && is_mount(&directory.path) {
                    return self.finish(DiskUse::UNKNOWN, now);
                }
                let skip = directory.skip.iter().filter_map(|path| identity(path)).collect();
                match Walk::start(&directory.path, skip, budget) {
                    Ok(Some(walk)) => Started { walk, began: now },
                    Ok(None) => return self.finish(DiskUse::default(), now),
                    Err(error) => {
                        tracing::debug!(directory = %directory.path.display(), %error, "not counted");
                        return self.finish(DiskUse::UNKNOWN, now);
                    }
                }
            }
        };
        match started.walk.run(until, buffer) {
            Progress::Finished => self.finish(started.walk.used(), started.began),
            Progress::TimeOver => {
                self.walk = Some(started);
                false
            }
        }
    }

    fn finish(&mut self, mut used: DiskUse, began: Instant) -> bool {
        let before = self.partial_ends;
        self.partial_ends = if used.complete { 0 } else { PARTIAL_ENDS.min(before + 1) };
        used.uncountable = self.partial_ends == PARTIAL_ENDS;
        if used.uncountable && before < PARTIAL_ENDS {
            tracing::warn!(
                "{} cannot be counted completely: it has at least {} bytes and {} inodes",
                self.path.display(),
                used.bytes,
                used.inodes
            );
        }
        let at = Instant::now();
        self.last = Some(Finished { used, at, took: at.saturating_duration_since(began) });
        true
    }

    fn used(&self, now: Instant) -> DiskUse {
        let last = self.last.filter(|last| last.is_within(USABLE, now)).map(|last| last.used);
        match (last, self.walk.as_ref().map(|started| started.walk.used())) {
            (None, None) => DiskUse::UNKNOWN,
            (Some(used), None) | (None, Some(used)) => used,
            (Some(last), Some(next)) => last.at_least(next),
        }
    }
}

#[cfg(test)]
mod tests;
