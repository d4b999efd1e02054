//! The thread that watches memory and processes: woken by the kernel or by its timer, it reads and decides in
//! one pass.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::warn;

use super::decision_log::DecisionLog;
use super::prepared::Prepared;
use super::shared::{Group, Shared};
use super::victim::Candidates;
use crate::assess::{Due, limit};
use crate::gather;
use crate::gather::{Node, Subject};
use crate::kill::Signalled;
use crate::pace::Pace;
use crate::wake::{WakeSources, Waker, Woken};
use crate::{Candidate, NodeCondition, Observations, kill, message, metrics};
use crate::{Eviction, EvictionReason};
use nodewarden_config::Signal;
use nodewarden_machine::cgroup::control::{GroupFiles, KillTarget};
use nodewarden_machine::ebpf::{raise_priority, run_in_real_time};
use nodewarden_manifest::Pod;
use nodewarden_manifest::volume_source::Medium;
use nodewarden_pods::volume;
use nodewarden_tasks::parts::{self, Part};

/// An evicted pod counts as leaving for at most its grace period plus this time; then the next decision is
/// made anyway.
const GONE: Duration = Duration::from_secs(10);
/// Time between two checks whether the pods of an earlier agent are known.
const UNKNOWN: Duration = Duration::from_millis(5);
/// Most killed pods are empty within this time: until then the thread checks every [`CLOSE`].
const SOON: Duration = Duration::from_millis(500);
const CLOSE: Duration = Duration::from_millis(1);
/// Time between two readings while a victim has not ended.
const LATER: Duration = Duration::from_millis(20);
/// How long the kernel may take to count memory as free once no process is left.
const BACK: Duration = Duration::from_millis(200);

/// Far from every threshold: by its pace the next reading is not due before this. If every wake-up of the
/// kernel works it is then made after twice the time, which is the pace's margin, and the kernel's thresholds
/// are set again each [`ARM_AGAIN`], since what hides growth from them, reclaim, begins where memory is
/// short.
const FAR: Duration = Duration::from_secs(2);
const ARM_AGAIN: Duration = Duration::from_secs(60);

/// With less time until the next reading the pods are kept ready to choose from: each has a file open.
const NEAR: Duration = Duration::from_millis(250);

/// How often the list of working wake-up sources is refreshed; it changes when cgroups are created and
/// removed.
const DESCRIBED: Duration = Duration::from_secs(10);

/// Stops the thread when dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    waker: Waker,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            self.waker.wake("the agent's end");
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// How long a decision may take, with the wait for the victim's end.
const LIMIT: Duration = Duration::from_secs(120);

/// An evicted pod that has not ended yet.
struct Leaving {
    cgroup: String,
    hard: bool,
    condition: NodeCondition,
    /// When to stop waiting for it.
    until: Instant,
    /// The pod's directory, if it has volumes in memory.
    pod_dir: Option<PathBuf>,
}

impl Leaving {
    fn is_gone(&self, files: &GroupFiles) -> bool {
        kill::empty(files, &self.cgroup)
            && self.pod_dir.as_deref().is_none_or(|pod_dir| !volume::has_volumes(pod_dir))
    }
}

struct FastWatch {
    shared: Arc<Shared>,
    node: Node,
    pace: Pace,
    sources: WakeSources,
    clock: Instant,
    /// Where the kernel's thresholds were set last, of the node and of kubepods, and when.
    armed: Option<([Option<u64>; 2], Instant)>,
    leaving: BTreeMap<String, Leaving>,
    /// Only while a threshold is near.
    prepared: Option<Prepared>,
}

