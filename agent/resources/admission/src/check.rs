//! Whether a pod fits, as a function of what is there (kubelet: `predicateAdmitHandler.Admit`, the scheduler's
//! `AdmissionCheck`, and the eviction manager's `Admit`). Taints play no part: a lone node has none, and the kubelet
//! does not hold static pods to them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1;

use super::amounts::{Amounts, PODS};
use super::ports::HostPort;
use super::refusal::Refusal;
use super::selector::{LINUX, OS, wants_node};
use nodewarden_eviction::{NodeCondition, Pressure};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;
use nodewarden_manifest::names::{CPU, EPHEMERAL_STORAGE, MEMORY};

/// What the node's condition is called as a taint.
const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";
const NO_SCHEDULE: &str = "NoSchedule";

/// What a pod asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub pod: &'a Pod,
    pub wants: &'a Amounts,
    pub ports: &'a [HostPort],
    /// Conditions of the node do not keep it away.
    pub critical: bool,
}

/// What it is held against.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    pub node_name: &'a str,
    pub labels: &'a BTreeMap<String, String>,
    pub pressure: &'a Pressure,
    /// How much of a resource pods can have together; `None` where nobody knows, and it is not checked.
    pub capacity: &'a dyn Fn(&str) -> Option<i64>,
    /// How much of it is taken or kept for others.
    pub used: &'a dyn Fn(&str) -> i64,
    /// Whether others have this port.
    pub port_taken: &'a dyn Fn(&HostPort) -> bool,
}

/// Every reason why the pod may not start; none: it may. The first one is the pod's reason.
pub fn check(asked: &Asked<'_>, ground: &Ground<'_>) -> Vec<Refusal> {
    let Asked { pod, wants, ports, critical } = *asked;
    let mut refusals = Vec::new();
    if !critical {
        refusals.extend(pressed(pod, ground.pressure));
    }
    if pod.labels.get(OS).is_some_and(|os| os != LINUX) {
        refusals.push(Refusal::OsLabel);
    }
    if pod.spec.os.as_ref().is_some_and(|os| os.name != LINUX) {
        refusals.push(Refusal::Os);
    }
    refusals.extend(insufficient(wants, ground));
    if !wants_node(pod, ground.node_name, ground.labels) {
        refusals.push(Refusal::Affinity);
    }
    let named = pod.spec.node_name.as_deref().filter(|name| !name.is_empty());
    if named.is_some_and(|name| name != ground.node_name) {
        refusals.push(Refusal::NodeName);
    }
    if ports.iter().any(ground.port_taken) {
        refusals.push(Refusal::Ports);
    }
    refusals
}

/// In the order of the scheduler's `fitsRequest`.
fn insufficient<'a>(wants: &'a Amounts, ground: &'a Ground<'_>) -> impl Iterator<Item = Refusal> + 'a {
    const FIRST: [&str; 4] = [PODS, CPU, MEMORY, EPHEMERAL_STORAGE];
    let first = FIRST.into_iter().filter_map(|name| wants.get_key_value(name));
    let others = wants.iter().filter(|(name, _)| !FIRST.contains(&name.as_str()));
    first.chain(others).filter(|(_, wanted)| **wanted > 0).filter_map(|(name, wanted)| {
        let (capacity, used) = ((ground.capacity)(name)?, (ground.used)(name));
        (*wanted > capacity - used).then(|| Refusal::Insufficient {
            resource: name.clone(),
            requested: *wanted,
            used,
            capacity,
        })
    })
}

/// Memory alone keeps away pods that ask for nothing, unless they tolerate it; everything else all but critical ones.
fn pressed(pod: &Pod, pressure: &Pressure) -> Option<Refusal> {
    let conditions: Vec<_> = pressure.0.keys().copied().collect();
    let admitted = match conditions[..] {
        [] => true,
        [NodeCondition::MemoryPressure] => {
            let mut tolerations = pod.spec.tolerations.iter().flatten();
            pod.qos != QosClass::BestEffort || tolerations.any(tolerates_memory_pressure)
        }
        _ => false,
    };
    (!admitted).then_some(Refusal::Pressure(conditions))
}

/// `Toleration.ToleratesTaint`, of the taint of that condition.
fn tolerates_memory_pressure(toleration: &v1::Toleration) -> bool {
    let is = |text: &Option<String>, expected: &str| {
        text.as_deref().is_none_or(|text| text.is_empty() || text == expected)
    };
    let value = toleration.value.as_deref().unwrap_or_default();
    let fits = match toleration.operator.as_deref().unwrap_or_default() {
        "" | "Equal" => value.is_empty(),
        "Exists" => true,
        _ => false,
    };
    is(&toleration.effect, NO_SCHEDULE) && is(&toleration.key, MEMORY_PRESSURE_TAINT) && fits
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
