//! Requests and limits of one container or of a pod (`ValidateContainerResourceRequirements`).

use super::super::names::{
    CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, is_compute, is_extended, is_hugepages, is_native,
    is_overcommit_allowed,
};
use super::{Pod, Problem};
use crate::name_forms::is_qualified_name;
use crate::{Quantity, ResourceList, Resources};

/// Validates each amount of a container by itself.
pub(super) fn container(resources: &Resources, place: &str) -> Vec<Problem> {
    let mut problems = amounts(&resources.limits, &format!("{place}.limits"), container_name);
    problems.extend(amounts(&own_requests(resources), &format!("{place}.requests"), container_name));
    problems
}

/// The requests that differ from their limits. A request that was defaulted from its limit is equal, and its
/// problems are reported for the limit.
pub(super) fn own_requests(resources: &Resources) -> ResourceList {
    let mut own = resources.requests.clone();
    own.retain(|name, quantity| resources.limits.get(name) != Some(quantity));
    own
}

/// Validates the overhead by the rules for a container's limits.
pub(super) fn overhead(overhead: &ResourceList) -> Vec<Problem> {
    let mut problems = amounts(overhead, "spec.overhead", container_name);
    let as_limits = Resources { limits: overhead.clone(), ..Resources::default() };
    problems.extend(relations(&as_limits, "spec.overhead"));
    problems
}

/// Validates names and amounts of a list; `wrong_name` returns what is expected instead of a name that is not
/// allowed.
pub(super) fn amounts(
    list: &ResourceList,
    place: &str,
    wrong_name: impl Fn(&str) -> Option<&'static str>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, quantity) in list {
        let field = format!("{place}[{name}]");
        if let Some(expected) = wrong_name(name) {
            problems.push(Problem::new(&field, name, expected));
        }
        if let Some(expected) = wrong_amount(name, quantity) {
            problems.push(Problem::new(field, quantity.to_string(), expected));
        }
    }
    problems
}

/// Validates requests against limits, and combinations of resources.
pub(super) fn relations(resources: &Resources, place: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, request) in &resources.requests {
        let field = format!("{place}.requests[{name}]");
        let overcommit = is_overcommit_allowed(name);
        match resources.limits.get(name) {
            Some(limit) if !overcommit && request != limit => {
                let expected =
                    format!("must be equal to the limit of {limit}: {name} can't be overcommitted");
                problems.push(Problem::new(field, request.to_string(), expected));
            }
            Some(limit) if request > limit => {
                let expected = format!("must be at most the limit of {limit}");
                problems.push(Problem::new(field, request.to_string(), expected));
            }
            None if !overcommit => {
                let expected = format!("is required together with a request: {name} can't be overcommitted");
                problems.push(Problem::new(format!("{place}.limits[{name}]"), "", expected));
            }
            _ => {}
        }
    }
    let mut names = resources.requests.keys().chain(resources.limits.keys());
    let hugepages = names.clone().find(|name| is_hugepages(name));
    if let Some(name) = hugepages.filter(|_| !names.any(|name| is_compute(name))) {
        problems.push(Problem::new(place, name, "must have cpu or memory in addition to huge pages"));
    }
    problems
}

/// The sums over the pod must be numbers that the kernel accepts.
pub(super) fn totals(pod: &Pod) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (what, list) in [("requests", pod.requests()), ("limits", pod.limits())] {
        for (name, quantity) in list.iter().filter(|(name, quantity)| !fits(name, quantity)) {
            let expected = format!("exceeds what the kernel accepts, summed over the {what} of {name}");
            problems.push(Problem::new("spec", quantity.to_string(), expected));
        }
    }
    problems
}

fn container_name(name: &str) -> Option<&'static str> {
    let known = match name {
        CPU | MEMORY | EPHEMERAL_STORAGE => true,
        _ if !name.contains('/') => is_hugepages(name) && is_qualified_name(name),
        _ if is_native(name) => is_qualified_name(name),
        _ => is_qualified_name(name) && is_extended(name),
    };
    (!known).then_some(
        "must be cpu, memory, ephemeral-storage, hugepages-<size> or an extended resource, domain/name",
    )
}

fn wrong_amount(name: &str, quantity: &Quantity) -> Option<String> {
    if quantity.is_negative() {
        return Some("must not be negative".to_owned());
    }
    if !fits(name, quantity) {
        return Some("exceeds what the kernel accepts".to_owned());
    }
    if !is_native(name) && !quantity.is_whole() {
        return Some("must be a whole number".to_owned());
    }
    let size = name.strip_prefix(HUGEPAGES_PREFIX)?;
    match Quantity::parse(size) {
        Ok(page) if page.is_positive() && page.fits_i64() && page.is_whole() => {
            (quantity.value() % page.value() != 0)
                .then(|| format!("must be a multiple of the page size, {size}"))
        }
        _ => Some(format!("must be of a page size in bytes, which {size:?} is not")),
    }
}

/// Whether the number that the kubelet uses (thousandths of CPU, whole units of everything else) fits an
/// `i64`.
fn fits(name: &str, quantity: &Quantity) -> bool {
    if name == CPU { quantity.fits_i64_milli() } else { quantity.fits_i64() }
}
