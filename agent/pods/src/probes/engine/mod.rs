//! Runs the probes of all containers.
//!
//! ```text
//! watch ─► timer (due, probe) ─► lane of its handler ─► run: polled once, ─────► state ─► sink
//!            ▲                    bounded, first due      then a task that          │
//!            │                    first begun             reports once              │
//!            └────────── the next point of its grid ◄───────────────────────────────┘
//! ```
//!
//! A run that ends in its first poll, as a connection to a pod of this node, needs no task, timer or message.
//!
//! All of it runs on one thread, [`thread`], and probes that are due within ten milliseconds begin together:
//! a thousand probes a second wake it a hundred times, and no run is handed from one CPU to another.
//!
//! A single task begins runs, processes their results and calls sinks, so that every call to a sink has newer
//! data than the one before. A change is saved and published by the sink's future in a separate task; the
//! next run of the probe begins after it.

mod container;
mod events;
#[cfg(test)]
pub(super) mod fixture;
mod histogram;
mod lanes;
mod run;
mod sink;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod thread;
mod view;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{ProbeMemory, Prober, Target};
use nodewarden_config::ProbeSettings;
use nodewarden_manifest::ProbeSpec;
use nodewarden_model::ProbesView;
use nodewarden_tasks::parts;
use state::State;
use task::{Message, Shared};
use thread::EngineThread;

pub use sink::{Change, ProbeSink};

/// All probes of the node. The engine ends when every clone of it and every [`Watched`] are dropped.
#[derive(Clone)]
pub struct Probes(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    task: AbortHandle,
    /// The thread that the task runs on, unless it runs in the caller's runtime.
    _thread: Option<EngineThread>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How long the engine may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

impl Probes {
    /// Starts the engine on a thread of its own.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub fn start(settings: &ProbeSettings, prober: Arc<dyn Prober>) -> io::Result<Self> {
        let thread = EngineThread::start()?;
        let _entered = thread.enter();
        Ok(Self::start_here(settings, prober, Some(thread)))
    }

    /// Starts the engine in the tokio runtime that this is called in, and ends with it.
    pub fn start_in_runtime(settings: &ProbeSettings, prober: Arc<dyn Prober>) -> Self {
        Self::start_here(settings, prober, None)
    }

    fn start_here(settings: &ProbeSettings, prober: Arc<dyn Prober>, thread: Option<EngineThread>) -> Self {
        let (sender, inbox) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::new(State::new(settings), prober, sender));
        let task = tokio::spawn(parts::register("probes", LIMIT).task(task::run(shared.clone(), inbox)))
            .abort_handle();
        Self(Arc::new(Handle { shared, task, _thread: thread }))
    }

    /// Probes this container until the returned value is dropped. `memory` is ignored if it belongs to
    /// another container id or is older than the one last passed to a sink for this id. An earlier container
    /// of the same pod and name is no longer probed.
    pub fn watch(
        &self,
        target: Target,
        specs: Vec<ProbeSpec>,
        memory: ProbeMemory,
        sink: Arc<dyn ProbeSink>,
    ) -> Watched {
        let (container_id, address) = (target.container_id.clone(), target.address);
        let now = (Instant::now(), Timestamp::now());
        let (number, left) = self.0.shared.state().watch((target, specs, memory), sink, now);
        left.end();
        self.0.look();
        Watched { handle: self.0.clone(), number, container_id, address }
    }

    /// Forgets a removed pod and its counts.
    pub fn forget(&self, uid: &str) {
        let left = self.0.shared.state().forget(uid);
        left.end();
    }

    /// The state of all probes for display, including those of pods whose container does not exist now.
    pub fn view(&self) -> ProbesView {
        let taken = view::take(&mut self.0.shared.state());
        taken.show(Instant::now(), Timestamp::now())
    }
}

impl Handle {
    fn look(&self) {
        // Fails only after the runtime has ended.
        let _ = self.shared.sender.send(Message::Look);
    }
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

/// The container is probed as long as this value exists. Dropping it cancels running probes; after that no
/// call to the prober or the sink begins.
#[must_use = "dropped, nothing is probed"]
pub struct Watched {
    handle: Arc<Handle>,
    number: u64,
    container_id: String,
    address: Option<IpAddr>,
}

impl Watched {
    /// The id with which the container was registered.
    pub fn container_id(&self) -> &str {
        &self.container_id
    }

    /// The pod's address when the container was registered; a container whose pod has another address must be
    /// registered again.
    pub fn address(&self) -> Option<IpAddr> {
        self.address
    }

    /// The pod is being terminated: only readiness probes continue (the kubelet's `StopLivenessAndStartup`).
    pub fn end(&self) {
        let left = self.handle.shared.state().end(self.number);
        left.end();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let left = self.handle.shared.state().unwatch(self.number);
        left.end();
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { container_id, address, .. } = self;
        f.debug_struct("Watched").field("container_id", container_id).field("address", address).finish()
    }
}
