//! What tests of probes are made of: targets, specs, a prober whose answers are scripted, a sink that keeps a record.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{Change, ProbeSink};
use crate::probes::{Answer, ProbeError, ProbeMemory, Prober, Target};
use nodewarden_manifest::{HandlerKind, HttpGetProbe, ProbeHandler, ProbeKind, ProbeSpec, Scheme};
use nodewarden_model::{Outcome, Verdict};

/// A container that begins when it is watched: its start is in the future, so its age is nothing.
pub fn target(uid: &str, container: &str, id: &str) -> Target {
    Target {
        uid: uid.to_owned(),
        namespace: "default".to_owned(),
        pod: format!("pod-{uid}"),
        container: container.to_owned(),
        container_id: id.to_owned(),
        started: Timestamp::MAX,
        address: None,
    }
}

/// With the kubelet's defaults.
pub fn spec(kind: ProbeKind, handler: HandlerKind) -> ProbeSpec {
    let handler = match handler {
        HandlerKind::Exec => ProbeHandler::Exec(vec!["true".to_owned()]),
        HandlerKind::TcpSocket => ProbeHandler::TcpSocket { host: None, port: 80 },
        HandlerKind::Grpc => ProbeHandler::Grpc { port: 80, service: String::new() },
        HandlerKind::HttpGet => ProbeHandler::HttpGet(HttpGetProbe {
            scheme: Scheme::Http,
            host: None,
            port: 80,
            path: "/".to_owned(),
            headers: Vec::new(),
        }),
    };
    ProbeSpec {
        kind,
        handler,
        initial_delay: Duration::ZERO,
        timeout: Duration::from_secs(1),
        period: Duration::from_secs(10),
        success_threshold: 1,
        failure_threshold: 3,
        grace: None,
    }
}

/// What a scripted run comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Say {
    Success,
    Warning,
    Failure,
    Error,
    Panic,
    /// No answer as long as nobody drops it.
    Nothing,
}

impl Say {
    /// What it counts as.
    pub fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Success | Self::Warning => Some(Verdict::Success),
            Self::Failure => Some(Verdict::Failure),
            _ => None,
        }
    }
}

/// A run that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub at: Instant,
    pub uid: String,
    pub id: String,
    pub kind: ProbeKind,
    pub handler: HandlerKind,
    /// None: under way. Whether it came to an answer, or was thrown away.
    pub ended: Option<(Instant, bool)>,
    pub says: Say,
}

/// A prober that does what it is told, and keeps a record.
pub struct Script {
    #[expect(clippy::type_complexity, reason = "one function")]
    play: Box<dyn Fn(&Target, &ProbeSpec, usize) -> (Duration, Say) + Send + Sync>,
    pub runs: Mutex<Vec<Begun>>,
}

impl Script {
    /// `play`: after how long which run of this probe (the first is 0) says what.
    pub fn new(
        play: impl Fn(&Target, &ProbeSpec, usize) -> (Duration, Say) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { play: Box::new(play), runs: Mutex::default() })
    }

    /// Each probe of a kind says this, one after another, the last for ever, at once.
    pub fn says(kinds: &[(ProbeKind, &'static [Say])]) -> Arc<Self> {
        let kinds = kinds.to_vec();
        Self::new(move |_, spec, run| {
            let says = kinds.iter().find(|(kind, _)| *kind == spec.kind).unwrap().1;
            (Duration::ZERO, says[run.min(says.len() - 1)])
        })
    }

    pub fn runs(&self) -> Vec<Begun> {
        self.runs.lock().clone()
    }

    /// Milliseconds from `start` to each run of this kind.
    pub fn begun(&self, start: Instant, kind: ProbeKind) -> Vec<u128> {
        let runs = self.runs();
        runs.iter().filter(|run| run.kind == kind).map(|run| (run.at - start).as_millis()).collect()
    }
}

/// Marks a run as over, also one that is dropped.
struct End<'a> {
    script: &'a Script,
    number: usize,
    answered: bool,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut runs = self.script.runs.lock();
        runs[self.number].ended = Some((Instant::now(), self.answered));
    }
}

impl Prober for Script {
    fn probe<'a>(
        &'a self,
        target: &'a Target,
        spec: &'a ProbeSpec,
    ) -> BoxFuture<'a, Result<Answer, ProbeError>> {
        let (number, run) = {
            let mut runs = self.runs.lock();
            let same = |run: &&Begun| run.id == target.container_id && run.kind == spec.kind;
            let run = runs.iter().filter(same).count();
            runs.push(Begun {
                at: Instant::now(),
                uid: target.uid.clone(),
                id: target.container_id.clone(),
                kind: spec.kind,
                handler: spec.handler.kind(),
                ended: None,
                says: Say::Nothing,
            });
            (runs.len() - 1, run)
        };
        let end = End { script: self, number, answered: false };
        let (after, says) = (self.play)(target, spec, run);
        self.runs.lock()[number].says = says;
        async move {
            // As a whole: a block would take its one field.
            let mut end = end;
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            let answer = |outcome| Ok(Answer { outcome, output: format!("run {run}") });
            let answer = match says {
                Say::Success => answer(Outcome::Success),
                Say::Warning => answer(Outcome::Warning),
                Say::Failure => answer(Outcome::Failure),
                Say::Error => Err(prober_error()),
                Say::Panic => panic!("as scripted"),
                Say::Nothing => std::future::pending().await,
            };
            end.answered = true;
            answer
        }
        .boxed()
    }
}

/// An error of a prober, whichever.
pub fn prober_error() -> ProbeError {
    ProbeError::NoAddress
}

/// A sink that keeps a record.
#[derive(Default)]
pub struct Record {
    /// How long it takes to save a change.
    pub saving: Duration,
    pub kept: Mutex<Vec<(Instant, ProbeMemory, Option<Change>)>>,
    pub told: Mutex<Vec<(&'static str, String)>>,
    /// Changes that were published.
    pub published: Arc<Mutex<Vec<Instant>>>,
}

impl Record {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn saving(saving: Duration) -> Arc<Self> {
        Arc::new(Self { saving, ..Self::default() })
    }

    /// Every change so far.
    pub fn changes(&self) -> Vec<Change> {
        self.kept.lock().iter().filter_map(|(.., change)| change.clone()).collect()
    }

    /// What an agent that starts now would read.
    pub fn saved(&self) -> ProbeMemory {
        let kept = self.kept.lock();
        let text = kept.last().map(|(_, memory, _)| serde_json::to_string(memory).unwrap());
        text.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default()
    }

    pub fn told(&self) -> Vec<String> {
        let told = self.told.lock();
        told.iter().map(|(reason, message)| format!("{reason}: {message}")).collect()
    }
}

impl ProbeSink for Record {
    fn keep(&self, memory: &ProbeMemory, change: Option<&Change>) -> BoxFuture<'static, ()> {
        self.kept.lock().push((Instant::now(), memory.clone(), change.cloned()));
        let (saving, published) = (self.saving, self.published.clone());
        let change = change.is_some();
        async move {
            if change {
                tokio::time::sleep(saving).await;
                published.lock().push(Instant::now());
            }
        }
        .boxed()
    }

    fn tell(&self, reason: &'static str, message: String) {
        self.told.lock().push((reason, message));
    }
}
