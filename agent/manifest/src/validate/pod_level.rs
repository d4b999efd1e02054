//! Resources of the pod as a whole (KEP-2837; `validatePodResources`).

use k8s_openapi::api::core::v1;

use super::super::names::{is_hugepages, is_pod_level};
use super::resources;
use super::{Pod, Problem};
use crate::{Quantity, Resources};

/// Validates each amount by itself.
pub(super) fn amounts(own: &Resources, manifest: Option<&v1::ResourceRequirements>) -> Vec<Problem> {
    let mut problems = resources::amounts(&own.limits, "spec.resources.limits", wrong_name);
    problems.extend(resources::amounts(&resources::own_requests(own), "spec.resources.requests", wrong_name));
    let claims = manifest.and_then(|own| own.claims.as_deref()).unwrap_or_default();
    let claimed = claims.iter().enumerate().map(|(index, claim)| {
        let field = format!("spec.resources.claims[{index}]");
        Problem::new(field, &claim.name, "must be set for a container: the pod as a whole has no claims")
    });
    problems.extend(claimed);
    problems
}

/// Whether the containers together, and each by itself, stay within the pod's resources.
pub(super) fn against_containers(pod: &Pod, own: &Resources) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut at_least = |what: &str, name: &str, quantity: &Quantity, sum: &Quantity| {
        if sum > quantity {
            let field = format!("spec.resources.{what}[{name}]");
            let expected = format!("must be at least the containers' {what} together, {sum}");
            problems.push(Problem::new(field, quantity.to_string(), expected));
        }
    };
    let (requests, limits) = (pod.containers_requests(), pod.containers_limits());
    for (name, quantity) in &own.requests {
        if let Some(sum) = requests.get(name) {
            at_least("requests", name, quantity, sum);
        }
    }
    for (name, quantity) in own.limits.iter().filter(|(name, _)| is_hugepages(name)) {
        if let Some(sum) = limits.get(name) {
            at_least("limits", name, quantity, sum);
        }
    }
    for (index, container) in pod.containers.iter().enumerate() {
        for (name, limit) in &container.resources.limits {
            if let Some(most) = own.limits.get(name).filter(|most| limit > most) {
                let field = format!("spec.containers[{index}].resources.limits[{name}]");
                let expected = format!("must be at most the pod's limit of {most}");
                problems.push(Problem::new(field, limit.to_string(), expected));
            }
        }
    }
    problems
}

fn wrong_name(name: &str) -> Option<&'static str> {
    (!is_pod_level(name)).then_some("must be cpu, memory or hugepages-<size> for the pod as a whole")
}
