//! Eviction: the engine with what it needs of the other parts. It chooses from the pods that this agent runs
//! ([`ManagedPods`]) or, in mode observe, from all pods that are seen ([`SeenPods`]).

mod managed_pods;
mod seen_pods;

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::warn;

use super::context::Context;
use nodewarden_config::EvictionSettings;
use nodewarden_cri::Client;
use nodewarden_eviction::History;
use nodewarden_eviction::Pressure;
use nodewarden_eviction::Wakeups;
use nodewarden_eviction::engine::{Deps, Engine, Evict, KubeletPods, RestoredState, Running, Subjects};
use nodewarden_gc::Collector;
use nodewarden_model::Detail;

pub use managed_pods::ManagedPods;
pub use seen_pods::SeenPods;

/// What differs between the modes.
pub struct Setup {
    /// Path of the cgroup above all pods, below the mounts.
    pub kubepods: String,
    pub subjects: Box<dyn Subjects>,
    pub settings: EvictionSettings,
    /// `None` without a container runtime: disks are not watched then.
    pub collector: Option<Collector>,
    /// Evicts a pod; `None` in mode observe.
    pub evict: Option<Evict>,
    /// Set in mode augment.
    pub beside: Option<Box<dyn KubeletPods>>,
    /// Gets the node conditions that are true.
    pub pressure: watch::Sender<Pressure>,
    pub history: History,
    /// Thresholds and conditions as an earlier agent left them.
    pub restored: RestoredState,
    pub wakeups: Wakeups,
}

/// The running engine; it ends when this is dropped.
pub struct Eviction {
    pub engine: Engine,
    _running: Running,
}

impl Eviction {
    /// Starts the engine. `None`, with the reason in the log and in the journal, where the node cannot be
    /// read. Must be called inside a tokio runtime.
    pub fn start(context: Context<'_>, setup: Setup) -> Option<Self> {
        let config = context.config;
        let deps = Deps {
            settings: setup.settings,
            layout: context.observer.facts.layout.clone(),
            kubepods: setup.kubepods,
            subjects: setup.subjects,
            collector: setup.collector,
            runtime: config.runtime_endpoint.as_ref().map(|endpoint| {
                Client::new(endpoint)
                    .with_image_service(config.image_endpoint.as_ref())
                    .with_request_limit(config.pods.runtime_request_timeout)
            }),
            evict: setup.evict,
            beside: setup.beside,
            history: setup.history,
            journal: context.journal.clone(),
            pressure: setup.pressure,
        };
        match Engine::start(deps, setup.restored, setup.wakeups) {
            Ok((engine, running)) => Some(Self { engine, _running: running }),
            Err(error) => {
                let message = format!("eviction is off: {error}");
                warn!("{message}");
                let detail = Detail::Agent { reason: "FeatureOff".into(), message };
                context.journal.append(Timestamp::now(), "", None, detail);
                None
            }
        }
    }
}

/// The decisions of earlier agents. A damaged file is reported in the log and in the journal.
pub fn history(context: Context<'_>) -> History {
    let (history, problem) = History::open(&context.config.state_dir);
    if let Some(problem) = problem {
        warn!("{problem}");
        let detail = Detail::Agent { reason: "RecordDamaged".into(), message: problem.to_string() };
        context.journal.append(Timestamp::now(), "", None, detail);
    }
    history
}
