//! The engine: woken by the kernel or by its own timer, it reads the node, decides, evicts and records the
//! decision.
//!
//! Memory and processes have a thread of their own at high priority (`fast`), disks a task (`disk`), since
//! freeing disk space takes time; neither waits for the other. Each has its own thresholds and conditions.
//! Limits of disk space that pods have of their own are checked by another task (`limits`), whatever the node
//! has left. What pods use is counted for `/stats/summary` by one more (`disk_view`).

mod conditions;
mod crossings;
mod decision_log;
mod disk;
mod disk_view;
mod fast;
mod figures;
#[cfg(test)]
mod fixture;
mod freed;
mod limits;
mod prepared;
mod reclaim;
mod saver;
mod shared;
mod simulate;
mod subjects;
mod victim;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use super::Pressure;
use super::gather::{GatherError, Node};
use super::history::History;
use super::wake::{WakeSources, Wakeups};
use crate::Eviction;
use nodewarden_config::EvictionSettings;
use nodewarden_cri::Client;
use nodewarden_gc::Collector;
use nodewarden_machine::cgroup::Layout;
use nodewarden_model::{ConditionSeen, Decision, DiskView, EvictionStatus, SignalSeen};
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts;
pub use saver::RestoredState;
use shared::Shared;
pub use subjects::{KubeletPods, Subjects};

/// Evicts the pod with a uid.
pub type Evict = Box<dyn Fn(&str, Eviction) + Send + Sync>;

/// Configuration and dependencies of the engine.
pub struct Deps {
    /// Thresholds, intervals and grace periods.
    pub settings: EvictionSettings,
    /// The machine's cgroup hierarchies.
    pub layout: Layout,
    /// Path of the pods' cgroup, relative to the mounts.
    pub kubepods: String,
    /// The pods to choose from.
    pub subjects: Box<dyn Subjects>,
    /// Reads file systems and reclaims disk space. `None` without a container runtime: disks are not watched
    /// then.
    pub collector: Option<Collector>,
    /// The container runtime, asked for the use of writable layers that cannot be counted here.
    pub runtime: Option<Client>,
    /// Evicts a pod. `None` if decisions are only recorded (mode observe).
    pub evict: Option<Evict>,
    /// Set beside a kubelet: only memory and processes are acted on, and a soft threshold asks for an
    /// eviction, which may be refused. `None` where this agent runs the pods, and in mode observe.
    pub beside: Option<Box<dyn KubeletPods>>,
    /// Where decisions are stored.
    pub history: History,
    /// Where events go.
    pub journal: Journal,
    /// Where the node conditions are published.
    pub pressure: watch::Sender<Pressure>,
}

/// Why the engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Memory of the node cannot be read.
    #[error(transparent)]
    Node(#[from] GatherError),
    /// The thread cannot be started.
    #[error("cannot start the eviction thread: {0}")]
    Thread(std::io::Error),
}

/// Handle to the running engine for the API; clones share it.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// How long a round may take: images are removed and files are counted in it.
const DISK_LIMIT: Duration = Duration::from_secs(3600);

/// Stops the engine when dropped.
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
    /// Starts the engine, which reads the node at its own pace and at each of `wakeups`. Must be called
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// The node cannot be read, or a thread cannot be started.
    pub fn start(
        deps: Deps,
        restored: RestoredState,
        wakeups: Wakeups,
    ) -> Result<(Self, Running), EngineError> {
        let node = Node::new(&deps.layout, &deps.kubepods)?;
        let (sources, woken) = WakeSources::start(&deps.layout, &deps.kubepods, wakeups);
        info!(by = sources.watching().join(", "), "eviction is woken");
        let shared = Arc::new(Shared::new(deps, restored));
        let fast = fast::start(shared.clone(), node, sources, woken).map_err(EngineError::Thread)?;
        let mut tasks = Vec::new();
        match shared.deps.collector.clone() {
            Some(collector) => {
                let (own, part) = (shared.clone(), parts::register("disk eviction", DISK_LIMIT));
                tasks.push(tokio::spawn(part.task_with(move |pulse| disk::run(own, collector, pulse))));
            }
            None => warn!("disks are not watched: there is no container runtime"),
        }
        if shared.deps.settings.own_limits {
            let (own, part) = (shared.clone(), parts::register("disk limits", DISK_LIMIT));
            tasks.push(tokio::spawn(part.task_with(move |pulse| limits::run(own, pulse))));
        }
        let (own, part) = (shared.clone(), parts::register("disk figures", DISK_LIMIT));
        tasks.push(tokio::spawn(part.task_with(move |pulse| disk_view::run(own, pulse))));
        Ok((Self(shared), Running { _fast: fast, tasks }))
    }
}

#[async_trait::async_trait]
impl EvictionStatus for Engine {
    fn conditions(&self) -> Vec<ConditionSeen> {
        let pressure = self.0.deps.pressure.borrow().clone();
        conditions::statuses(&pressure, |condition| self.0.ended(condition))
    }

    fn decisions(&self) -> Vec<Arc<Decision>> {
        self.0.deps.history.newest()
    }

    fn disk_use(&self) -> Arc<DiskView> {
        self.0.disk_views.get()
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
