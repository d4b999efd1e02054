//! Fixtures for tests of probes: targets, specs, a prober with scripted answers, and a sink that records its
//! calls.

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

/// A container that starts when it is watched: its start time is in the future, so its age is zero.
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

/// A probe with the kubelet's defaults.
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

/// Result of a scripted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scripted {
    Success,
    Warning,
    Failure,
    Error,
    Panic,
    /// Never completes; ends when it is dropped.
    Nothing,
}

impl Scripted {
    /// The verdict that it counts as.
    pub fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Success | Self::Warning => Some(Verdict::Success),
            Self::Failure => Some(Verdict::Failure),
            _ => None,
        }
    }
}

/// A run that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub at: Instant,
    pub uid: String,
    pub id: String,
    pub kind: ProbeKind,
    pub handler: HandlerKind,
    /// `None` while it is running; then its end, and whether it completed or was dropped.
    pub ended: Option<(Instant, bool)>,
    pub says: Scripted,
}

/// A prober that follows a script and records its runs.
pub struct Script {
    #[expect(clippy::type_complexity, reason = "one function")]
    play: Box<dyn Fn(&Target, &ProbeSpec, usize) -> (Duration, Scripted) + Send + Sync>,
    pub runs: Mutex<Vec<Begun>>,
}

impl Script {
    /// `play` returns the duration and the result of a run of this probe; the first run is 0.
    pub fn new(
        play: impl Fn(&Target, &ProbeSpec, usize) -> (Duration, Scripted) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { play: Box::new(play), runs: Mutex::default() })
    }

    /// Probes of these kinds immediately return these results in turn; the last one is repeated.
    pub fn says(kinds: &[(ProbeKind, &'static [Scripted])]) -> Arc<Self> {
        let kinds = kinds.to_vec();
        Self::new(move |_, spec, run| {
            let says = kinds.iter().find(|(kind, _)| *kind == spec.kind).unwrap().1;
            (Duration::ZERO, says[run.min(says.len() - 1)])
        })
    }

    pub fn runs(&self) -> Vec<Begun> {
        self.runs.lock().clone()
    }

    /// The start of each run of this kind in milliseconds after `start`.
    pub fn begun(&self, start: Instant, kind: ProbeKind) -> Vec<u128> {
        let runs = self.runs();
        runs.iter().filter(|run| run.kind == kind).map(|run| (run.at - start).as_millis()).collect()
    }
}

/// Marks a run as ended, even if it is dropped.
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
                says: Scripted::Nothing,
            });
            (runs.len() - 1, run)
        };
        let end = End { script: self, number, answered: false };
        let (after, says) = (self.play)(target, spec, run);
        self.runs.lock()[number].says = says;
        async move {
            // Moved as a whole, because the block would capture only one field.
            let mut end = end;
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            let answer = |outcome| Ok(Answer { outcome, output: format!("run {run}") });
            let answer = match says {
                Scripted::Success => answer(Outcome::Success),
                Scripted::Warning => answer(Outcome::Warning),
                Scripted::Failure => answer(Outcome::Failure),
                Scripted::Error => Err(prober_error()),
                Scripted::Panic => panic!("as scripted"),
                Scripted::Nothing => std::future::pending().await,
            };
            end.answered = true;
            answer
        }
        .boxed()
    }
}

/// An arbitrary error of a prober.
pub fn prober_error() -> ProbeError {
    ProbeError::NoAddress
}

/// A sink that records its calls.
#[derive(Default)]
pub struct Record {
    /// Time that saving a change takes.
    pub saving: Duration,
    pub kept: Mutex<Vec<(Instant, ProbeMemory, Option<Change>)>>,
    pub run_result: Mutex<Vec<(&'static str, String)>>,
    /// Times at which changes were published.
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

    /// The memory that an agent would read if it started now.
    pub fn saved(&self) -> ProbeMemory {
        let kept = self.kept.lock();
        let text = kept.last().map(|(_, memory, _)| serde_json::to_string(memory).unwrap());
        text.map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default()
    }

    pub fn run_result(&self) -> Vec<String> {
        let run_result = self.run_result.lock();
        run_result.iter().map(|(reason, message)| format!("{reason}: {message}")).collect()
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

    fn record_event(&self, reason: &'static str, message: String) {
        self.run_result.lock().push((reason, message));
    }
}
