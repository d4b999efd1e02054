//! The engine's state. It is protected by one lock, during which no code of probers and sinks runs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::container::{Clock, Container, Stage, Watch};
use super::events::{self, Events};
use super::lanes::Lanes;
use super::run::{Ended, Run, RunResult};
use super::{Change, ProbeSink, histogram};
use crate::probes::{ProbeMemory, Target, grid, rules};
use nodewarden_config::ProbeSettings;
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Verdict;

/// Identifies a probe of a watched container; numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub container: u64,
    pub kind: ProbeKind,
}

/// The state of all probed containers.
pub struct State {
    /// What the instants at which probes begin together are counted from.
    started: Instant,
    next: u64,
    pub containers: HashMap<u64, Container>,
    /// Number of a container by its pod's uid and its name.
    names: HashMap<(String, String), u64>,
    timer: BTreeSet<(Instant, Id)>,
    pub lanes: Lanes,
}

/// Values to drop after the lock is released, because dropping them runs code of callers.
#[derive(Default)]
pub struct Left {
    aborts: Vec<AbortHandle>,
    sinks: Vec<Watch>,
    containers: Vec<Container>,
}

/// What the engine's task has to do next.
pub enum Next {
    Run(Run),
    /// Wait until then, or for a message.
    At(Option<Instant>),
}

/// The calls to make to a sink after the lock is released.
pub struct Effect {
    pub id: Id,
    pub sink: Arc<dyn ProbeSink>,
    pub events: Events,
    pub keep: Option<(Arc<ProbeMemory>, Option<Change>)>,
}

impl Left {
    pub fn end(self) {
        self.aborts.iter().for_each(AbortHandle::abort);
        drop((self.sinks, self.containers));
    }
}

impl State {
    pub fn new(settings: &ProbeSettings) -> Self {
        Self {
            started: Instant::now(),
            next: 0,
            containers: HashMap::new(),
            names: HashMap::new(),
            timer: BTreeSet::new(),
            lanes: Lanes::new(settings),
        }
    }

    /// Begins to probe a container; one of the same pod and name that is still watched is no longer probed.
    pub fn watch(
        &mut self,
        (target, specs, memory): (Target, Vec<ProbeSpec>, ProbeMemory),
        sink: Arc<dyn ProbeSink>,
        now: (Instant, Timestamp),
    ) -> (u64, Left) {
        let number = self.next;
        self.next += 1;
        let mut left = Left::default();
        let before = self.names.insert((target.uid.clone(), target.container.clone()), number);
        let before = before.and_then(|before| self.remove(before, &mut left));
        let id = &target.container_id;
        let memory = match &before {
            // The caller may have read its memory before the sink saved this one.
            Some(before) if before.kept.container == *id => before.kept.clone(),
            _ if memory.container == *id => Arc::new(memory),
            _ => Arc::new(ProbeMemory::new(id)),
        };
        let clock = Clock { since: now.0, age: grid::age(now.1, target.started) };
        let mut container = Container::new(target, specs, memory, Watch { sink, ending: false }, clock);
        if let Some(mut before) = before {
            left.sinks.extend(before.watch.take());
            container.count_on(before);
        }
        self.containers.insert(number, container);
        for kind in ProbeKind::ALL {
            self.begin(Id { container: number, kind }, now.0, |grid, age, never| grid.begin(age, never));
        }
        (number, left)
    }

    /// Called when the container's [`super::Watched`] is dropped.
    pub fn unwatch(&mut self, number: u64) -> Left {
        let mut left = Left::default();
        self.stop(number, &ProbeKind::ALL, &mut left);
        let container = self.containers.get_mut(&number);
        left.sinks.extend(container.and_then(|container| container.watch.take()));
        left
    }

    /// Called when the termination of the container's pod begins.
    pub fn end(&mut self, number: u64) -> Left {
        let mut left = Left::default();
        let container = self.containers.get_mut(&number);
        if let Some(watch) = container.and_then(|container| container.watch.as_mut()) {
            watch.ending = true;
            self.stop(number, &[ProbeKind::Startup, ProbeKind::Liveness], &mut left);
        }
        left
    }

    /// Forgets everything about a pod.
    pub fn forget(&mut self, uid: &str) -> Left {
        let mut left = Left::default();
        let mut gone = Vec::new();
        self.names.retain(|(of, _), number| {
            if of == uid {
                gone.push(*number);
            }
            of != uid
        });
        for number in gone {
            let container = self.remove(number, &mut left);
            left.containers.extend(container);
        }
        left
    }

    fn remove(&mut self, number: u64, left: &mut Left) -> Option<Container> {
        self.stop(number, &ProbeKind::ALL, left);
        self.containers.remove(&number)
    }

    /// Stops probes in any stage, except while a result is being saved.
    fn stop(&mut self, number: u64, kinds: &[ProbeKind], left: &mut Left) {
        let Some(container) = self.containers.get_mut(&number) else { return };
        for &kind in kinds {
            let Some(index) = container.index(kind) else { continue };
            let handler = container.specs[index].handler.kind();
            let stage = &mut container.probe_mut(kind).stage;
            let id = Id { container: number, kind };
            match std::mem::take(stage) {
                Stage::Idle => {}
                Stage::Due(at) => drop(self.timer.remove(&(at, id))),
                Stage::Queued(due) => self.lanes.of(handler).leave(due, id),
                Stage::Running { abort, .. } => left.aborts.extend(abort),
                settling @ Stage::Settling(_) => *stage = settling,
            }
        }
    }

