//! What has to be done from time to time: give slots back, record losses of events, walk the cgroup tree,
//! read the files so that a removed cgroup's last figures are known, and give memory back.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::error::DaemonError;
use super::{footprint, page_map};
use nodewarden_config::{Config, ProgramStats};
use nodewarden_machine::ebpf::MonotonicClock;
use nodewarden_model::{HookState, Topic};
use nodewarden_observer::Observer;
use nodewarden_tasks::parts::{self, Part};

/// How often slots are given back and losses recorded.
const TICK: Duration = Duration::from_secs(1);
/// How often the tree is walked even if nothing seems amiss.
const WALK: Duration = Duration::from_secs(60);

/// Every so many ticks free memory is given back, which takes about a millisecond.
const TRIM_TICKS: u32 = 10;

/// Every so many ticks code that ran once is unmapped, which costs about a thousand page faults.
const UNMAP_TICKS: u32 = 60;

/// With sampled program statistics, one tick in so many is measured.
const MEASURE_TICKS: u32 = 10;

/// How long a tick may take: the whole tree is walked and read in some.
const LIMIT: Duration = Duration::from_secs(300);

/// How often what is done.
struct Pace {
    /// Reading everything when no client asks.
    sample: Duration,
    /// How long removed cgroups are kept.
    retention: Duration,
    program_stats: ProgramStats,
}

/// The thread that does it; ended when this is dropped.
pub struct Upkeep {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// # Errors
    /// The thread cannot be started.
    pub fn start(config: &Config, observer: &Arc<Observer>) -> Result<Self, DaemonError> {
        let pace =
            Pace { sample: config.sample, retention: config.retention, program_stats: config.program_stats };
        let (stop, stopped) = mpsc::channel();
        // At once: what it takes may be given up once the agent has started.
        if let (ProgramStats::Always, Some(kernel)) = (config.program_stats, observer.kernel.lock().as_mut())
        {
            kernel.measure(true);
        }
        let observer = observer.clone();
        let part = parts::register("upkeep", LIMIT);
        let thread = thread::Builder::new()
            .name("upkeep".into())
            .spawn(move || {
                run(&observer, &pace, &stopped, &part);
                part.end();
            })
            .map_err(|source| DaemonError::Start { what: "upkeep thread", source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs until the sender of `stop` is dropped.
fn run(observer: &Observer, pace: &Pace, stop: &Receiver<()>, part: &Part) {
    // If not every record of the cgroup lifecycle can be received, each reading begins with a walk of the
    // tree.
    let incomplete =
        observer.facts.topics.iter().any(|t| t.topic == Topic::CgroupLifecycle && t.state != HookState::On);
    let (mut walked, mut sampled) = (Instant::now(), Instant::now());
    let mut again = false;
    let mut tick = 0u32;
    loop {
        if let Some(kernel) = observer.kernel.lock().as_mut() {
            kernel.measure(match pace.program_stats {
                ProgramStats::Always => true,
                ProgramStats::Sampled => tick % MEASURE_TICKS == MEASURE_TICKS / 2,
                ProgramStats::Off => false,
            });
        }
        tick = tick.wrapping_add(1);
        part.waits();
        match stop.recv_timeout(TICK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        part.progress();
        let now = MonotonicClock::now_ns();
        let lost = observer.record_lost();
        let unknown = observer.registry.lock().take_unknown();
        let sample_due = sampled.elapsed() >= pace.sample;
        if lost || unknown || again || walked.elapsed() >= WALK || (incomplete && sample_due) {
            again = observer.reconcile(lost);
            walked = Instant::now();
        }
        if sample_due {
            observer.remember();
            sampled = Instant::now();
        }
        observer.drop_old_reading();
        observer.sampler.lock().release(&observer.registry, now);
        let kept = u64::try_from(pace.retention.as_nanos()).unwrap_or(u64::MAX);
        observer.registry.lock().expire(now.saturating_sub(kept));
        if let Some(kernel) = observer.kernel.lock().as_mut() {
            kernel.flush_log();
        }
        if tick.is_multiple_of(TRIM_TICKS) {
            footprint::trim();
        }
        if tick.is_multiple_of(UNMAP_TICKS) {
            page_map::unmap_code();
        }
    }
}
