//! One run of a probe: a task of its own, which reports exactly once however it ends.

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

/// How much longer than its time-out a run keeps its place: one that a runtime does not answer must not hold up others.
const LATE: Duration = Duration::from_secs(1);

/// What is to be run.
pub struct Run {
    pub id: Id,
    pub target: Arc<Target>,
    pub specs: Arc<[ProbeSpec]>,
    /// Which of them.
    pub index: usize,
}

/// A run's task is gone.
pub struct Ended {
    pub id: Id,
    pub handler: HandlerKind,
    /// It has given its place away before.
    pub late: bool,
    /// None: thrown away.
    pub told: Option<Told>,
}

/// What a run came to.
pub struct Told {
    pub begun: Instant,
    pub at: Timestamp,
    pub took: Duration,
    /// `Err`: what went wrong with the prober.
    pub answer: Result<Answer, String>,
}

/// Sends its [`Ended`] when it is dropped.
struct Report {
    ended: Option<Ended>,
    sender: UnboundedSender<Message>,
}

impl Report {
    /// Another may begin in its place.
    fn give_way(&mut self) {
        if let Some(ended) = &mut self.ended {
            ended.late = true;
            let _ = self.sender.send(Message::Late(ended.handler));
        }
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            // Nobody listens when the runtime ends.
            let _ = self.sender.send(Message::Ended(ended));
        }
    }
}

/// Begins it. Must be called inside a tokio runtime.
pub fn begin(run: Run, prober: Arc<dyn Prober>, sender: UnboundedSender<Message>) -> AbortHandle {
    let handler = run.specs[run.index].handler.kind();
    let mut report = Report { ended: Some(Ended { id: run.id, handler, late: false, told: None }), sender };
    let task = async move {
        let (begun, at) = (Instant::now(), Timestamp::now());
        // The call too: a prober may do its work before it returns a future.
        let probe = async { prober.probe(&run.target, &run.specs[run.index]).await };
        let mut probe = pin!(AssertUnwindSafe(probe).catch_unwind());
        let limit = run.specs[run.index].timeout.saturating_add(LATE);
        let answer = match timeout(limit, &mut probe).await {
            Ok(answer) => answer,
            Err(_) => {
                report.give_way();
                probe.await
            }
        };
        let answer = match answer {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(panic) => Err(format!("the prober panicked: {}", words(panic.as_ref()))),
        };
        if let Some(ended) = &mut report.ended {
            ended.told = Some(Told { begun, at, took: begun.elapsed(), answer });
        }
    };
    tokio::spawn(task).abort_handle()
}

/// What a panic said.
pub fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
