//! The engine: woken by the kernel or by its own timer it reads the node anew, decides, acts and tells.
//!
//! Memory and processes have a thread of their own at high priority ([`fast`]), disks a task ([`disk`]), since what frees
//! a disk takes its time; neither waits for the other. Each has its own thresholds and conditions. Limits of disk space that
//! pods have of their own are looked at by another task ([`limits`]), whatever the node has left.

mod conditions;
mod disk;
mod fast;
mod limits;
mod saver;
mod shared;
mod simulate;
mod story;
mod subjects;

use std::sync::Arc;

use tokio::sync::watch;
use tracing::{info, warn};

use super::Pressure;
use super::gather::{GatherError, Node};
use super::history::History;
use super::wake::{Waker, Wakeups};
use crate::Eviction;
use nodewarden_config::EvictionSettings;
use nodewarden_cri::Client;
use nodewarden_gc::Collector;
use nodewarden_machine::cgroup::Layout;
use nodewarden_model::{ConditionSeen, Decision, EvictionStatus, SignalSeen};
use nodewarden_storage::journal::Journal;
pub use saver::Remembered;
use shared::Shared;
pub use subjects::Subjects;

/// Who has a pod make way.
pub type Evict = Box<dyn Fn(&str, Eviction) + Send + Sync>;

/// What the engine needs of others.
pub struct Needs {
    pub settings: EvictionSettings,
    pub layout: Layout,
    /// Path of the pods' cgroup below the mounts.
    pub kubepods: String,
    pub subjects: Box<dyn Subjects>,
    /// None without a container runtime: disks are not watched then.
    pub collector: Option<Collector>,
    pub runtime: Option<Client>,
    /// None where nothing is to be done (mode observe).
    pub evict: Option<Evict>,
    pub history: History,
    pub journal: Journal,
    pub pressure: watch::Sender<Pressure>,
}

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Node(#[from] GatherError),
    #[error("the thread of eviction: {0}")]
    Thread(std::io::Error),
}

/// The running engine as its surfaces see it; cloning shares it.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// Ends the engine when dropped.
pub struct Running {
    _fast: fast::Running,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Engine {
    /// Starts the engine, which reads the node at its own pace and at each of `wakeups`. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// The node cannot be read, or a thread cannot be started.
    pub fn start(
        needs: Needs,
        remembered: Remembered,
        wakeups: Wakeups,
    ) -> Result<(Self, Running), EngineError> {
        let node = Node::new(&needs.layout, &needs.kubepods)?;
        let (waker, woken) = Waker::start(&needs.layout, &needs.kubepods, wakeups);
        info!(by = waker.watching().join(", "), "eviction is woken");
        let shared = Arc::new(Shared::new(needs, remembered));
        let fast = fast::start(shared.clone(), node, waker, woken).map_err(EngineError::Thread)?;
        let mut tasks = Vec::new();
        match shared.needs.collector.clone() {
            Some(collector) => tasks.push(tokio::spawn(disk::run(shared.clone(), collector))),
            None => warn!("disks are not watched: there is no container runtime"),
        }
        if shared.needs.settings.own_limits {
            tasks.push(tokio::spawn(limits::run(shared.clone())));
        }
        Ok((Self(shared), Running { _fast: fast, tasks }))
    }
}

#[async_trait::async_trait]
impl EvictionStatus for Engine {
    fn conditions(&self) -> Vec<ConditionSeen> {
        let pressure = self.0.needs.pressure.borrow().clone();
        conditions::seen(&pressure, |condition| self.0.ended(condition))
    }

    fn decisions(&self) -> Vec<Arc<Decision>> {
        self.0.needs.history.newest()
    }

    fn signals(&self) -> Vec<SignalSeen> {
        self.0.seen.lock().values().flatten().cloned().collect()
    }

    fn watching(&self) -> Vec<String> {
        self.0.watching.lock().clone()
    }

    async fn simulate(&self, signal: &str, threshold: &str) -> Result<Decision, String> {
        simulate::simulate(&self.0, signal, threshold).await
    }
}
