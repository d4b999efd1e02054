//! What has to be done from time to time: give slots back, record losses of events, walk the cgroup tree,
//! read the files so that a removed cgroup's last figures are known, and give memory back. While nothing
//! happens the thread sleeps for ten seconds at a time; the observer's records wake it.

mod schedule;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::DaemonError;
use super::{footprint, page_map};
use nodewarden_config::{Config, ProgramStats};
use nodewarden_machine::ebpf::MonotonicClock;
use nodewarden_model::{HookState, Topic};
use nodewarden_observer::Observer;
use nodewarden_tasks::parts::{self, Part};
use nodewarden_tasks::pause::every;
use schedule::Schedule;

/// How long a pass may take: the whole tree is walked and read in some.
const LIMIT: Duration = Duration::from_secs(300);
/// What is done each minute ends its pauses together.
const MINUTE: Duration = Duration::from_secs(60);

/// The thread that does it; ended when this is dropped.
pub struct Upkeep {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// # Errors
    /// The thread cannot be started.
    pub fn start(config: &Config, observer: &Arc<Observer>) -> Result<Self, DaemonError> {
        let schedule = Schedule::new(
            config.sample,
            config.retention,
            config.program_stats,
            every(MINUTE),
            Instant::now(),
        );
        // At once: what it takes may be given up once the agent has started.
        if let (ProgramStats::Always, Some(kernel)) = (config.program_stats, observer.kernel.lock().as_mut())
        {
            kernel.measure(true);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (observer, stopped, retention) = (observer.clone(), stop.clone(), config.retention);
        let part = parts::register("upkeep", LIMIT);
        let thread = thread::Builder::new()
            .name("upkeep".into())
            .spawn(move || {
                run(&observer, schedule, retention, &stopped, &part);
                part.end();
            })
            .map_err(|source| DaemonError::Start { what: "upkeep thread", source })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Runs until `stop` is set and the thread unparked. Removed cgroups are kept for `retention`.
fn run(observer: &Observer, mut schedule: Schedule, retention: Duration, stop: &AtomicBool, part: &Part) {
    // If not every record of the cgroup lifecycle can be received, each reading begins with a walk of the
    // tree.
    let incomplete =
        observer.facts.topics.iter().any(|t| t.topic == Topic::CgroupLifecycle && t.state != HookState::On);
    let kept = u64::try_from(retention.as_nanos()).unwrap_or(u64::MAX);
    observer.upkeep.serve();
    let mut walk_again = false;
    let mut unfinished = false;
    let mut named = None;
    loop {
        if let Some(kernel) = observer.kernel.lock().as_mut() {
            kernel.measure(schedule.measures(Instant::now()));
        }
        part.waits();
        loop {
            if stop.load(Ordering::Acquire) {
                return;
            }
            let wait = schedule.wait(unfinished || observer.upkeep.is_asked(), Instant::now());
            if wait.is_zero() {
                break;
            }
            thread::park_timeout(wait);
        }
        part.progress();
        let now = MonotonicClock::now_ns();
        let due = schedule.pass(observer.upkeep.take(), every(MINUTE), Instant::now());
        let lost = observer.record_lost();
        let unknown = observer.registry.lock().take_unknown();
        if lost || unknown || walk_again || due.walk || (incomplete && due.sample) {
            walk_again = observer.reconcile(lost);
            schedule.walked(Instant::now());
        }
        if due.sample {
            observer.remember();
        }
        observer.drop_old_reading();
        let unreleased = observer.sampler.lock().release(&observer.registry, now);
        observer.registry.lock().expire(now.saturating_sub(kept));
        if let Some(kernel) = observer.kernel.lock().as_mut() {
            kernel.flush_log();
        }
        if due.trim {
            named = take_names(observer, named);
            footprint::trim();
        }
        if due.unmap {
            page_map::unmap_code();
        }
        unfinished = walk_again || unreleased;
    }
}

/// Has the registry take over the names of cgroups if there are others than at the time `before`, so that
/// each identity is in memory once: what keeps the names has no other one than the registry's from then on.
/// Once they have been asked for in vain the runtime is not asked again for this: some cgroups never have
/// names.
fn take_names(observer: &Observer, before: Option<[u64; 2]>) -> Option<[u64; 2]> {
    let (now, unnamed) = {
        let registry = observer.registry.lock();
        let now = Some(registry.version());
        (now, if now == before { Vec::new() } else { registry.unnamed() })
    };
    // Without the lock: what reads the kernel's records waits for it.
    for (path, unnamed) in unnamed {
        let named = observer.names.name(&unnamed);
        if !Arc::ptr_eq(&named, &unnamed) {
            // Asked for again: the names are kept with this one, and the one before is freed.
            let named = observer.names.name(&named);
            observer.registry.lock().name(&path, &unnamed, named);
        }
    }
    now
}
