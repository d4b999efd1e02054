//! The API server's rules for a pod (pkg/apis/core/validation), for the fields that this agent acts on, and
//! the fields that are [`refused`]. Fields that only a scheduler reads
//! (`nodeSelector`, `affinity`, `tolerations`, …) are not validated.

mod container;
mod dns;
mod env;
mod handlers;
mod identity;
mod metadata;
mod pod_level;
mod projections;
mod refused;
mod report;
mod resources;
mod restart;
mod security;
mod spec;
#[cfg(test)]
mod tests;
mod volumes;

use super::probe::MAX_COMMANDS;
use super::{Expander, Pod, PodKind, Problem};
use report::Report;

/// Every rule that the pod breaks. `unread` are the quantities that could not be parsed: rules that seem
/// broken only because these are missing are not reported.
pub(super) fn problems(pod: &Pod, kind: PodKind, unread: &[Problem]) -> Vec<Problem> {
    let mut problems = identity::problems(pod, kind);
    problems.extend(manifest(pod, kind));
    let whole = |place: &str| !unread.iter().any(|problem| problem.field.starts_with(place));
    for (container, place) in placed(&pod.init_containers, &pod.containers) {
        let place = format!("{place}.resources");
        problems.extend(resources::container(&container.resources, &place));
        if whole(&place) {
            problems.extend(resources::relations(&container.resources, &place));
        }
    }
    if let Some(own) = &pod.resources {
        problems.extend(pod_level::amounts(own, pod.spec().resources.as_ref()));
        if whole("spec.resources") {
            problems.extend(resources::relations(own, "spec.resources"));
        }
        if unread.is_empty() {
            problems.extend(pod_level::against_containers(pod, own));
        }
    }
    problems.extend(resources::overhead(&pod.overhead));
    if problems.is_empty() && unread.is_empty() {
        problems.extend(resources::totals(pod));
    }
    problems
}

/// Validates everything except names and resources.
fn manifest(pod: &Pod, pod_kind: PodKind) -> Vec<Problem> {
    let mut report = Report::of(pod_kind);
    let spec = &pod.spec();
    metadata::problems(pod, &mut report);
    refused::pod(spec, &mut report);
    spec::problems(spec, &mut report);
    dns::problems(spec, &mut report);
    security::pod(spec, &mut report);
    volumes::problems(pod, &mut report);
    let mut commands = Expander::new(MAX_COMMANDS);
    let of_pod = spec.restart_policy.as_deref().unwrap_or("Always");
    let kinds = pod.init_containers.iter().chain(&pod.containers).map(|container| container.kind);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for ((container, place), kind) in placed(init, &spec.containers).zip(kinds) {
        let restart_policy = container.restart_policy.as_deref().unwrap_or(of_pod);
        container::problems(container, &place, restart_policy, &mut report);
        restart::problems(container, &place, &mut report);
        container::of_kind(container, kind, &place, &mut report);
        refused::container(container, &place, &mut report);
        env::problems(container, &place, &mut report);
        volumes::mounts(container, &place, pod, &mut report);
        handlers::lifecycle(container, &place, pod, &mut report);
        handlers::probes(container, &place, &mut commands, &mut report);
        if let Some(context) = &container.security_context {
            security::container(context, &place, &mut report);
        }
    }
    spec::host_ports(spec, &mut report);
    report.into_problems()
}

/// Containers with the paths of their fields (`spec.containers[0]`); init containers first.
fn placed<'a, T>(init: &'a [T], regular: &'a [T]) -> impl Iterator<Item = (&'a T, String)> {
    let at = |list: &'a [T], field: &'static str| {
        list.iter().enumerate().map(move |(index, container)| (container, format!("{field}[{index}]")))
    };
    at(init, "spec.initContainers").chain(at(regular, "spec.containers"))
}
