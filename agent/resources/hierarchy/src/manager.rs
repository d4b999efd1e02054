//! The hierarchy manager: the thread that reconciles pod cgroups, and the handle to it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::desired::{DesiredCgroups, PodCgroupStates};
use super::destroyer::{Destroyer, Outcome};
use super::reconciler::{Reconcile, Reconciler};
use super::status::StatusReader;
use super::sweeper::{Sweeper, Swept};
use super::throttle::{ThrottleOverrides, ThrottleTargets};
use nodewarden_machine::node::Capacity;
use nodewarden_model::backoff::Backoff;
use nodewarden_tasks::parts::{self, Part};

/// Time between two checks of cgroups that wait for their pods' volumes (the kubelet's housekeeping).
const HELD: Duration = Duration::from_secs(2);
/// First retry interval after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// What wakes the thread.
enum Wake {
    Pods(DesiredCgroups),
    Throttle(ThrottleOverrides),
    Volumes,
    Destroyed(Outcome),
    Swept(Swept),
    Stop,
}

/// The running manager. Dropping it ends the thread and leaves the hierarchy as it is: pods survive the
/// agent.
#[derive(Debug)]
pub struct HierarchyManager {
    wakes: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
    status: StatusReader,
    pod_cgroups: watch::Receiver<Arc<PodCgroupStates>>,
    pending_updates: Arc<AtomicU64>,
    throttle_targets: ThrottleTargets,
    capacity: watch::Receiver<Arc<Capacity>>,
}

/// Handle to the manager for other threads.
#[derive(Debug, Clone)]
pub struct HierarchyHandle {
    wakes: Sender<Wake>,
    /// Updates sent, counted before each is sent.
    pending_updates: Arc<AtomicU64>,
}

impl HierarchyHandle {
    /// Replaces the desired cgroups. Returns at once; the manager's thread reconciles.
    pub fn send(&self, keep: DesiredCgroups) {
        self.pending_updates.fetch_add(1, Ordering::Release);
        // Fails only when the agent is ending.
        let _ = self.wakes.send(Wake::Pods(keep));
    }

    /// Replaces the throttle overrides; they are undone when the manager ends.
    pub fn throttle(&self, overrides: ThrottleOverrides) {
        let _ = self.wakes.send(Wake::Throttle(overrides));
    }

    /// Reconciles because a pod's volumes are gone, which its cgroup waited for.
    pub fn volumes_changed(&self) {
        let _ = self.wakes.send(Wake::Volumes);
    }
}

impl HierarchyManager {
    /// Creates the levels and the cgroups of the known pods before it returns, and compares all of them every
    /// `reconcile`.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(mut reconciler: Reconciler, reconcile: Duration) -> io::Result<Self> {
        let (wakes, woken) = channel();
        let done = wakes.clone();
        let destroyer = Destroyer::start(reconciler.manager(), move |outcome| {
            let _ = done.send(Wake::Destroyed(outcome));
        })?;
        let sweeper = match reconciler.take_in_use() {
            Some(in_use) => {
                let done = wakes.clone();
                let swept = move |swept| drop(done.send(Wake::Swept(swept)));
                Some(Sweeper::start(reconciler.manager(), in_use, swept)?)
            }
            None => None,
        };
        let (status, pod_cgroups, pending_updates) =
            (reconciler.status(), reconciler.pod_cgroups(), reconciler.pending_updates());
        let throttle_targets = reconciler.throttle_targets();
        let capacity = reconciler.capacity();
        // On this thread, so that the hierarchy exists when the agent reports ready.
        let mut destroyer = destroyer;
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
        let part = parts::register("hierarchy", LIMIT);
        let thread = thread::Builder::new().name("hierarchy".into()).spawn(move || {
            run(&mut reconciler, &mut destroyer, sweeper.as_ref(), &woken, reconcile, &part);
            part.end();
        })?;
        let thread = Some(thread);
        Ok(Self { wakes, thread, status, pod_cgroups, pending_updates, throttle_targets, capacity })
    }

    /// A handle for other threads.
    pub fn handle(&self) -> HierarchyHandle {
        HierarchyHandle { wakes: self.wakes.clone(), pending_updates: self.pending_updates.clone() }
    }

    /// The state of every pod's cgroup; the receiver is notified of every change.
    pub fn pod_cgroups(&self) -> watch::Receiver<Arc<PodCgroupStates>> {
        self.pod_cgroups.clone()
    }

    /// The machine's capacity, as read by every full reconcile; the receiver is notified of every change.
    pub fn capacity(&self) -> watch::Receiver<Arc<Capacity>> {
        self.capacity.clone()
    }

    /// The levels that can be throttled.
    pub fn throttle_targets(&self) -> &ThrottleTargets {
        &self.throttle_targets
    }

    /// Reads the status as of the last reconcile.
    pub fn status(&self) -> StatusReader {
        self.status.clone()
    }
}

