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
use super::shared::{Group, Shared};
use crate::assess::{Due, limit};
use crate::gather;
use crate::gather::Node;
use crate::pace::Pace;
use crate::rank;
use crate::rank::Ranking;
use crate::wake::{WakeSources, Waker, Woken};
use crate::{Candidate, DiskLayout, NodeCondition, Observations, kill, message, metrics};
use crate::{Eviction, EvictionReason};
use nodewarden_config::Signal;
use nodewarden_machine::cgroup::Layout;
use nodewarden_manifest::Pod;
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
    fn is_gone(&self, layout: &Layout) -> bool {
        kill::empty(layout, &self.cgroup)
            && self.pod_dir.as_deref().is_none_or(|pod_dir| !volume::has_volumes(pod_dir))
    }
}

struct FastWatch {
    shared: Arc<Shared>,
    node: Node,
    pace: Pace,
    sources: WakeSources,
    clock: Instant,
    leaving: BTreeMap<String, Leaving>,
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
    let mut watch =
        FastWatch { shared, node, pace, sources, clock: Instant::now(), leaving: BTreeMap::new() };
    let part = parts::register("eviction", LIMIT);
    let thread = thread::Builder::new().name("eviction".into()).spawn(move || {
        if let Err(error) = nodewarden_machine::ebpf::raise_priority() {
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
        let assessment = self.shared.assess(Group::Fast, &self.shared.fast, &observations);
        self.shared.report_crossings(&assessment.due);
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
            if self.evict_for(due, woken, log) {
                break;
            }
        }
        self.arm(&observations);
        let next = self.pace.next_reading(self.clock.elapsed(), &observations, &self.shared.fast.thresholds);
        let until =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        let again = assessment.again.map_or(next, |at| until(at).max(CLOSE));
        let next = if self.leaving.is_empty() { next } else { next.min(LATER) };
        next.min(again)
    }

    /// Asks the kernel to wake this thread when the nearest memory threshold is crossed.
    fn arm(&mut self, observations: &Observations) {
        let [node, pods] = [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable].map(|signal| {
            let own = self.shared.fast.thresholds.iter().filter(|threshold| threshold.signal == signal);
            let nearest = observations.get(&signal).and_then(|seen| {
                let limits = own.map(|threshold| limit(&threshold.value, seen.capacity));
                limits.filter(|limit| *limit < seen.available).max()
            });
            let capacity = observations.get(&signal).map_or(0, |seen| seen.capacity);
            nearest.map(|limit| capacity.saturating_sub(limit))
        });
        self.sources.arm(node, pods);
    }

    /// Forgets the pods whose cgroup is gone, those whose time is over, and those whose eviction was refused.
    fn forget_terminated(&mut self) {
        let (shared, layout) = (&self.shared, &self.shared.deps.layout);
        self.leaving.retain(|uid, leaving| {
            let is_refused = !leaving.hard && shared.was_refused(uid);
            Instant::now() < leaving.until && !is_refused && !leaving.is_gone(layout)
        });
    }

    /// Whether a pod that is being terminated may free enough. A hard threshold does not wait for a pod's
    /// grace period.
    fn waits_for(&self, due: &Due) -> bool {
        let condition = NodeCondition::of(due.threshold.signal);
        let hard = due.threshold.is_hard();
        self.leaving.values().any(|leaving| leaving.condition == condition && (leaving.hard || !hard))
    }

    /// Evicts a pod. Returns false if none may be evicted.
    fn evict_for(&mut self, due: &Due, woken: Instant, mut log: DecisionLog) -> bool {
        let shared = self.shared.clone();
        let signal = due.threshold.signal;
        let began = Instant::now();
        let subjects = shared.deps.subjects.pods();
        let candidates = gather::pods(&shared.deps.layout, &subjects, rank::required_stats(signal));
        log.record_step("pods read", began, format!("{} pods", candidates.len()));
        let hard = due.threshold.is_hard();
        let ranking = rank::rank(signal, DiskLayout::One, &shared.deps.settings, &candidates)
            .without(|at| shared.spares(&candidates.get(at)?.pod.uid, hard));
        let chosen = select_victim(signal, &ranking, &candidates, &self.leaving);
        log.record_candidates(rank::ranking_table(signal, DiskLayout::One, &ranking, &candidates, chosen));
        let found = chosen.and_then(|at| candidates.get(at).cloned().zip(subjects.get(at)));
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
        let own = nodewarden_manifest::grace(&candidate.pod);
        let grace = if hard { Duration::ZERO } else { shared.deps.settings.soft_grace(own) };
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
        if hard {
            let killed = self.kill(&candidate, began, woken, &mut log);
            let number = shared.record(log.snapshot(&outcome));
            if killed {
                self.await_end(due, &candidate, woken, &mut log);
                shared.complete(number, log.finish(outcome));
            }
        } else {
            log.record_step("asked to end", began, format!("with a grace of {grace:?}"));
            shared.record(log.finish(outcome));
        }
        true
    }

    /// Kills the pod at once through its cgroup. Returns whether that succeeded.
    fn kill(&self, candidate: &Candidate, began: Instant, woken: Instant, log: &mut DecisionLog) -> bool {
        match kill::kill(&self.shared.deps.layout, &candidate.cgroup) {
            Ok(signalled) => {
                metrics::record_crossing_to_kill(signalled.at.saturating_duration_since(woken));
                let result = format!("{} processes", signalled.processes);
                log.record_step_until("kill", began, signalled.at, result);
                true
            }
            Err(error) => {
                warn!("{error}");
                log.record_step("kill", began, error.to_string());
                false
            }
        }
    }

    /// Waits until none of its processes is left and its memory is free.
    fn await_end(&mut self, due: &Due, candidate: &Candidate, woken: Instant, log: &mut DecisionLog) {
        let layout = &self.shared.deps.layout;
        let began = Instant::now();
        while !kill::empty(layout, &candidate.cgroup) && began.elapsed() < SOON {
            thread::sleep(CLOSE);
        }
        let gone = kill::empty(layout, &candidate.cgroup);
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

/// The pod to evict. One that uses nothing is not chosen, since evicting it frees nothing. `leaving` are the
/// evicted pods that have not ended, by uid.
fn select_victim(
    signal: Signal,
    ranking: &Ranking,
    candidates: &[Candidate],
    leaving: &BTreeMap<String, Leaving>,
) -> Option<usize> {
    let uses =
        |at: &usize| candidates.get(*at).is_some_and(|one| rank::figures(signal, DiskLayout::One, one).0 > 0);
    let order: Vec<usize> = ranking.order.iter().copied().filter(uses).collect();
    victim(&order, NodeCondition::of(signal), |at| Some(leaving.get(&candidates.get(at)?.pod.uid)?.condition))
}

/// The first of `order` that is already leaving because of the same condition: it was chosen for what it uses
/// of this resource, and cutting its grace period short may be enough. Otherwise the first. `leaves` returns
/// for which condition a pod is leaving: one that leaves for another reason need not use much of this
/// resource, and keeps its grace period unless it is the first anyway.
fn victim(
    order: &[usize],
    condition: NodeCondition,
    leaves: impl Fn(usize) -> Option<NodeCondition>,
) -> Option<usize> {
    let same = order.iter().find(|at| leaves(**at) == Some(condition));
    same.or(order.first()).copied()
}

/// Whether the pod has a volume in memory (`emptyDir` of the medium `Memory`).
fn has_memory_volumes(pod: &Pod) -> bool {
    let volumes = pod.spec.volumes.iter().flatten();
    let mut media = volumes.filter_map(|volume| volume.empty_dir.as_ref()?.medium.as_deref());
    media.any(|medium| medium == "Memory")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::NodeCondition::{MemoryPressure, PidPressure};
    use super::*;

    /// Pods `a`, `b` and `c`, which use so much memory and have so many processes.
    fn candidates(uses: [u64; 3]) -> Vec<Candidate> {
        let candidate = |(uid, uses): (&str, u64)| {
            let manifest = json!({"metadata": {"name": uid, "uid": uid},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            Candidate {
                pod: Arc::new(Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap()),
                cgroup: String::new(),
                started: Timestamp::UNIX_EPOCH,
                memory: Some(uses),
                disk: None,
                processes: Some(uses),
                containers: BTreeMap::new(),
                memory_request: None,
            }
        };
        ["a", "b", "c"].into_iter().zip(uses).map(candidate).collect()
    }

    fn leaving(pods: &[(&str, NodeCondition)]) -> BTreeMap<String, Leaving> {
        let entry = |(uid, condition): &(&str, NodeCondition)| {
            let until = Instant::now() + LIMIT;
            let own =
                Leaving { cgroup: String::new(), hard: false, condition: *condition, until, pod_dir: None };
            ((*uid).to_owned(), own)
        };
        pods.iter().map(entry).collect()
    }

    /// With what is kept of each pod that was evicted, and for each of the two resources.
    #[test]
    fn what_a_pod_leaves_for_is_looked_up_by_its_uid() {
        let ranking = Ranking { order: vec![0, 1, 2], exempt: Vec::new() };
        let select = |signal, uses, pods: &[(&str, NodeCondition)]| {
            select_victim(signal, &ranking, &candidates(uses), &leaving(pods))
        };
        let (memory, pids) = (Signal::MemoryAvailable, Signal::PidAvailable);
        assert_eq!(select(memory, [1, 1, 1], &[("c", PidPressure)]), Some(0));
        assert_eq!(select(pids, [1, 1, 1], &[("c", PidPressure)]), Some(2));
        assert_eq!(select(pids, [1, 1, 1], &[("c", MemoryPressure)]), Some(0));
        assert_eq!(select(memory, [1, 1, 1], &[("b", PidPressure), ("c", MemoryPressure)]), Some(2));
        assert_eq!(select(memory, [0, 1, 0], &[("c", MemoryPressure)]), Some(1), "c uses nothing");
        assert_eq!(select(memory, [0, 0, 0], &[]), None);
    }

    #[test]
    fn a_leaving_pod_is_killed_first_only_if_it_leaves_for_the_same_resource() {
        for (what, leaving, expected) in [
            ("no pod leaves", [None, None, None], Some(0)),
            ("the last leaves for memory", [None, None, Some(MemoryPressure)], Some(2)),
            ("the first of two for memory", [None, Some(MemoryPressure), Some(MemoryPressure)], Some(1)),
            ("the last leaves for processes", [None, None, Some(PidPressure)], Some(0)),
            ("the first leaves for processes", [Some(PidPressure), None, None], Some(0)),
            ("one for each", [Some(PidPressure), None, Some(MemoryPressure)], Some(2)),
        ] {
            assert_eq!(victim(&[0, 1, 2], MemoryPressure, |at| leaving[at]), expected, "{what}");
        }
        assert_eq!(victim(&[], MemoryPressure, |_| Some(MemoryPressure)), None);
        // Those that use nothing are not in the order.
        assert_eq!(victim(&[0], MemoryPressure, |at| (at == 2).then_some(MemoryPressure)), Some(0));
    }
}
