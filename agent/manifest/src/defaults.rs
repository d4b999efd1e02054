//! The API server's defaults of resources (pkg/apis/core/v1/defaults.go, `SetDefaults_Pod`).

use std::sync::Arc;

use super::effective::aggregate;
use super::names::{is_hugepages, is_overcommit_allowed, is_pod_level};
use super::{Container, ResourceList, Resources};

/// Fills in the defaults of a pod, then rounds to thousandths; the order is that of the API server and
/// matters for finer amounts.
pub(super) fn fill_in(
    containers: &mut [Container],
    init_containers: &mut [Container],
    pod: Option<&mut Resources>,
    overhead: &mut ResourceList,
) {
    for container in containers.iter_mut().chain(init_containers.iter_mut()) {
        requests_from_limits(Arc::make_mut(&mut container.resources));
    }
    if let Some(pod) = pod {
        hugepage_limits(pod, &aggregate(containers, init_containers, |c| &c.resources.limits));
        pod_requests(pod, &aggregate(containers, init_containers, |c| &c.resources.requests));
        round(&mut pod.requests);
        round(&mut pod.limits);
    }
    for container in containers.iter_mut().chain(init_containers) {
        let own = Arc::make_mut(&mut container.resources);
        round(&mut own.requests);
        round(&mut own.limits);
    }
    round(overhead);
}

/// A limit without a request is also the request.
fn requests_from_limits(resources: &mut Resources) {
    for (name, limit) in &resources.limits {
        resources.requests.insert_missing(name, limit);
    }
}

/// If the pod has resources but none for huge pages, the sum of the containers' huge pages is the pod's
/// limit.
fn hugepage_limits(pod: &mut Resources, containers: &ResourceList) {
    if pod.is_empty() {
        return;
    }
    for (name, limit) in containers.iter().filter(|(name, _)| is_hugepages(name)) {
        if !pod.requests.contains_key(name) {
            pod.limits.insert_missing(name, limit);
        }
    }
}

/// A pod with limits has as requests the sum of its containers' requests; for other resources, its limits.
fn pod_requests(pod: &mut Resources, containers: &ResourceList) {
    if pod.limits.is_empty() {
        return;
    }
    let from_containers = containers.iter().filter(|(name, _)| is_overcommit_allowed(name));
    for (name, quantity) in from_containers.chain(&pod.limits).filter(|(name, _)| is_pod_level(name)) {
        pod.requests.insert_missing(name, quantity);
    }
}

fn round(list: &mut ResourceList) {
    for quantity in list.values_mut() {
        *quantity = std::mem::take(quantity).rounded_up_to_milli();
    }
}
