//! The thread that watches memory and processes: woken by the kernel or by its timer, it reads and decides in one turn.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::warn;

use super::shared::{Part, Shared};
use super::story::Story;
use crate::assess::{Due, limit};
use crate::gather;
use crate::gather::Node;
use crate::pace::Pace;
use crate::rank;
use crate::rank::Ranking;
use crate::wake::{Teller, Waker, Woken};
use crate::{Candidate, DiskLayout, NodeCondition, Observations, kill, message, told};
use crate::{EVICTED, Eviction};
use nodewarden_config::Signal;
use nodewarden_machine::cgroup::Layout;
use nodewarden_manifest::Pod;
use nodewarden_pods::volume;

/// A killed pod's processes are waited for so long, and then its memory, before the next decision is made anyway.
const GONE: Duration = Duration::from_secs(10);
/// Between two looks at whether an earlier agent's pods are known.
const UNKNOWN: Duration = Duration::from_millis(5);
/// Within this time most are gone: until then the thread looks every [`CLOSE`].
const SOON: Duration = Duration::from_millis(500);
const CLOSE: Duration = Duration::from_millis(1);
/// Between two looks at a victim that takes its time.
const LATER: Duration = Duration::from_millis(20);
/// How long memory may take to be counted as free once no process is left.
const BACK: Duration = Duration::from_millis(200);

/// What of the kernel's wake-ups works may change when cgroups come and go: looked at so often.
const DESCRIBED: Duration = Duration::from_secs(10);

/// Ends the thread when dropped.
pub struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    teller: Teller,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            self.teller.tell("the agent's end");
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// A pod that was told to go, and has not gone yet.
struct Leaving {
    cgroup: String,
    hard: bool,
    condition: NodeCondition,
    /// Not waited for any longer.
    until: Instant,
    /// Its directory, if what it has in volumes counts as memory.
    home: Option<PathBuf>,
}

impl Leaving {
    fn is_gone(&self, layout: &Layout) -> bool {
        kill::empty(layout, &self.cgroup)
            && self.home.as_deref().is_none_or(|home| !volume::has_volumes(home))
    }
}

struct Watch {
    shared: Arc<Shared>,
    node: Node,
    pace: Pace,
    waker: Waker,
    clock: Instant,
    leaving: BTreeMap<String, Leaving>,
}

/// Starts the thread.
///
/// # Errors
/// It cannot be had.
pub fn start(
    shared: Arc<Shared>,
    node: Node,
    waker: Waker,
    woken: Receiver<Woken>,
) -> std::io::Result<Running> {
    let stop = Arc::new(AtomicBool::new(false));
    let ends = stop.clone();
    let (pace, teller) = (Pace::new(&shared.fast), waker.teller());
    let mut watch = Watch { shared, node, pace, waker, clock: Instant::now(), leaving: BTreeMap::new() };
    let thread = thread::Builder::new().name("eviction".into()).spawn(move || {
        if let Err(error) = nodewarden_machine::ebpf::raise_priority() {
            warn!(%error, "cannot raise the priority of eviction: it may come late under full load");
        }
        watch.run(&woken, &ends);
    })?;
    Ok(Running { stop, thread: Some(thread), teller })
}

