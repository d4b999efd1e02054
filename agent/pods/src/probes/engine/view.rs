//! The engine's state for display. The data are copied under the lock and formatted after it is released.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::container::{Container, Stage};
use super::histogram::{DURATION, Histogram};
use super::state::State;
use crate::probes::{ProbeState, Target, rules};
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::{Buckets, ProbeCounts, ProbeRun, ProbeView, ProbesView};

/// What probes can wait for in addition to the rules, as text after "waits for".
pub const CONTAINER: &str = "the container to run";
const TURN: &str = "its turn";
const ANSWER: &str = "an answer";
const SAVED: &str = "its result to be saved";

/// The data copied under the lock.
pub struct Taken {
    probes: Vec<One>,
    lanes: Vec<(&'static str, Buckets, u64, u64)>,
}

struct One {
    target: Arc<Target>,
    specs: Arc<[ProbeSpec]>,
    index: usize,
    watched: bool,
    probe_state: ProbeState,
    last: Option<Arc<ProbeRun>>,
    next: Option<Instant>,
    waits_for: &'static str,
    counts: ProbeCounts,
    durations: Histogram<11>,
}

pub fn take(state: &mut State) -> Taken {
    let probes = state.containers.values();
    let probes = probes.flat_map(|container| (0..container.specs.len()).map(|index| one(container, index)));
    let lanes = state.lanes.all();
    let lanes = lanes.map(|(name, lane)| (name, lane.show_delays(), lane.running as u64, lane.waiting()));
    Taken { probes: probes.collect(), lanes: lanes.collect() }
}

fn one(container: &Container, index: usize) -> One {
    let kind = container.specs[index].kind;
    let probe = container.probe(kind);
    let (next, waits_for) = match probe.stage {
        Stage::Idle => (None, container.waits(kind).unwrap_or(rules::STARTUP)),
        Stage::Due(at) => (Some(at), ""),
        Stage::Queued(due) => (Some(due), TURN),
        Stage::Running { .. } => (None, ANSWER),
        Stage::Settling(_) => (None, SAVED),
    };
    One {
        target: container.target.clone(),
        specs: container.specs.clone(),
        index,
        watched: container.watch.is_some(),
        probe_state: *container.memory.of(kind),
        last: probe.last.clone(),
        next,
        waits_for,
        counts: probe.counts,
        durations: probe.durations,
    }
}

impl Taken {
    pub fn show(mut self, now: Instant, wall: Timestamp) -> ProbesView {
        self.probes.sort_by(|a, b| a.key().cmp(&b.key()));
        let mut view = ProbesView::default();
        view.probes.extend(self.probes.into_iter().map(|one| one.show(now, wall)));
        for (name, delays, running, waiting) in self.lanes {
            view.delays.push((name, delays));
            view.running.push((name, running));
            view.waiting.push((name, waiting));
        }
        view
    }
}

impl One {
    fn key(&self) -> (&str, &str, &str, &str, ProbeKind) {
        let Target { namespace, pod, uid, container, .. } = &*self.target;
        (namespace, pod, uid, container, self.specs[self.index].kind)
    }

    fn show(self, now: Instant, wall: Timestamp) -> ProbeView {
        let target = &self.target;
        ProbeView {
            namespace: target.namespace.clone(),
            pod: target.pod.clone(),
            uid: target.uid.clone(),
            container: target.container.clone(),
            container_id: target.container_id.clone(),
            spec: self.specs[self.index].clone(),
            // A container that does not exist has no result.
            result: self.probe_state.result.filter(|_| self.watched),
            last: self.last.as_deref().cloned(),
            in_a_row: self.probe_state.run,
            next: self.next.and_then(|at| on_the_wall(at, now, wall)),
            waits_for: self.waits_for,
            counts: self.counts,
            durations: self.durations.show(&DURATION),
        }
    }
}

fn on_the_wall(at: Instant, now: Instant, wall: Timestamp) -> Option<Timestamp> {
    let ahead = SignedDuration::try_from(at.saturating_duration_since(now)).ok()?;
    let behind = SignedDuration::try_from(now.saturating_duration_since(at)).ok()?;
    wall.checked_add(ahead).ok()?.checked_sub(behind).ok()
}
