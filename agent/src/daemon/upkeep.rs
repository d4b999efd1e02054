//! What has to be done from time to time: give slots back, tell of losses, walk the tree, read the files so that a
//! removed cgroup's last figures are known.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::memory;
use super::observer::Observer;
use nodewarden_config::ProgramStats;
use nodewarden_model::{HookState, Topic};

/// How often slots are given back and losses told.
const TICK: Duration = Duration::from_secs(1);
/// How often the tree is walked even if nothing seems amiss.
const WALK: Duration = Duration::from_secs(60);

/// One tick in so many gives free memory back: a millisecond's work.
const TRIMMED: u32 = 10;

/// One tick in so many lets go of code that ran once: a thousand page faults' work.
const FORGOTTEN: u32 = 60;

/// With sampled program statistics: one tick in so many is measured.
const MEASURED: u32 = 10;

/// How often what is done.
pub struct Pace {
    /// Reading everything, when nobody asks.
    pub sample: Duration,
    /// How long removed cgroups are kept.
    pub retention: Duration,
    pub program_stats: ProgramStats,
}

/// Runs until `stop` is dropped.
pub fn run(observer: &Arc<Observer>, pace: &Pace, stop: &Receiver<()>) {
    // If not every record of the cgroup lifecycle can be received, each reading begins with a walk of the tree.
    let blind =
        observer.facts.topics.iter().any(|t| t.topic == Topic::CgroupLifecycle && t.state != HookState::On);
    let (mut walked, mut sampled) = (Instant::now(), Instant::now());
    let mut again = false;
    let mut tick = 0u32;
    loop {
        if let Some(kernel) = observer.kernel.lock().as_mut() {
            kernel.measure(match pace.program_stats {
                ProgramStats::Always => true,
                ProgramStats::Sampled => tick % MEASURED == MEASURED / 2,
                ProgramStats::Off => false,
            });
        }
        tick = tick.wrapping_add(1);
        match stop.recv_timeout(TICK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Timestamp::now();
        let lost = observer.tell_lost();
        let unknown = observer.registry.lock().take_unknown();
        let sample_due = sampled.elapsed() >= pace.sample;
        if lost || unknown || again || walked.elapsed() >= WALK || (blind && sample_due) {
            again = observer.reconcile(lost);
            walked = Instant::now();
        }
        if sample_due {
            observer.remember();
            sampled = Instant::now();
        }
        observer.forget_latest();
        observer.sampler.lock().release(&observer.registry, now);
        let kept = SignedDuration::try_from(pace.retention).unwrap_or(SignedDuration::MAX);
        if let Ok(before) = now.checked_sub(kept) {
            observer.registry.lock().expire(before);
        }
        if let Some(kernel) = observer.kernel.lock().as_mut() {
            kernel.flush_log();
        }
        if tick.is_multiple_of(TRIMMED) {
            memory::trim();
        }
        if tick.is_multiple_of(FORGOTTEN) {
            memory::forget_code();
        }
    }
}
