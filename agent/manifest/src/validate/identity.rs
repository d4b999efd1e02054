//! The identity of a pod: names, uid, containers, priority.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;

use super::super::priority;
use super::{Pod, PodKind, Problem, placed};
use crate::name_forms::{is_dns_label, is_dns_subdomain};

const LABEL: &str =
    "must be a DNS label: lower-case letters, digits and '-', a letter or digit at each end, at most 63";
const SUBDOMAIN: &str = "must be a DNS subdomain: lower-case letters, digits, '-' and '.', a letter or digit at each \
                         end of what is between dots, at most 253";
/// The uid is part of the names of a directory and of a systemd unit, which have at most 255 bytes.
const LONGEST_UID: usize = 128;

pub(super) fn problems(pod: &Pod, kind: PodKind) -> Vec<Problem> {
    let spec = &pod.spec();
    let mut problems = Vec::new();
    let mut form = |field: &str, value: &str, good: bool, expected: &str| {
        if value.is_empty() {
            problems.push(Problem::new(field, "", "is required"));
        } else if !good {
            problems.push(Problem::new(field, value, expected));
        }
    };
    form("metadata.name", &pod.name, is_dns_subdomain(&pod.name), SUBDOMAIN);
    form("metadata.namespace", &pod.namespace, is_dns_label(&pod.namespace), LABEL);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (container, place) in placed(init, &spec.containers) {
        form(&format!("{place}.name"), &container.name, is_dns_label(&container.name), LABEL);
    }
    let mut seen = BTreeSet::new();
    for (container, place) in placed(init, &spec.containers) {
        if !container.name.is_empty() && !seen.insert(&container.name) {
            let expected = "must be unique among the containers, init containers included";
            problems.push(Problem::new(format!("{place}.name"), &container.name, expected));
        }
        problems.extend(restart_policy(container, &place));
    }
    if !pod.uid.is_empty() && !is_uid(&pod.uid) {
        let expected = "must be letters, digits and '-', at most 128: it names the pod's cgroup";
        problems.push(Problem::new("metadata.uid", &pod.uid, expected));
    }
    if spec.containers.is_empty() {
        problems.push(Problem::new("spec.containers", "", "is required: at least one container"));
    }
    if kind == PodKind::Static && spec.ephemeral_containers.as_ref().is_some_and(|all| !all.is_empty()) {
        problems.push(Problem::new(
            "spec.ephemeralContainers",
            "",
            "must not be set in a new pod: they are added in a cluster",
        ));
    }
    // What is refused as a whole needs no further problems.
    let of_api = spec.ephemeral_containers.iter().flatten().filter(|_| kind == PodKind::Api);
    for (index, own) in of_api.enumerate() {
        let place = format!("spec.ephemeralContainers[{index}]");
        if !is_dns_label(&own.name) || !seen.insert(&own.name) {
            let expected = "must be a DNS label that no other container of the pod has";
            problems.push(Problem::new(format!("{place}.name"), &own.name, expected));
        }
        if own.image.as_deref().unwrap_or_default().is_empty() {
            problems.push(Problem::new(format!("{place}.image"), "", "is required"));
        }
    }
    problems.extend(priority(spec));
    problems
}

fn is_uid(text: &str) -> bool {
    text.len() <= LONGEST_UID && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn restart_policy(container: &v1::Container, place: &str) -> Option<Problem> {
    let policy = container.restart_policy.as_deref()?;
    let known = matches!(policy, "Always" | "OnFailure" | "Never");
    let expected = "must be Always, OnFailure or Never";
    (!known).then(|| Problem::new(format!("{place}.restartPolicy"), policy, expected))
}

/// As in the priority admission plugin: a class determines the priority, and a priority given as well must be
/// equal.
fn priority(spec: &v1::PodSpec) -> Option<Problem> {
    let class = spec.priority_class_name.as_deref()?;
    let (own, of_class) = (spec.priority?, priority::of_class(class)?);
    (own != of_class).then(|| {
        let expected =
            format!("must be {of_class}, the priority of spec.priorityClassName {class}, or left out");
        Problem::new("spec.priority", own.to_string(), expected)
    })
}
