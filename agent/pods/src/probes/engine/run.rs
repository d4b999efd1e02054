//! One run of a probe. The engine's task polls it once, which is enough for most connections on this node;
//! what is not done then continues in a task of its own, which reports exactly once, however it ends.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::state::Id;
use super::task::Message;
use crate::probes::{Answer, Prober, Target};
use nodewarden_manifest::{HandlerKind, ProbeSpec};
use nodewarden_tasks::faults::about;

/// How long after its time-out a run still counts in its lane: if the runtime does not respond, other probes
/// must not wait for it.
const LATE: Duration = Duration::from_secs(1);

/// A run to begin.
pub struct Run {
    pub id: Id,
    pub target: Arc<Target>,
    pub specs: Arc<[ProbeSpec]>,
    /// Index of the probe in `specs`.
    pub index: usize,
}

/// Report that a run has ended.
pub struct Ended {
    pub id: Id,
    pub handler: HandlerKind,
    /// Whether it was already removed from its lane because it was late.
    pub late: bool,
    /// The result; `None` if the run was cancelled.
    pub run_result: Option<RunResult>,
}

/// Result of a run.
pub struct RunResult {
    pub begun: Instant,
    pub at: Timestamp,
    pub took: Duration,
    /// The answer, or the failure of the prober as text.
    pub answer: Result<Answer, String>,
}

/// What became of a run that was begun.
pub enum Begun {
    /// It has ended in its first poll.
    Ended(Ended),
    /// It continues in a task of its own, which sends a message when it ends.
    Running(AbortHandle),
}

/// Reports the run as cancelled when it is dropped.
struct Report {
    id: Id,
    handler: HandlerKind,
    late: bool,
    /// `None` after the run has ended.
    sender: Option<UnboundedSender<Message>>,
}

impl Report {
    /// Frees the place in the lane for another run.
    fn free_place(&mut self) {
        self.late = true;
        if let Some(sender) = &self.sender {
            // Fails only when the runtime ends.
            let _ = sender.send(Message::Late(self.handler));
        }
    }

    fn with(&self, run_result: Option<RunResult>) -> Ended {
        Ended { id: self.id, handler: self.handler, late: self.late, run_result }
    }

    fn ended(mut self, run_result: RunResult) -> Ended {
        self.sender = None;
        self.with(Some(run_result))
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            let _ = sender.send(Message::Ended(self.with(None)));
        }
    }
}

/// Begins the run: polls it once, and spawns a task if it has not ended then. Calls the prober. Must be
/// called inside a tokio runtime.
pub fn begin(run: Run, prober: Arc<dyn Prober>, sender: &UnboundedSender<Message>) -> Begun {
    // Where panics are caught, this run alone ends, and whose it was is of no use.
    if cfg!(panic = "abort") {
        let uid = run.target.uid.as_str().into();
        poll_or_spawn(Box::pin(about(uid, carry_out(run, prober, sender.clone()))), sender)
    } else {
        poll_or_spawn(Box::pin(carry_out(run, prober, sender.clone())), sender)
    }
}

fn poll_or_spawn(
    mut work: Pin<Box<impl Future<Output = Ended> + Send + 'static>>,
    sender: &UnboundedSender<Message>,
) -> Begun {
    // This waker wakes nothing: the spawned task polls again before it waits.
    if let Poll::Ready(ended) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return Begun::Ended(ended);
    }
    let sender = sender.clone();
    let task = work.map(move |ended| drop(sender.send(Message::Ended(ended))));
    Begun::Running(tokio::spawn(task).abort_handle())
}

async fn carry_out(run: Run, prober: Arc<dyn Prober>, sender: UnboundedSender<Message>) -> Ended {
    let spec = &run.specs[run.index];
    let mut report = Report { id: run.id, handler: spec.handler.kind(), late: false, sender: Some(sender) };
    let (begun, at) = (Instant::now(), Timestamp::now());
    // The call is inside the guard, because a prober may work before it returns a future.
    let probe = async { prober.probe(&run.target, spec).await };
    let mut probe = pin!(AssertUnwindSafe(probe).catch_unwind());
    let answer = match timeout(spec.timeout.saturating_add(LATE), &mut probe).await {
        Ok(answer) => answer,
        Err(_) => {
            report.free_place();
            probe.await
        }
    };
    let answer = match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(panic) => Err(format!("the prober panicked: {}", words(panic.as_ref()))),
    };
    report.ended(RunResult { begun, at, took: begun.elapsed(), answer })
}

/// The message of a panic.
pub fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