impl Drop for HierarchyManager {
    fn drop(&mut self) {
        let _ = self.wakes.send(Wake::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How long a reconcile may take: systemd may need seconds for each cgroup.
const LIMIT: Duration = Duration::from_secs(600);

/// When all cgroups are compared the next time.
struct Schedule {
    reconcile: Duration,
    whole: Instant,
    /// Time until the retry after a failure, at most that between two full reconciles.
    retry: Backoff,
    failing: bool,
}

impl Schedule {
    fn new(reconcile: Duration, now: Instant) -> Self {
        let retry = Backoff::doubling(RETRY, reconcile);
        Self { reconcile, whole: now + reconcile, retry, failing: false }
    }

    /// Updates the schedule after a reconcile.
    fn after(&mut self, scope: Reconcile, failed: bool, now: Instant) {
        if scope == Reconcile::Full {
            self.whole = now + self.reconcile;
        }
        if !failed || !self.failing {
            self.retry.reset();
        } else if scope == Reconcile::Full {
            self.retry.advance();
        }
        self.failing = failed;
        if failed {
            self.whole = self.whole.min(now + self.retry.wait());
        }
    }
}

fn run(
    reconciler: &mut Reconciler,
    destroyer: &mut Destroyer,
    sweeper: Option<&Sweeper>,
    woken: &Receiver<Wake>,
    reconcile: Duration,
    part: &Part,
) {
    let mut schedule = Schedule::new(reconcile, Instant::now());
    schedule.after(Reconcile::Full, reconciler.has_failures(), Instant::now());
    loop {
        let now = Instant::now();
        let due = if reconciler.has_deferred() { schedule.whole.min(now + HELD) } else { schedule.whole };
        part.waits();
        let received = woken.recv_timeout(due.saturating_duration_since(now));
        part.progress();
        let mut wake = match received {
            Ok(wake) => Some(wake),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut changed = wake.is_none();
        // All pending messages are handled before the next reconcile: a burst of removals is one change.
        while let Some(one) = wake {
            match one {
                Wake::Stop => return reconciler.release(destroyer),
                Wake::Pods(keep) => {
                    reconciler.keep(keep);
                    changed = true;
                }
                Wake::Throttle(overrides) => {
                    reconciler.throttle(overrides);
                    changed = true;
                }
                Wake::Volumes => changed = true,
                Wake::Destroyed(outcome) => changed |= reconciler.destroyed(&outcome, destroyer),
                Wake::Swept(swept) => changed |= reconciler.swept(&swept),
            }
            wake = woken.try_recv().ok();
        }
        let scope = if Instant::now() >= schedule.whole { Reconcile::Full } else { Reconcile::Partial };
        if changed || scope == Reconcile::Full {
            reconciler.reconcile(scope, destroyer);
            schedule.after(scope, reconciler.has_failures(), Instant::now());
            if let Some(sweeper) = sweeper {
                sweeper.sweep(reconciler.take_unused());
            }
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
        schedule.after(Reconcile::Partial, false, now);
        assert_eq!(schedule.whole, now + 60 * second);
        schedule.after(Reconcile::Partial, true, now);
        assert_eq!(schedule.whole, now + RETRY);
        // Changes meanwhile do not postpone it.
        schedule.after(Reconcile::Partial, true, now + RETRY / 2);
        assert_eq!(schedule.whole, now + RETRY);
        for times in [2, 4, 8, 16, 32] {
            schedule.after(Reconcile::Full, true, now);
            assert_eq!(schedule.whole, now + RETRY * times);
        }
        // However long it fails.
        for _ in 0..100 {
            schedule.after(Reconcile::Full, true, now);
            assert_eq!(schedule.whole, now + 60 * second);
        }
        schedule.after(Reconcile::Full, false, now);
        schedule.after(Reconcile::Partial, true, now);
        assert_eq!(schedule.whole, now + RETRY);
    }
}
