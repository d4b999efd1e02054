//! The thread that keeps the hierarchy.

use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::destroyer::{Destroyer, Outcome};
use super::keep::{Keep, Places};
use super::overlay::Overlay;
use super::sync::{Syncer, Turn};
use nodewarden_machine::cgroup::control::Manager;
use nodewarden_model::HierarchyStatus;
use nodewarden_model::backoff::Backoff;

/// How often cgroups are looked at that wait for their pods' volumes (the kubelet's housekeeping).
const HELD: Duration = Duration::from_secs(2);
/// How soon what failed is tried again at first.
const RETRY: Duration = Duration::from_secs(1);

/// What wakes the keeper.
enum Wake {
    Pods(Keep),
    Overlay(Overlay),
    Look,
    Destroyed(Outcome),
    Stop,
}

/// The running keeper. Dropping it ends the thread and leaves the hierarchy as it is: pods outlive their agent.
#[derive(Debug)]
pub struct Keeper {
    wakes: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
    status: Arc<Mutex<HierarchyStatus>>,
    places: watch::Receiver<Arc<Places>>,
    words: Arc<AtomicU64>,
    squeezable: Squeezable,
}

/// Who can be held back beside their own limits, and how.
#[derive(Debug, Clone)]
pub struct Squeezable {
    pub manager: Arc<Manager>,
    /// Paths of the levels' cgroups.
    pub best_effort: String,
    pub burstable: String,
    /// The levels are there (`cgroupsPerQOS`).
    pub levels: bool,
    /// `cpu.idle` can be set.
    pub idle: bool,
    /// There is a `memory.high`: cgroup v2.
    pub memory_high: bool,
}

/// Hands pods to the keeper from other threads.
#[derive(Debug, Clone)]
pub struct PodSink {
    wakes: Sender<Wake>,
    /// Words on their way, counted before they are sent.
    words: Arc<AtomicU64>,
}

impl PodSink {
    /// From now on these are kept; at once, on the keeper's thread.
    pub fn send(&self, keep: Keep) {
        self.words.fetch_add(1, Ordering::Release);
        // Nobody listens any more when the agent ends.
        let _ = self.wakes.send(Wake::Pods(keep));
    }

    /// From now on the levels are held to this, over their own limits; undone when the keeper ends.
    pub fn overlay(&self, overlay: Overlay) {
        let _ = self.wakes.send(Wake::Overlay(overlay));
    }

    /// Something that cgroups wait for is over: a pod's volumes are gone.
    pub fn look(&self) {
        let _ = self.wakes.send(Wake::Look);
    }
}

impl Keeper {
    /// Makes the node and QoS levels at once and the pods when they are told; compares everything every `reconcile`.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn start(mut syncer: Syncer, reconcile: Duration) -> io::Result<Self> {
        let (wakes, woken) = channel();
        let done = wakes.clone();
        let destroyer = Destroyer::start(syncer.manager(), move |outcome| {
            let _ = done.send(Wake::Destroyed(outcome));
        })?;
        let (status, places, words) = (syncer.status(), syncer.places(), syncer.words());
        let squeezable = syncer.squeezable();
        // Here and not on the thread: whoever asks for readiness gets a hierarchy that stands.
        let mut destroyer = destroyer;
        syncer.turn(Turn::Whole, &mut destroyer);
        let thread = thread::Builder::new()
            .name("hierarchy".into())
            .spawn(move || run(&mut syncer, &mut destroyer, &woken, reconcile))?;
        Ok(Self { wakes, thread: Some(thread), status, places, words, squeezable })
    }

    pub fn sink(&self) -> PodSink {
        PodSink { wakes: self.wakes.clone(), words: self.words.clone() }
    }

    /// Where the pods' cgroups are, told anew with every change.
    pub fn places(&self) -> watch::Receiver<Arc<Places>> {
        self.places.clone()
    }

    pub fn squeezable(&self) -> &Squeezable {
        &self.squeezable
    }

    /// The status, as of the last sync.
    pub fn status(&self) -> Arc<Mutex<HierarchyStatus>> {
        self.status.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.wakes.send(Wake::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// When everything is compared the next time.
struct Schedule {
    reconcile: Duration,
    whole: Instant,
    /// How long after a failure, at most the time between two full comparisons.
    retry: Backoff,
    failing: bool,
}

impl Schedule {
    fn new(reconcile: Duration, now: Instant) -> Self {
        let retry = Backoff::doubling(RETRY, reconcile);
        Self { reconcile, whole: now + reconcile, retry, failing: false }
    }

    /// After a turn, which left something undone or not.
    fn after(&mut self, turn: Turn, ails: bool, now: Instant) {
        if turn == Turn::Whole {
            self.whole = now + self.reconcile;
        }
        if !ails || !self.failing {
            self.retry.reset();
        } else if turn == Turn::Whole {
            self.retry.advance();
        }
        self.failing = ails;
        if ails {
            self.whole = self.whole.min(now + self.retry.wait());
        }
    }
}

fn run(syncer: &mut Syncer, destroyer: &mut Destroyer, woken: &Receiver<Wake>, reconcile: Duration) {
    let mut schedule = Schedule::new(reconcile, Instant::now());
    schedule.after(Turn::Whole, syncer.ails(), Instant::now());
    loop {
        let now = Instant::now();
        let due = if syncer.waits() { schedule.whole.min(now + HELD) } else { schedule.whole };
        let mut wake = match woken.recv_timeout(due.saturating_duration_since(now)) {
            Ok(wake) => Some(wake),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut changed = wake.is_none();
        // Everything that is there is taken before the next turn: a burst of removals is one change.
        while let Some(one) = wake {
            match one {
                Wake::Stop => return syncer.release(destroyer),
                Wake::Pods(keep) => {
                    syncer.keep(keep);
                    changed = true;
                }
                Wake::Overlay(overlay) => {
                    syncer.overlay(overlay);
                    changed = true;
                }
                Wake::Look => changed = true,
                Wake::Destroyed(outcome) => changed |= syncer.destroyed(&outcome, destroyer),
            }
            wake = woken.try_recv().ok();
        }
        let turn = if Instant::now() >= schedule.whole { Turn::Whole } else { Turn::Part };
        if changed || turn == Turn::Whole {
            syncer.turn(turn, destroyer);
            schedule.after(turn, syncer.ails(), Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_twice_as_long_up_to_the_reconcile_period() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut schedule = Schedule::new(60 * second, now);
        schedule.after(Turn::Part, false, now);
        assert_eq!(schedule.whole, now + 60 * second);
        schedule.after(Turn::Part, true, now);
        assert_eq!(schedule.whole, now + RETRY);
        // Changes meanwhile put it off no further.
        schedule.after(Turn::Part, true, now + RETRY / 2);
        assert_eq!(schedule.whole, now + RETRY);
        for times in [2, 4, 8, 16, 32] {
            schedule.after(Turn::Whole, true, now);
            assert_eq!(schedule.whole, now + RETRY * times);
        }
        // However long it fails.
        for _ in 0..100 {
            schedule.after(Turn::Whole, true, now);
            assert_eq!(schedule.whole, now + 60 * second);
        }
        schedule.after(Turn::Whole, false, now);
        schedule.after(Turn::Part, true, now);
        assert_eq!(schedule.whole, now + RETRY);
    }
}