/// Starts the thread.
///
/// # Errors
/// The thread cannot be started.
pub fn start(
    shared: Arc<Shared>,
    node: Node,
    sources: WakeSources,
    woken: Receiver<Woken>,
) -> std::io::Result<Running> {
    let stop = Arc::new(AtomicBool::new(false));
    let ends = stop.clone();
    let (pace, waker) = (Pace::new(&shared.fast), sources.waker());
    let (clock, armed, leaving, prepared) = (Instant::now(), None, BTreeMap::new(), None);
    let mut watch = FastWatch { shared, node, pace, sources, clock, armed, leaving, prepared };
    let part = parts::register("eviction", LIMIT);
    let thread = thread::Builder::new().name("eviction".into()).spawn(move || {
        // A kill must not wait for the threads that its decision wakes.
        let in_real_time = watch.shared.acts() && run_in_real_time().is_ok();
        if !in_real_time && let Err(error) = raise_priority() {
            warn!(%error, "cannot raise the priority of eviction: it may come late under full load");
        }
        watch.run(&woken, &ends, &part);
        part.end();
    })?;
    Ok(Running { stop, thread: Some(thread), waker })
}

impl FastWatch {
    fn run(&mut self, woken: &Receiver<Woken>, stop: &AtomicBool, part: &Part) {
        let mut by = String::from("start");
        let mut described: Option<Instant> = None;
        let begun = Instant::now();
        while !stop.load(Ordering::Relaxed) && !self.shared.knows_pods(begun) {
            thread::sleep(UNKNOWN);
        }
        while !stop.load(Ordering::Relaxed) {
            if described.is_none_or(|at| at.elapsed() >= DESCRIBED) {
                *self.shared.watching.lock() = self.sources.watching();
                described = Some(Instant::now());
            }
            let began = Instant::now();
            part.progress();
            let wait = self.check(&by, began);
            part.waits();
            by = match woken.recv_timeout(wait) {
                Ok(first) => {
                    // One reading answers all wake-ups that came meanwhile.
                    while woken.try_recv().is_ok() {}
                    first.to_string()
                }
                Err(RecvTimeoutError::Timeout) => format!("timer {wait:?}"),
                Err(RecvTimeoutError::Disconnected) => {
                    thread::park_timeout(wait);
                    format!("timer {wait:?}")
                }
            };
        }
    }

    /// Reads, decides and acts. Returns the longest time until the next reading.
    fn check(&mut self, by: &str, woken: Instant) -> Duration {
        let observations = self.node.read();
        let read = Instant::now();
        let shared = self.shared.clone();
        let assessment = shared.assess(Group::Fast, &shared.fast, &observations);
        let mut is_reported = false;
        let mut report = || {
            if !std::mem::replace(&mut is_reported, true) {
                shared.report(Group::Fast, &assessment);
                shared.report_crossings(&assessment.due);
            }
        };
        self.forget_terminated();
        for due in &assessment.due {
            if self.waits_for(due) {
                continue;
            }
            let mut log = DecisionLog::new("eviction", by, woken, !self.shared.acts());
            log.record_signals(&assessment.seen);
            log.record_step(
                "node read",
                woken,
                format!("{} signals in {:?}", observations.len(), read - woken),
            );
            if self.evict_for(due, woken, log, &mut report) {
                break;
            }
        }
        report();
        let next = self.pace.next_reading(self.clock.elapsed(), &observations, &self.shared.fast.thresholds);
        self.prepare(next);
        self.arm(&observations, next);
        // The pace's margin is for what consumes faster than expected; the kernel reports that too.
        let wakes = next >= FAR && self.sources.all_work();
        let next = if wakes { (next * 2).min(self.shared.deps.settings.max_interval) } else { next };
        let until =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        let again = assessment.again.map_or(next, |at| until(at).max(CLOSE));
        let next = if self.leaving.is_empty() { next } else { next.min(LATER) };
        next.min(again)
    }

    /// Keeps the pods ready to choose from while a threshold may be crossed soon. `next`: time until the next
    /// reading.
    fn prepare(&mut self, next: Duration) {
        if next > NEAR {
            self.prepared = None;
            return;
        }
        let prepared = self.prepared.get_or_insert_default();
        prepared.prepare(&*self.shared.deps.subjects, &self.shared.deps.layout);
        if self.shared.acts() && self.leaving.is_empty() {
            prepared.aim(&self.shared);
        }
    }

