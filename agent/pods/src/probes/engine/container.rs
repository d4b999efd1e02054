//! State of one probed container: the state of its probes and what each is doing.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::events::Before;
use super::histogram::Histogram;
use super::{ProbeSink, run::RunResult};
use crate::probes::grid::Grid;
use crate::probes::{ProbeMemory, Target, rules};
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Outcome;
use nodewarden_model::{ProbeCounts, ProbeRun};

/// A container, as of the last time it was watched.
pub struct Container {
    pub target: Arc<Target>,
    pub specs: Arc<[ProbeSpec]>,
    /// The schedule of each probe in `specs`.
    pub grids: Box<[Grid]>,
    pub clock: Clock,
    pub memory: ProbeMemory,
    /// The memory last passed to the sink.
    pub kept: Arc<ProbeMemory>,
    /// `None` after its [`super::Watched`] was dropped.
    pub watch: Option<Watch>,
    probes: [Probe; 3],
}

/// The target and sink of a watched container.
pub struct Watch {
    pub sink: Arc<dyn ProbeSink>,
    pub ending: bool,
}

/// One probe of a container. Its counts are carried over to the next container of the same name.
#[derive(Default)]
pub struct Probe {
    pub stage: Stage,
    pub before: Before,
    pub last: Option<Arc<ProbeRun>>,
    pub counts: ProbeCounts,
    pub durations: Histogram<11>,
}

/// What a probe is doing.
#[derive(Default)]
pub enum Stage {
    /// Not scheduled: it waits for something ([`Container::waits`]).
    #[default]
    Idle,
    Due(Instant),
    /// Due since then and waiting for its lane.
    Queued(Instant),
    Running {
        due: Instant,
        /// Of the run's task; `None` during the first poll, for which there is no task.
        abort: Option<AbortHandle>,
    },
    /// The run that was due then changed the result, which is being saved.
    Settling(Instant),
}

/// Computes ages with the monotonic clock; the wall clock is read once, when a container is watched.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub since: Instant,
    pub age: Duration,
}

impl Clock {
    pub fn age(&self, now: Instant) -> Duration {
        self.age + now.saturating_duration_since(self.since)
    }

    pub fn at(&self, age: Duration) -> Instant {
        self.since + age.saturating_sub(self.age)
    }
}

impl Container {
    pub fn new(
        target: Target,
        specs: Vec<ProbeSpec>,
        memory: Arc<ProbeMemory>,
        watch: Watch,
        clock: Clock,
    ) -> Self {
        Self {
            grids: specs.iter().map(|spec| Grid::of(&target, spec)).collect(),
            target: Arc::new(target),
            specs: specs.into(),
            clock,
            memory: ProbeMemory::clone(&memory),
            kept: memory,
            watch: Some(watch),
            probes: Default::default(),
        }
    }

    /// Takes over the counts of the previous container.
    pub fn count_on(&mut self, before: Self) {
        self.probes = before.probes;
        for probe in &mut self.probes {
            (probe.stage, probe.before) = (Stage::Idle, Before::default());
        }
    }

    pub fn index(&self, kind: ProbeKind) -> Option<usize> {
        self.specs.iter().position(|spec| spec.kind == kind)
    }

    pub fn probe(&self, kind: ProbeKind) -> &Probe {
        &self.probes[kind as usize]
    }

    pub fn probe_mut(&mut self, kind: ProbeKind) -> &mut Probe {
        &mut self.probes[kind as usize]
    }

    /// Why this probe does not run now; `None` if it may. (While the success of a startup probe is being
    /// saved, the other probes wait for nothing by the rules; they begin when it is saved.)
    pub fn waits(&self, kind: ProbeKind) -> Option<&'static str> {
        let Some(watch) = &self.watch else { return Some(super::view::CONTAINER) };
        rules::waits(kind, &self.specs, &self.memory, watch.ending)
    }
}

impl Probe {
    /// Records a run in the figures shown and counted.
    pub fn count(&mut self, run_result: RunResult) {
        let outcome = match &run_result.answer {
            Ok(answer) => Ok(answer.outcome),
            Err(error) => Err(error.clone()),
        };
        match outcome {
            Ok(Outcome::Success | Outcome::Warning) => {
                self.counts.successful += 1;
                // Like the kubelet, only the durations of successful runs are observed.
                self.durations.observe(&super::histogram::DURATION, run_result.took);
            }
            Ok(Outcome::Failure) => self.counts.failed += 1,
            Err(_) => self.counts.unknown += 1,
        }
        let output = run_result.answer.map(|answer| answer.output).unwrap_or_default();
        self.last = Some(Arc::new(ProbeRun { begun: run_result.at, took: run_result.took, outcome, output }));
    }
}
