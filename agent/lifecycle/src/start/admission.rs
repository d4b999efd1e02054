//! Starts the admission of pods to this node.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::Deps;
use crate::manager::Input;
use nodewarden_admission as admission;
use nodewarden_admission::amounts::capacity;
use nodewarden_admission::node_labels;
use nodewarden_admission::{Admission, Node};
use nodewarden_config::{Config, NodeSettings};
use nodewarden_hierarchy::node_name;
use nodewarden_machine::node::Capacity;
use nodewarden_tasks::parts;

/// How long the task may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

/// The admission of this node; pods that it preempts are reported through `inputs`. Must be called inside a
/// tokio runtime.
pub fn start(config: &Config, deps: &Deps, inputs: &mpsc::UnboundedSender<Input>) -> Admission {
    let name = node_name(config);
    let node = Node {
        labels: node_labels(&name),
        taints: Vec::new(),
        shutting_down: false,
        labels_expected: config.kubernetes.connects(),
        name,
        capacity: capacity(&deps.capacity.borrow(), &config.node),
        manifests_critical: config.eviction.manifests_critical,
    };
    let (devices, inputs) = (deps.devices.clone(), inputs.downgrade());
    let admission = Admission::new(admission::Deps {
        node,
        devices: Arc::new(move |resource, admitted| {
            let usable = devices.usable(resource, admitted)?;
            Some(i64::try_from(usable).unwrap_or(i64::MAX))
        }),
        pressure: deps.pressure.clone(),
        evict: Arc::new(move |uid, eviction| {
            // The receiver is gone when the agent ends.
            if let Some(inputs) = inputs.upgrade() {
                let _ = inputs.send(Input::Evict { uid: uid.to_owned(), eviction });
            }
        }),
        explain: deps.explain.clone(),
    });
    let part = parts::register("admission", LIMIT);
    tokio::spawn(part.task(admission.clone().follow(deps.devices.changes())));
    let part = parts::register("admission", LIMIT);
    tokio::spawn(part.task(follow_capacity(admission.clone(), deps.capacity.clone(), config.node.clone())));
    admission
}

/// Admits by the capacity that the machine has now; ends when no reader is left.
async fn follow_capacity(
    admission: Admission,
    mut machine: watch::Receiver<Arc<Capacity>>,
    settings: NodeSettings,
) {
    // It may have changed since the start.
    machine.mark_changed();
    while machine.changed().await.is_ok() {
        let now = machine.borrow_and_update().clone();
        admission.set_capacity(capacity(&now, &settings));
    }
}
