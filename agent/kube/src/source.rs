//! The pods that the API server has bound to this node, as a [`PodSource`].
//!
//! Pods are listed once, in pages, and then watched. `decode` reads what arrives into slim values, each pod
//! by itself, so that one that cannot be read affects no other. `state` (pure) is what is known of them
//! together and what the lifecycle is asked to do for them. `follow` asks the API server and asks again:
//! nothing that goes wrong there ends or loses a pod. `last_delete` deletes pods at the API server that have
//! ended here.
//!
//! A pod that this agent cannot run is refused: it gets a [`PodView`](nodewarden_model::PodView) with phase
//! Failed in the [`PodStatusCache`], from which its status is written as that of any other.

mod decode;
mod follow;
mod last_delete;
mod pace;
mod refused;
mod state;

use std::io;
use std::time::Duration;

use nodewarden_model::Origin;
use nodewarden_pods::source::{Desired, DesiredSender, PodOrigins, PodSource, SourceGuard};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::{Connection, KnownPods};
use follow::Follower;
use last_delete::LastDeletes;
use state::ApiPods;

/// How long a task may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

/// The pods of the API server whose `spec.nodeName` is this node.
#[derive(Debug)]
pub struct ApiSource {
    connection: Connection,
    status: PodStatusCache,
    known: KnownPods,
    pods: ApiPods,
    journal: Journal,
}

impl ApiSource {
    /// The source of the node of `connection`. It fills `known`, and reads from `status` which pods have
    /// ended. Pods that are refused are recorded in `journal`.
    pub fn new(connection: Connection, status: PodStatusCache, known: KnownPods, journal: Journal) -> Self {
        Self { connection, status, known, pods: ApiPods::default(), journal }
    }
}

impl PodSource for ApiSource {
    fn name(&self) -> &'static str {
        Origin::API
    }

    fn set_running(&mut self, running: &PodOrigins) {
        self.pods.set_running(running.clone());
    }

    /// The API server is not waited for: pods that run stay until the first list is complete.
    fn snapshot(&mut self) -> Desired {
        self.pods.desired()
    }

    fn follow(self: Box<Self>, changes: DesiredSender) -> io::Result<SourceGuard> {
        let Self { connection, status, known, pods, journal } = *self;
        let (gone, is_gone) = mpsc::unbounded_channel();
        let deletes = LastDeletes::new(connection.clone(), status.clone(), known.clone(), gone);
        let follower = Follower::new(connection, status, known, pods, changes, Some(journal));
        let follower = tokio::spawn(parts::register("API pods", LIMIT).task(follower.run(is_gone)));
        let deletes = tokio::spawn(parts::register("API pods' deletion", LIMIT).task(deletes.run()));
        Ok(Box::new(Guard(vec![follower, deletes])))
    }
}

/// Calls `changes` with the node's pods whenever they change, for an agent that does not run them: nothing is
/// ever deleted or written at the API server. Must be called inside a tokio runtime; ends when the result is
/// dropped.
pub fn watch(connection: Connection, changes: DesiredSender) -> SourceGuard {
    // No request shows that a pod is gone.
    let (never, is_gone) = mpsc::unbounded_channel();
    let (status, known) = (PodStatusCache::default(), KnownPods::default());
    let follower = Follower::new(connection, status, known, ApiPods::default(), changes, None);
    let part = parts::register("API pods", LIMIT);
    let follower = tokio::spawn(part.task(async move {
        let _never = never;
        follower.run(is_gone).await;
    }));
    Box::new(Guard(vec![follower]))
}

/// Ends the tasks when it is dropped.
struct Guard(Vec<JoinHandle<()>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
