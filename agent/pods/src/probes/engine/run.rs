//! One run of a probe: a separate task that reports exactly once, however it ends.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
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

/// Report that the task of a run has ended.
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

/// Sends the [`Ended`] message when it is dropped.
struct Report {
    ended: Option<Ended>,
    sender: UnboundedSender<Message>,
}

impl Report {
    /// Frees the place in the lane for another run.
    fn free_place(&mut self) {
        if let Some(ended) = &mut self.ended {
            ended.late = true;
            let _ = self.sender.send(Message::Late(ended.handler));
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            // Fails only when the runtime ends.
            let _ = self.sender.send(Message::Ended(ended));
        }
    }
}

/// Begins the run. Must be called inside a tokio runtime.
pub fn begin(run: Run, prober: Arc<dyn Prober>, sender: UnboundedSender<Message>) -> AbortHandle {
    let handler = run.specs[run.index].handler.kind();
    let target = run.target.clone();
    let mut report =
        Report { ended: Some(Ended { id: run.id, handler, late: false, run_result: None }), sender };
    let task = async move {
        let (begun, at) = (Instant::now(), Timestamp::now());
        // The call is inside the task, because a prober may work before it returns a future.
        let probe = async { prober.probe(&run.target, &run.specs[run.index]).await };
        let mut probe = pin!(AssertUnwindSafe(probe).catch_unwind());
        let limit = run.specs[run.index].timeout.saturating_add(LATE);
        let answer = match timeout(limit, &mut probe).await {
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
        if let Some(ended) = &mut report.ended {
            ended.run_result = Some(RunResult { begun, at, took: begun.elapsed(), answer });
        }
    };
    // Where panics are caught, this run alone ends, and whose it was is of no use.
    let started = match cfg!(panic = "abort") {
        true => tokio::spawn(about(target.uid.as_str().into(), task)),
        false => tokio::spawn(task),
    };
    started.abort_handle()
}

/// The message of a panic.
pub fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
