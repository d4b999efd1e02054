//! Keeps the node object and its lease as they should be.
//!
//! First the name is claimed ([`crate::lease::claim`]); then three things run at a time: the watch of the
//! node object, the status, and the lease. A node object that was deleted by hand is registered again. While
//! the API server is away all of it is tried again, with growing delays.

mod claim;
mod lease;
mod report;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use nodewarden_tasks::parts::{self, Pulse};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::error;

use super::facts::{NodeFacts, Pace, Readings};
use super::watch::{Seen, follow};
use super::{NodeEvent, events};
use crate::Connection;

/// Time limit of one request about the node.
pub(super) const CALL: Duration = Duration::from_secs(10);
/// How long a round may take without progress: the longest `nodeStatusUpdateFrequency` is above every wait
/// for an answer.
const LIMIT: Duration = Duration::from_secs(300);

/// Reads the node.
#[async_trait]
pub trait NodeReader: Send + Sync + 'static {
    /// What the status is made of, as it is now.
    async fn read(&self) -> Readings;

    /// Waits until something has changed that users should see at once. May return too often.
    async fn changed(&self);
}

/// What is needed to keep the node object.
pub struct Deps {
    /// The API server.
    pub connection: Connection,
    /// What the node is.
    pub facts: NodeFacts,
    /// How often what is done.
    pub pace: Pace,
    /// `nodeLeaseDurationSeconds`.
    pub lease: Duration,
    /// The identity of this agent, the same after a restart.
    pub identity: String,
    /// Reads the node.
    pub reader: Arc<dyn NodeReader>,
    /// Gets the node's events; must not block.
    pub report: Box<dyn Fn(NodeEvent) + Send + Sync>,
}

/// What keeps the node object; it ends when this is dropped, and the node object stays.
#[derive(Debug)]
pub struct Running {
    task: JoinHandle<()>,
    seen: watch::Receiver<Seen>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    /// The node object, whenever it changes.
    pub fn nodes(&self) -> NodeObject {
        NodeObject(self.seen.clone())
    }
}

/// The node object at the API server.
#[derive(Debug, Clone)]
pub struct NodeObject(watch::Receiver<Seen>);

impl NodeObject {
    /// One that a test shows.
    #[cfg(test)]
    pub(crate) fn channel() -> (impl Fn(Arc<Node>), Self) {
        let (to, seen) = watch::channel(Seen::Unknown);
        (move |node| _ = to.send_replace(Seen::Node(node)), Self(seen))
    }

    /// As it is known now; `None` if it is not known or there is none.
    pub fn get(&self) -> Option<Arc<Node>> {
        match &*self.0.borrow() {
            Seen::Node(node) => Some(node.clone()),
            _ => None,
        }
    }

    /// Waits for the next change; false when there is none any more.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

/// Starts to claim the name and to keep the node object. Must be called inside a tokio runtime.
pub fn start(deps: Deps) -> Running {
    let (to, seen) = watch::channel(Seen::Unknown);
    let sync = NodeSync { deps: Arc::new(deps), to: Arc::new(to) };
    let task = tokio::spawn(parts::register("node object", LIMIT).task_with(|pulse| sync.run(pulse)));
    Running { task, seen }
}

/// The parts of the work share this.
#[derive(Clone)]
struct NodeSync {
    deps: Arc<Deps>,
    to: Arc<watch::Sender<Seen>>,
}

impl NodeSync {
    /// Returns only if the name is that of another agent: the agent ends then.
    async fn run(self, pulse: Pulse) {
        let deps = &self.deps;
        let taken = tokio::select! {
            taken = self.keep_lease(&pulse) => taken,
            () = follow(deps.connection.clone(), &self.to) => return,
            () = self.keep_status(&pulse) => return,
        };
        let message = format!(
            "another agent that is alive has the name {}: {taken}; this one ends (give it another name with --hostname-override)",
            deps.connection.node()
        );
        error!("{message}");
        (deps.report)(NodeEvent { reason: "NodeNameTaken", message, warning: true });
        // A part that ends by itself ends the agent.
        drop(parts::register("node name", LIMIT));
    }

    fn report_changes(&self, known: &NodeStatus, now: &NodeStatus) {
        for event in events::events(self.deps.connection.node(), known, now) {
            (self.deps.report)(event);
        }
    }
}
