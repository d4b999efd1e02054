//! The plan of a pod (kubelet `computePodActions`).

use jiff::Timestamp;

use super::containers::Round;
use super::{Plan, sandbox};
use crate::decide::observed::Observed;
use crate::decide::published::Published;
use crate::record::Record;
use nodewarden_config::PodSettings;
use nodewarden_manifest::{ContainerKind, Pod};

/// What is to be done for `pod`, given what the runtime has of it and how its probes stand. Depends on
/// nothing else; once everything is done it is empty. A pod that ends or is away has no plan here.
pub fn plan(
    pod: &Pod,
    observed: &Observed,
    record: &Record,
    published: &Published,
    settings: &PodSettings,
    now: Timestamp,
) -> Plan {
    if record.is_leaving() {
        return Plan::default();
    }
    let mut round = Round::new(pod, observed, record, published, settings, now);
    round.clear_orphans();
    match observed.sandbox() {
        Some(current) => {
            sandbox::forget_others(observed, Some(current), &mut round.plan.actions);
            round.decide(current);
        }
        None => sandbox::decide(&mut round),
    }
    round.plan
}

/// In which order a pod's containers are ended: those of one step together, each step when the one before is
/// done. Sidecars go last, the first one of the manifest at the very end (KEP-753).
pub fn end_order(pod: &Pod) -> Vec<Vec<String>> {
    let (sidecars, others): (Vec<_>, Vec<_>) =
        pod.init_containers.iter().chain(&pod.containers).partition(|c| c.kind == ContainerKind::Sidecar);
    let mut order = vec![others.into_iter().map(|c| c.name.clone()).collect()];
    order.extend(sidecars.into_iter().rev().map(|c| vec![c.name.clone()]));
    order
}