impl Watch {
    fn run(&mut self, woken: &Receiver<Woken>, stop: &AtomicBool) {
        let mut by = String::from("start");
        let mut described: Option<Instant> = None;
        let begun = Instant::now();
        while !stop.load(Ordering::Relaxed) && !self.shared.knows_pods(begun) {
            thread::sleep(UNKNOWN);
        }
        while !stop.load(Ordering::Relaxed) {
            if described.is_none_or(|at| at.elapsed() >= DESCRIBED) {
                *self.shared.watching.lock() = self.waker.watching();
                described = Some(Instant::now());
            }
            let began = Instant::now();
            let wait = self.turn(&by, began);
            by = match woken.recv_timeout(wait) {
                Ok(first) => {
                    // What came meanwhile is answered by the same reading.
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

    /// Reads, decides, acts; how long until the next one at the latest.
    fn turn(&mut self, by: &str, woken: Instant) -> Duration {
        let observations = self.node.read();
        let read = Instant::now();
        let assessment = self.shared.assess(Part::Fast, &self.shared.fast, &observations);
        self.see_off();
        for due in &assessment.due {
            if self.waits_for(due) {
                continue;
            }
            let mut story = Story::new("eviction", by, woken, !self.shared.acts());
            story.saw(&assessment.seen);
            story.step("node read", woken, format!("{} signals in {:?}", observations.len(), read - woken));
            if self.relieve(due, woken, story) {
                break;
            }
        }
        self.arm(&observations);
        let next = self.pace.seen(self.clock.elapsed(), &observations, &self.shared.fast.thresholds);
        let until =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        let again = assessment.again.map_or(next, |at| until(at).max(CLOSE));
        let next = if self.leaving.is_empty() { next } else { next.min(LATER) };
        next.min(again)
    }

    /// The kernel wakes where the nearest threshold of memory is crossed.
    fn arm(&mut self, observations: &Observations) {
        for signal in [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable] {
            let own = self.shared.fast.thresholds.iter().filter(|threshold| threshold.signal == signal);
            let nearest = observations.get(&signal).and_then(|seen| {
                let limits = own.map(|threshold| limit(&threshold.value, seen.capacity));
                limits.filter(|limit| *limit < seen.available).max()
            });
            let capacity = observations.get(&signal).map_or(0, |seen| seen.capacity);
            let usage = nearest.map(|limit| capacity.saturating_sub(limit));
            match signal {
                Signal::MemoryAvailable => self.waker.arm(usage),
                _ => self.waker.arm_pods(usage),
            }
        }
    }

    /// Lets go of those that have gone.
    fn see_off(&mut self) {
        let layout = &self.shared.needs.layout;
        self.leaving.retain(|_, leaving| Instant::now() < leaving.until && !leaving.is_gone(layout));
    }

    /// Whether somebody is on the way out whose memory may be enough. A hard threshold does not wait for a grace.
    fn waits_for(&self, due: &Due) -> bool {
        let condition = NodeCondition::of(due.threshold.signal);
        let hard = due.threshold.is_hard();
        self.leaving.values().any(|leaving| leaving.condition == condition && (leaving.hard || !hard))
    }

    /// Has a pod go; false if there is none that may.
    fn relieve(&mut self, due: &Due, woken: Instant, mut story: Story) -> bool {
        let shared = self.shared.clone();
        let signal = due.threshold.signal;
        let began = Instant::now();
        let subjects = shared.needs.subjects.pods();
        let candidates = gather::candidates(&shared.needs.layout, &subjects, rank::needs(signal), None);
        story.step("pods read", began, format!("{} pods", candidates.len()));
        let ranking = rank::rank(signal, DiskLayout::One, &shared.needs.settings, &candidates);
        let chosen = self.choose(signal, &ranking, &candidates);
        story.ranked(rank::seen(signal, DiskLayout::One, &ranking, &candidates, chosen));
        let Some(candidate) = chosen.and_then(|at| candidates.get(at)).cloned() else {
            shared.nobody(signal, story);
            return false;
        };
        let text = message::message(due, &candidate);
        let name = format!("{}/{}", candidate.pod.namespace, candidate.pod.name);
        let hard = due.threshold.is_hard();
        let Some(evict) = &shared.needs.evict else {
            shared.would(signal.name(), &candidate.pod, &text, story);
            return true;
        };
        let began = Instant::now();
        let own = nodewarden_manifest::grace(&candidate.pod);
        let grace = if hard { Duration::ZERO } else { shared.needs.settings.soft_grace(own) };
        evict(
            &candidate.pod.uid,
            Eviction {
                reason: EVICTED.to_owned(),
                message: text.clone(),
                grace: Some(grace),
                condition: Some(NodeCondition::of(signal)),
            },
        );
        told::evicted(signal.name());
        told::stats_age(signal.name(), woken.elapsed());
        let until = Instant::now() + grace + GONE;
        let condition = NodeCondition::of(signal);
        let home =
            subjects.iter().find(|subject| subject.pod.uid == candidate.pod.uid).map(|s| s.home.clone());
        let home = home.filter(|_| has_memory_volumes(&candidate.pod));
        let leaving = Leaving { cgroup: candidate.cgroup.clone(), hard, condition, until, home };
        self.leaving.insert(candidate.pod.uid.clone(), leaving);
        let outcome = format!("{name} evicted: {text}");
        shared.forget(signal.name());
        if hard {
            let killed = self.kill(&candidate, began, woken, &mut story);
            let number = shared.remember(story.so_far(&outcome));
            if killed {
                self.await_end(due, &candidate, woken, &mut story);
                shared.complete(number, story.end(outcome));
            }
        } else {
            story.step("told to end", began, format!("with a grace of {grace:?}"));
            shared.remember(story.end(outcome));
        }
        true
    }

    /// One that is on its way out already comes first: cut short, it may be enough. One that uses nothing stays: its end
    /// would help nobody.
    fn choose(&self, signal: Signal, ranking: &Ranking, candidates: &[Candidate]) -> Option<usize> {
        let uses = |at: &&usize| {
            candidates.get(**at).is_some_and(|one| rank::figures(signal, DiskLayout::One, one).0 > 0)
        };
        let leaves =
            |at: &usize| candidates.get(*at).is_some_and(|one| self.leaving.contains_key(&one.pod.uid));
        let go: Vec<usize> = ranking.go.iter().filter(uses).copied().collect();
        go.iter().find(|at| leaves(at)).or(go.first()).copied()
    }

    /// At once, through the cgroup; whether that was possible.
    fn kill(&self, candidate: &Candidate, began: Instant, woken: Instant, story: &mut Story) -> bool {
        match kill::kill(&self.shared.needs.layout, &candidate.cgroup) {
            Ok(processes) => {
                told::crossing_to_kill(woken.elapsed());
                story.step("kill", began, format!("{processes} processes"));
                true
            }
            Err(error) => {
                warn!("{error}");
                story.step("kill", began, error.to_string());
                false
            }
        }
    }

    /// Waits until no process of it is left, and its memory is back.
    fn await_end(&mut self, due: &Due, candidate: &Candidate, woken: Instant, story: &mut Story) {
        let layout = &self.shared.needs.layout;
        let began = Instant::now();
        while !kill::empty(layout, &candidate.cgroup) && began.elapsed() < SOON {
            thread::sleep(CLOSE);
        }
        let gone = kill::empty(layout, &candidate.cgroup);
        story.step("processes gone", began, if gone { "" } else { "not yet" });
        if !gone {
            return;
        }
        told::crossing_to_dead(woken.elapsed());
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
            told::memory_back(began.elapsed());
        }
        self.see_off();
        let available = seen.get(&signal).map(|seen| seen.available);
        story.step("memory back", began, format!("{} available", available.unwrap_or_default()));
    }
}

/// Whether something of its volumes is in memory (`emptyDir` of the medium `Memory`).
fn has_memory_volumes(pod: &Pod) -> bool {
    let volumes = pod.spec.volumes.iter().flatten();
    let mut media = volumes.filter_map(|volume| volume.empty_dir.as_ref()?.medium.as_deref());
    media.any(|medium| medium == "Memory")
}
