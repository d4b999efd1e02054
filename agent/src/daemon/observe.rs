//! Mode observe: nothing on the node is changed. What garbage collection and eviction would do is shown.

use super::context::Context;
use super::eviction::{self, Eviction, SeenPods};
use super::gc;
use super::node_parts::NodeParts;
use nodewarden_config::EvictionSettings;
use nodewarden_eviction::Wakeups;
use nodewarden_eviction::engine::{Evict, KubeletPods, RestoredState, Subjects};
use nodewarden_gc::Holds;
use nodewarden_model::Identity;
use nodewarden_observer::registry::Group;
use nodewarden_qos::Levels;
use tokio::sync::watch;

/// What eviction chooses from, when, and what it does.
pub struct Evicting {
    pub subjects: Box<dyn Subjects>,
    pub settings: EvictionSettings,
    /// `None` if it is only shown.
    pub evict: Option<Evict>,
    /// Set in mode augment.
    pub beside: Option<Box<dyn KubeletPods>>,
}

impl Evicting {
    /// It is only shown which of all pods that are seen would be evicted.
    pub fn shown(context: Context<'_>) -> Self {
        Self {
            subjects: Box::new(SeenPods(context.observer.clone())),
            settings: context.config.eviction.clone(),
            evict: None,
            beside: None,
        }
    }
}

/// Starts eviction, and garbage collection if a container runtime is configured. Must be called inside a
/// tokio runtime.
pub fn start(context: Context<'_>, wakeups: Wakeups, evicting: Evicting) -> NodeParts {
    let endpoint = context.config.runtime_endpoint.as_ref();
    let gc = endpoint.map(|endpoint| gc::start(context, endpoint, Holds::default()));
    let eviction = Eviction::start(
        context,
        eviction::Setup {
            kubepods: kubepods(context),
            subjects: evicting.subjects,
            settings: evicting.settings,
            collector: gc.clone(),
            evict: evicting.evict,
            beside: evicting.beside,
            pressure: watch::Sender::default(),
            history: eviction::history(context),
            restored: RestoredState::open(&context.config.state_dir),
            wakeups,
        },
    );
    NodeParts { eviction, gc, ..NodeParts::default() }
}

/// Path of the cgroup above all pods: the configured one if it is there, else another that was found.
pub fn kubepods(context: Context<'_>) -> String {
    let configured = Levels::below(&context.config.node.cgroup_root).ok();
    let configured = configured.map(|levels| levels.kubepods.cgroupfs_path());
    let registry = context.observer.registry.lock();
    let is_kubepods = |group: &&Group| *group.identity == Identity::Kubepods;
    let mut found: Vec<String> =
        registry.groups().filter(is_kubepods).map(|group| group.path.to_string()).collect();
    if let Some(own) = &configured
        && found.contains(own)
    {
        return own.clone();
    }
    found.truncate(1);
    found.pop().or(configured).unwrap_or_else(|| "/kubepods".to_owned())
}