    /// Asks the kernel to wake this thread when the nearest memory threshold is crossed. `next`: time until
    /// the next reading.
    fn arm(&mut self, observations: &Observations, next: Duration) {
        let [node, pods] = [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable].map(|signal| {
            let own = self.shared.fast.thresholds.iter().filter(|threshold| threshold.signal == signal);
            let nearest = observations.get(&signal).and_then(|seen| {
                let limits = own.map(|threshold| limit(&threshold.value, seen.capacity));
                limits.filter(|limit| *limit < seen.available).max()
            });
            let capacity = observations.get(&signal).map_or(0, |seen| seen.capacity);
            nearest.map(|limit| capacity.saturating_sub(limit))
        });
        let is_set =
            |(at, since): ([Option<u64>; 2], Instant)| at == [node, pods] && since.elapsed() < ARM_AGAIN;
        if next >= FAR && self.armed.is_some_and(is_set) && self.sources.all_work() {
            return;
        }
        self.armed = Some(([node, pods], Instant::now()));
        self.sources.arm(node, pods);
    }

    /// Forgets the pods whose cgroup is gone, those whose time is over, and those whose eviction was refused.
    fn forget_terminated(&mut self) {
        let shared = &self.shared;
        self.leaving.retain(|uid, leaving| {
            let is_refused = !leaving.hard && shared.was_refused(uid);
            Instant::now() < leaving.until && !is_refused && !leaving.is_gone(&shared.files)
        });
    }

    /// Whether a pod that is being terminated may free enough. A hard threshold does not wait for a pod's
    /// grace period.
    fn waits_for(&self, due: &Due) -> bool {
        let condition = NodeCondition::of(due.threshold.signal);
        let hard = due.threshold.is_hard();
        self.leaving.values().any(|leaving| leaving.condition == condition && (leaving.hard || !hard))
    }

    /// Evicts a pod. Returns false if none may be evicted. Calls `report` right after a kill.
    fn evict_for(
        &mut self,
        due: &Due,
        woken: Instant,
        mut log: DecisionLog,
        report: &mut dyn FnMut(),
    ) -> bool {
        let shared = self.shared.clone();
        let signal = due.threshold.signal;
        let began = Instant::now();
        let mut prepared = self.prepared.take().unwrap_or_default();
        prepared.refresh(&*shared.deps.subjects, &shared.deps.layout);
        let Prepared { subjects, memory, target, .. } = &mut prepared;
        let subjects: &[Subject] = subjects;
        let hard = due.threshold.is_hard();
        let mut candidates = Candidates::read(&shared, signal, hard, subjects, memory);
        let chosen = candidates.choose(|uid| Some(self.leaving.get(uid)?.condition));
        log.record_step("pods read", began, candidates.readings());
        let found = chosen.and_then(|at| candidates.get(at).cloned().zip(subjects.get(at)));
        // A kill comes before its record.
        if !hard || !shared.acts() || found.is_none() {
            log.record_candidates(candidates.table(chosen));
        }
        let Some((mut candidate, subject)) = found else {
            shared.record_no_candidate(signal, log);
            return false;
        };
        gather::containers(&shared.deps.layout, subject, &mut candidate);
        let text = message::message(due, &candidate);
        let name = format!("{}/{}", candidate.pod.namespace, candidate.pod.name);
        let Some(evict) = &shared.deps.evict else {
            shared.record_dry_run(signal.name(), &candidate.pod, &text, log);
            return true;
        };
        let began = Instant::now();
        let grace = match hard {
            true => Duration::ZERO,
            false => shared.deps.settings.soft_grace(nodewarden_manifest::grace(&candidate.pod)),
        };
        evict(
            &candidate.pod.uid,
            Eviction {
                reason: EvictionReason::Evicted,
                message: text.clone(),
                grace: Some(grace),
                killed: hard,
                condition: Some(NodeCondition::of(signal)),
            },
        );
        let killed = hard.then(|| self.kill(&candidate, target.as_ref(), began, woken, &mut log));
        let asks = !hard && shared.deps.beside.is_some();
        if !asks {
            metrics::record_eviction(signal.name());
        }
        metrics::record_stats_age(signal.name(), woken.elapsed());
        let until = Instant::now() + grace + GONE;
        let condition = NodeCondition::of(signal);
        let pod_dir =
            subjects.iter().find(|subject| subject.pod.uid == candidate.pod.uid).map(|s| s.pod_dir.clone());
        // Beside a kubelet it is not known.
        let pod_dir = pod_dir.filter(|dir| !dir.as_os_str().is_empty() && has_memory_volumes(&candidate.pod));
        let leaving = Leaving { cgroup: candidate.cgroup.clone(), hard, condition, until, pod_dir };
        self.leaving.insert(candidate.pod.uid.clone(), leaving);
        let outcome = match asks {
            true => format!("the eviction of {name} is asked for: {text}"),
            false => format!("{name} evicted: {text}"),
        };
        shared.clear_news(signal.name());
        if let Some(killed) = killed {
            report();
            log.record_candidates(candidates.table(chosen));
            let number = shared.record(log.snapshot(&outcome));
            if let Some(signalled) = killed {
                let target = target.as_ref().filter(|_| signalled.has_sandbox);
                self.await_end(due, &candidate, target, woken, &mut log);
                shared.complete(number, log.finish(outcome));
            }
        } else {
            log.record_step("asked to end", began, format!("with a grace of {grace:?}"));
            shared.record(log.finish(outcome));
        }
        true
    }

