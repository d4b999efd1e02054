//! Whether a pod fits, as a function of what is available (kubelet: `predicateAdmitHandler.Admit`, the
//! scheduler's `AdmissionCheck`, and the eviction manager's `Admit`). Taints are not checked for
//! static pods, as by a kubelet.

use std::collections::BTreeMap;

use super::amounts::{Amounts, PODS};
use super::ports::HostPort;
use super::refusal::Refusal;
use super::selector::{LINUX, OS, wants_node};
use super::toleration::{MEMORY_PRESSURE, NO_EXECUTE, NO_SCHEDULE, NoExecuteTaint, tolerates};
use nodewarden_eviction::{NodeCondition, Pressure};
use nodewarden_manifest::names::{CPU, EPHEMERAL_STORAGE, MEMORY};
use nodewarden_manifest::{Pod, PodKind, QosClass};

/// A pod's request for admission.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub pod: &'a Pod,
    pub wants: &'a Amounts,
    pub ports: &'a [HostPort],
    /// The pod is admitted under any node condition.
    pub critical: bool,
}

/// What the request is compared with.
#[derive(Clone, Copy)]
pub struct NodeState<'a> {
    pub node_name: &'a str,
    /// `None` if they are not known, then they are not checked.
    pub labels: Option<&'a BTreeMap<String, String>>,
    /// Its taints that keep pods from running.
    pub taints: &'a [NoExecuteTaint],
    pub pressure: &'a Pressure,
    /// The machine is about to shut down: no pod is admitted.
    pub shutting_down: bool,
    /// How much of a resource pods can have together; `None` if unknown, then it is not checked.
    pub capacity: &'a dyn Fn(&str) -> Option<i64>,
    /// How much of it is held by or reserved for others.
    pub used: &'a dyn Fn(&str) -> i64,
    /// Whether another pod has this port.
    pub port_taken: &'a dyn Fn(&HostPort) -> bool,
}

/// Every reason why the pod may not start; empty if it may. The first one is the reason in its status.
pub fn check(request: &Request<'_>, node: &NodeState<'_>) -> Vec<Refusal> {
    let Request { pod, wants, ports, critical } = *request;
    let mut refusals = Vec::new();
    if node.shutting_down {
        refusals.push(Refusal::Shutdown);
    }
    if !critical {
        refusals.extend(pressed(pod, node.pressure));
    }
    if pod.labels.get(OS).is_some_and(|os| os != LINUX) {
        refusals.push(Refusal::OsLabel);
    }
    let spec = pod.spec();
    if spec.os.as_ref().is_some_and(|os| os.name != LINUX) {
        refusals.push(Refusal::Os);
    }
    refusals.extend(insufficient(wants, node));
    if node.labels.is_some_and(|labels| !wants_node(pod, node.node_name, labels)) {
        refusals.push(Refusal::Affinity);
    }
    let named = spec.node_name.as_deref().filter(|name| !name.is_empty());
    if named.is_some_and(|name| name != node.node_name) {
        refusals.push(Refusal::NodeName);
    }
    if ports.iter().any(node.port_taken) {
        refusals.push(Refusal::Ports);
    }
    if pod.kind == PodKind::Api && !node.taints.iter().all(|taint| is_tolerated(pod, taint)) {
        refusals.push(Refusal::Taint);
    }
    refusals
}

/// The insufficient resources, in the order of the scheduler's `fitsRequest`.
fn insufficient<'a>(wants: &'a Amounts, node: &'a NodeState<'_>) -> impl Iterator<Item = Refusal> + 'a {
    const FIRST: [&str; 4] = [PODS, CPU, MEMORY, EPHEMERAL_STORAGE];
    let first = FIRST.into_iter().filter_map(|name| wants.get_key_value(name));
    let others = wants.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    first.chain(others).filter(|(_, wanted)| **wanted > 0).filter_map(|(name, wanted)| {
        let (capacity, used) = ((node.capacity)(name)?, (node.used)(name));
        (*wanted > capacity - used).then(|| Refusal::Insufficient {
            resource: name.clone(),
            requested: *wanted,
            used,
            capacity,
        })
    })
}

/// Memory pressure alone excludes BestEffort pods, unless they tolerate it; other conditions exclude every
/// pod.
fn pressed(pod: &Pod, pressure: &Pressure) -> Option<Refusal> {
    let conditions: Vec<_> = pressure.0.keys().copied().collect();
    let admitted = match conditions[..] {
        [] => true,
        [NodeCondition::MemoryPressure] => {
            let spec = pod.spec();
            let mut tolerations = spec.tolerations.iter().flatten();
            pod.qos != QosClass::BestEffort
                || tolerations.any(|own| tolerates(own, MEMORY_PRESSURE, "", NO_SCHEDULE))
        }
        _ => false,
    };
    (!admitted).then_some(Refusal::Pressure(conditions))
}

fn is_tolerated(pod: &Pod, taint: &NoExecuteTaint) -> bool {
    let spec = pod.spec();
    let mut tolerations = spec.tolerations.iter().flatten();
    tolerations.any(|own| tolerates(own, &taint.key, &taint.value, NO_EXECUTE))
}

#[cfg(test)]
mod tests;