    /// Puts due probes into their lanes. Returns the next run to begin, of a lane below its limit, or when
    /// the next probe is due.
    pub fn next(&mut self, now: Instant) -> Next {
        while let Some(&(due, id)) = self.timer.first().filter(|(at, _)| *at <= now) {
            self.timer.pop_first();
            let Some((container, index)) = find(&mut self.containers, id) else { continue };
            container.probe_mut(id.kind).stage = Stage::Queued(due);
            self.lanes.of(container.specs[index].handler.kind()).queue(due, id);
        }
        while let Some((due, id)) = self.lanes.next() {
            let Some((container, index)) = find(&mut self.containers, id) else { continue };
            container.probe_mut(id.kind).stage = Stage::Running { due, abort: None };
            let (target, specs) = (container.target.clone(), container.specs.clone());
            return Next::Run(Run { id, target, specs, index });
        }
        Next::At(self.timer.first().map(|&(at, _)| at))
    }

    /// The run continues in a task. Returns its handle if the probe was stopped in the meantime.
    pub fn continues(&mut self, id: Id, task: AbortHandle) -> Option<AbortHandle> {
        let container = self.containers.get_mut(&id.container);
        match container.map(|container| &mut container.probe_mut(id.kind).stage) {
            Some(Stage::Running { abort, .. }) => abort.replace(task),
            _ => Some(task),
        }
    }

    /// Processes the end of a run. Returns the calls to make to the sink.
    pub fn ended(&mut self, ended: Ended, now: Instant) -> Option<Effect> {
        let lane = self.lanes.of(ended.handler);
        if !ended.late {
            lane.free_place();
        }
        let id = ended.id;
        let container = self.containers.get_mut(&id.container)?;
        let Stage::Running { due, .. } = container.probe(id.kind).stage else { return None };
        let Some(run_result) = ended.run_result else {
            self.go_on(id, due, now);
            return None;
        };
        lane.delays.observe(&histogram::DELAY, run_result.begun.saturating_duration_since(due));
        let effect = take(container, id, run_result);
        if effect.as_ref().is_some_and(Effect::is_change) {
            container.probe_mut(id.kind).stage = Stage::Settling(due);
        } else {
            self.go_on(id, due, now);
        }
        effect.filter(|effect| effect.keep.is_some() || !effect.events.is_empty())
    }

    /// Called when a change is saved and published.
    pub fn settled(&mut self, id: Id, now: Instant) {
        let Some(container) = self.containers.get_mut(&id.container) else { return };
        let Stage::Settling(due) = container.probe(id.kind).stage else { return };
        container.probe_mut(id.kind).stage = Stage::Idle;
        if container.watch.is_none() {
            return;
        }
        let succeeded = container.memory.of(id.kind).result == Some(Verdict::Success);
        self.go_on(id, due, now);
        if id.kind == ProbeKind::Startup && succeeded {
            // Like the kubelet, the readiness probe runs as soon as the container has started.
            let of = |kind| Id { kind, ..id };
            self.begin(of(ProbeKind::Readiness), now, |grid, age, _| grid.begin(age, true));
            self.begin(of(ProbeKind::Liveness), now, |grid, age, _| grid.next(age));
        }
    }

    /// Schedules the next run after one that was due at `due`.
    fn go_on(&mut self, id: Id, due: Instant, now: Instant) {
        if let Some(container) = self.containers.get_mut(&id.container) {
            container.probe_mut(id.kind).stage = Stage::Idle;
            let due = container.clock.age(due);
            self.begin(id, now, |grid, age, _| grid.after(due, age));
        }
    }

    /// Schedules a probe unless it has to wait, at an age computed from its grid, the container's age, and
    /// whether it was never probed.
    fn begin(&mut self, id: Id, now: Instant, due: impl Fn(&grid::Grid, Duration, bool) -> Duration) {
        let Some((container, index)) = find(&mut self.containers, id) else { return };
        if container.waits(id.kind).is_some() || !matches!(container.probe(id.kind).stage, Stage::Idle) {
            return;
        }
        let never = container.memory.of(id.kind).last.is_none();
        let due = due(&container.grids[index], container.clock.age(now), never);
        let at = container.clock.at(due);
        // A first run begins at its time: until then the container is not ready.
        let at = if never { at } else { self.started + container.grids[index].together(at - self.started) };
        container.probe_mut(id.kind).stage = Stage::Due(at);
        self.timer.insert((at, id));
    }
}

impl Effect {
    fn is_change(&self) -> bool {
        self.keep.as_ref().is_some_and(|(_, change)| change.is_some())
    }
}

fn find(containers: &mut HashMap<u64, Container>, id: Id) -> Option<(&mut Container, usize)> {
    let container = containers.get_mut(&id.container)?;
    let index = container.index(id.kind)?;
    Some((container, index))
}

/// Applies the result of a run to the container.
fn take(container: &mut Container, id: Id, run_result: RunResult) -> Option<Effect> {
    let specs = container.specs.clone();
    let spec = specs.get(container.index(id.kind)?)?;
    let sink = container.watch.as_ref()?.sink.clone();
    let mut before = container.probe(id.kind).before;
    let mut keep = None;
    let events = match &run_result.answer {
        Err(error) => events::of_error(spec, error, &mut before),
        Ok(answer) => {
            let probe_state = container.memory.of_mut(id.kind);
            let was = *probe_state;
            let to = rules::take(spec, probe_state, answer.outcome.verdict());
            let events = events::of_answer(spec, probe_state, to, answer, &mut before);
            if rules::differs(&was, probe_state) {
                let output = || answer.output.clone();
                let change = to.map(|to| Change { kind: id.kind, from: was.result, to, output: output() });
                container.kept = Arc::new(container.memory.clone());
                keep = Some((container.kept.clone(), change));
            }
            events
        }
    };
    let probe = container.probe_mut(id.kind);
    probe.before = before;
    probe.count(run_result);
    Some(Effect { id, sink, events, keep })
}