    /// Kills the pod at once through its cgroup; `None` if that failed.
    fn kill(
        &self,
        candidate: &Candidate,
        target: Option<&KillTarget>,
        began: Instant,
        woken: Instant,
        log: &mut DecisionLog,
    ) -> Option<Signalled> {
        match kill::kill(&self.shared.files, &candidate.cgroup, target) {
            Ok(signalled) => {
                metrics::record_crossing_to_kill(signalled.at.saturating_duration_since(woken));
                let result = format!("{} processes", signalled.processes);
                log.record_step_until("kill", began, signalled.at, result);
                Some(signalled)
            }
            Err(error) => {
                warn!("{error}");
                log.record_step("kill", began, error.to_string());
                None
            }
        }
    }

    /// Waits until none of its processes is left and its memory is free. `target`: what was killed, if the
    /// process of its sandbox was left for later.
    fn await_end(
        &mut self,
        due: &Due,
        candidate: &Candidate,
        target: Option<&KillTarget>,
        woken: Instant,
        log: &mut DecisionLog,
    ) {
        let files = &self.shared.files;
        let began = Instant::now();
        let is_gone = || match target {
            Some(target) => target.is_empty(),
            None => kill::empty(files, &candidate.cgroup),
        };
        while !is_gone() && began.elapsed() < SOON {
            thread::sleep(CLOSE);
        }
        let gone = is_gone();
        if target.is_some()
            && let Err(error) = kill::kill(files, &candidate.cgroup, None)
        {
            warn!("{error}");
        }
        log.record_step("processes gone", began, if gone { "" } else { "not yet" });
        if !gone {
            return;
        }
        metrics::record_crossing_to_dead(woken.elapsed());
        let began = Instant::now();
        let signal = due.threshold.signal;
        let is_back =
            |seen: &Observations| seen.get(&signal).is_some_and(|seen| due.is_met_by(seen.available));
        let mut seen = self.node.read();
        while !is_back(&seen) && began.elapsed() < BACK {
            thread::sleep(CLOSE);
            seen = self.node.read();
        }
        if is_back(&seen) {
            metrics::record_memory_back(began.elapsed());
        }
        self.forget_terminated();
        let available = seen.get(&signal).map(|seen| seen.available);
        log.record_step("memory back", began, format!("{} available", available.unwrap_or_default()));
    }
}

/// Whether the pod has a volume in memory (`emptyDir` of the medium `Memory`).
fn has_memory_volumes(pod: &Pod) -> bool {
    pod.empty_dirs.iter().any(|volume| volume.medium == Some(Medium::Memory))
}
