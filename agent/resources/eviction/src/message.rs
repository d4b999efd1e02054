//! `status.message` of a pod that is evicted for a node threshold, in the kubelet's words
//! (`evictionMessage`).

use std::fmt::Write as _;

use super::Candidate;
use super::assess::Due;
use nodewarden_config::{Signal, Threshold};
use nodewarden_manifest::Quantity;

const MEMORY: &str = "memory";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";

/// Prefix of the message of a pod evicted for a node threshold. Pods evicted for a limit of their own have
/// another one.
pub const NODE_LOW: &str = "The node was low on resource: ";

/// The resource that a signal measures (kubelet `signalToResource`).
pub fn resource(signal: Signal) -> &'static str {
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => MEMORY,
        Signal::NodeFsAvailable | Signal::ImageFsAvailable | Signal::ContainerFsAvailable => {
            EPHEMERAL_STORAGE
        }
        Signal::NodeFsInodesFree | Signal::ImageFsInodesFree | Signal::ContainerFsInodesFree => "inodes",
        Signal::PidAvailable => "pids",
    }
}

/// Names the threshold, what is available, and the containers that use more than they requested. For a
/// resource that no container can request, containers are not listed. Ends with a space, as the kubelet's
/// does.
pub fn message(due: &Due, candidate: &Candidate) -> String {
    let resource = resource(due.threshold.signal);
    let threshold = match &due.threshold.value {
        Threshold::Quantity(quantity) => quantity.clone(),
        Threshold::Fraction(_) => bytes(due.limit),
    };
    let available = match resource {
        MEMORY | EPHEMERAL_STORAGE => bytes(due.observed.available),
        _ => Quantity::from_whole(i64::try_from(due.observed.available).unwrap_or(i64::MAX)),
    };
    let mut text = format!("{NODE_LOW}{resource}. Threshold quantity: {threshold}, available: {available}. ");
    let mut add = |kind, name: &str, usage: &Quantity, request: &Quantity| {
        let _ = write!(
            text,
            "{kind} {name} was using {usage}, request is {request}, has larger consumption of {resource}. "
        );
    };
    let pod = &candidate.pod;
    if resource == MEMORY && pod.sets_pod_level_resources() {
        let request = pod.resources.as_ref().and_then(|own| own.requests.get(MEMORY));
        if let (Some(request), Some(usage)) = (request, candidate.memory) {
            add("Pod", &pod.name, &bytes(usage), request);
        }
    }
    for container in pod.containers.iter().chain(&pod.init_containers) {
        let Some(used) = candidate.containers.get(&container.name) else { continue };
        let usage = match resource {
            MEMORY => used.memory,
            EPHEMERAL_STORAGE => {
                used.root.zip(used.logs).map(|(root, logs)| root.bytes.saturating_add(logs.bytes))
            }
            _ => None,
        };
        let request = container.resources.requests.get(resource).cloned().unwrap_or_default();
        if let Some(usage) = usage.map(bytes).filter(|usage| *usage > request) {
            add("Container", &container.name, &usage, &request);
        }
    }
    text
}

fn bytes(amount: u64) -> Quantity {
    Quantity::from_bytes(i64::try_from(amount).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
