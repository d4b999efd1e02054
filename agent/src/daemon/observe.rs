//! Mode observe: nothing on the node is changed. What garbage collection and eviction would do is shown.

use super::context::Context;
use super::eviction::{self, Eviction, SeenPods};
use super::gc;
use super::node_parts::NodeParts;
use nodewarden_eviction::Wakeups;
use nodewarden_eviction::engine::RestoredState;
use nodewarden_gc::Holds;
use nodewarden_model::Identity;
use nodewarden_observer::registry::Group;
use nodewarden_qos::Levels;
use tokio::sync::watch;

/// Starts eviction, and garbage collection if a container runtime is configured. Must be called inside a
/// tokio runtime.
pub fn start(context: Context<'_>, wakeups: Wakeups) -> NodeParts {
    let endpoint = context.config.runtime_endpoint.as_ref();
    let gc = endpoint.map(|endpoint| gc::start(context, endpoint, Holds::default()));
    let eviction = Eviction::start(
        context,
        eviction::Setup {
            kubepods: kubepods(context),
            subjects: Box::new(SeenPods(context.observer.clone())),
            collector: gc.clone(),
            evict: None,
            pressure: watch::Sender::default(),
            history: eviction::history(context),
            restored: RestoredState::open(&context.config.state_dir),
            wakeups,
        },
    );
    NodeParts { eviction, gc, ..NodeParts::default() }
}

/// Path of the cgroup above all pods: the one that was found, else the configured one.
fn kubepods(context: Context<'_>) -> String {
    let found = {
        let registry = context.observer.registry.lock();
        let is_kubepods = |group: &&Group| *group.identity == Identity::Kubepods;
        registry.groups().find(is_kubepods).map(|group| group.path.to_string())
    };
    let configured = || {
        let levels = Levels::below(&context.config.node.cgroup_root).ok()?;
        Some(levels.kubepods.cgroupfs_path())
    };
    found.or_else(configured).unwrap_or_else(|| "/kubepods".to_owned())
}
