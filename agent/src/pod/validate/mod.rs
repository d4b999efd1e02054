//! The API server's rules for who a pod is and what it asks for (pkg/apis/core/validation). The rest of a manifest is
//! for those to judge who use it.

mod identity;
mod labels;
mod pod_level;
mod resources;
#[cfg(test)]
mod tests;

use super::{Pod, Problem};

/// Every rule that the pod breaks. `unread` are the quantities that could not be read: what only seems wrong because
/// they are missing is not told.
pub(super) fn problems(pod: &Pod, unread: &[Problem]) -> Vec<Problem> {
    let mut problems = identity::problems(pod);
    let whole = |place: &str| !unread.iter().any(|problem| problem.field.starts_with(place));
    for (container, place) in placed(&pod.init_containers, &pod.containers) {
        let place = format!("{place}.resources");
        problems.extend(resources::container(&container.resources, &place));
        if whole(&place) {
            problems.extend(resources::relations(&container.resources, &place));
        }
    }
    if let Some(own) = &pod.resources {
        problems.extend(pod_level::amounts(own, pod.spec.resources.as_ref()));
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

/// Containers with their places (`spec.containers[0]`); init containers first.
fn placed<'a, T>(init: &'a [T], ordinary: &'a [T]) -> impl Iterator<Item = (&'a T, String)> {
    let at = |list: &'a [T], field: &'static str| {
        list.iter().enumerate().map(move |(index, container)| (container, format!("{field}[{index}]")))
    };
    at(init, "spec.initContainers").chain(at(ordinary, "spec.containers"))
}
