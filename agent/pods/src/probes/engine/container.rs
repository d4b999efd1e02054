//! One container whose probes are made: how they stand and what each is doing.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::histogram::Histogram;
use super::tell::Before;
use super::{ProbeSink, run::Told};
use crate::probes::grid::Grid;
use crate::probes::{ProbeMemory, Target, rules};
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Outcome;
use nodewarden_model::{ProbeCounts, ProbeRun};

/// A container as it was watched last.
pub struct Container {
    pub target: Arc<Target>,
    pub specs: Arc<[ProbeSpec]>,
    /// Of each of `specs`.
    pub grids: Box<[Grid]>,
    pub clock: Clock,
    pub memory: ProbeMemory,
    /// The memory that the sink was given last.
    pub kept: Arc<ProbeMemory>,
    /// None: its [`super::Watched`] is gone.
    pub watch: Option<Watch>,
    probes: [Probe; 3],
}

/// For whom it is watched.
pub struct Watch {
    pub sink: Arc<dyn ProbeSink>,
    pub ending: bool,
}

/// One probe of it. Counts outlive the container, for the next one of its name.
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
    /// It waits for something ([`Container::waits`]).
    #[default]
    Idle,
    Due(Instant),
    /// Due since then, and waiting for its turn.
    Queued(Instant),
    Running {
        due: Instant,
        abort: AbortHandle,
    },
    /// The result of the run that was due then has changed, and is being saved.
    Settling(Instant),
}

/// Ages by the monotonic clock: the wall clock is asked once, when a container is watched.
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

    /// Goes on counting where the container before it ended.
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

    /// Why this probe is not made now. (The others of a startup probe whose success is being saved have nothing to wait
    /// for by the rules; they begin when it is saved.)
    pub fn waits(&self, kind: ProbeKind) -> Option<&'static str> {
        let Some(watch) = &self.watch else { return Some(super::view::CONTAINER) };
        rules::waits(kind, &self.specs, &self.memory, watch.ending)
    }
}

impl Probe {
    /// Takes a run into what is shown and counted.
    pub fn count(&mut self, told: Told) {
        let outcome = match &told.answer {
            Ok(answer) => Ok(answer.outcome),
            Err(error) => Err(error.clone()),
        };
        match outcome {
            Ok(Outcome::Success | Outcome::Warning) => {
                self.counts.successful += 1;
                // A kubelet observes how long runs take of those that succeed.
                self.durations.observe(&super::histogram::DURATION, told.took);
            }
            Ok(Outcome::Failure) => self.counts.failed += 1,
            Err(_) => self.counts.unknown += 1,
        }
        let output = told.answer.map(|answer| answer.output).unwrap_or_default();
        self.last = Some(Arc::new(ProbeRun { begun: told.at, took: told.took, outcome, output }));
    }
}
