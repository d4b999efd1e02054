//! Whether a container that ended starts again (kubelet `ShouldContainerBeRestarted`, apimachinery's
//! `ContainerShouldRestart`; container-level policies and rules are KEP-5307).

use k8s_openapi::api::core::v1;

use crate::record::ContainerRecord;
use nodewarden_manifest::{Container, ContainerKind, Part, Pod, parts};

/// `spec.restartPolicy` and `spec.containers[].restartPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    Always,
    OnFailure,
    Never,
}

/// Whether `container`, which ended with `exit_code`, starts again as long as the pod lasts. An init
/// container that succeeded is done whatever the policy.
pub fn restarts(pod: &Pod, container: &Container, exit_code: i32) -> bool {
    match container.kind {
        ContainerKind::Sidecar => return true,
        ContainerKind::Ephemeral => return false,
        ContainerKind::Init if exit_code == 0 => return false,
        ContainerKind::Init | ContainerKind::Regular => {}
    }
    let spec = spec_of(pod, &container.name);
    let spec = spec.as_deref();
    if let Some(own) = spec.and_then(|c| policy(c.restart_policy.as_deref())) {
        let rules = spec.and_then(|c| c.restart_policy_rules.as_deref()).unwrap_or_default();
        // Of the actions only this one can be had: manifests with others are refused.
        if rules.iter().find(|rule| matches(rule, exit_code)).is_some_and(|rule| rule.action == "Restart") {
            return true;
        }
        return allows(own, exit_code);
    }
    allows(policy(pod.spec().restart_policy.as_deref()).unwrap_or(Policy::Always), exit_code)
}

/// What a container's end counts as that a probe has had ended: a failure (`KILL`), whatever its exit code.
pub const PROBE_KILLED: i32 = 137;

/// Whether another one starts after the container `id`, which ended with `exit_code`: by its policy, or
/// because the agent ended it for that.
pub fn starts_again(
    pod: &Pod,
    container: &Container,
    own: Option<&ContainerRecord>,
    id: &str,
    exit_code: i32,
) -> bool {
    let by_probe = || own.is_some_and(|own| own.ended_by_probe(id)) && restarts(pod, container, PROBE_KILLED);
    own.is_some_and(|own| own.stopped == id) || restarts(pod, container, exit_code) || by_probe()
}

fn policy(text: Option<&str>) -> Option<Policy> {
    match text {
        Some("Always") => Some(Policy::Always),
        Some("OnFailure") => Some(Policy::OnFailure),
        Some("Never") => Some(Policy::Never),
        _ => None,
    }
}

fn allows(policy: Policy, exit_code: i32) -> bool {
    match policy {
        Policy::Always => true,
        Policy::OnFailure => exit_code != 0,
        Policy::Never => false,
    }
}

fn matches(rule: &v1::ContainerRestartRule, exit_code: i32) -> bool {
    rule.exit_codes.as_ref().is_some_and(|codes| {
        let listed = codes.values.as_ref().is_some_and(|values| values.contains(&exit_code));
        match codes.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        }
    })
}

/// The container's part of the manifest.
pub fn spec_of<'a>(pod: &'a Pod, name: &str) -> Option<Part<'a>> {
    parts(pod).find(|own| own.name == name)
}

/// Whether the container is probed at all.
pub fn has_probes(container: &v1::Container) -> bool {
    [&container.startup_probe, &container.readiness_probe, &container.liveness_probe]
        .into_iter()
        .any(Option::is_some)
}

/// Whether the container has a hook that runs after its start.
pub fn has_post_start(pod: &Pod, name: &str) -> bool {
    spec_of(pod, name).is_some_and(|c| c.lifecycle.as_ref().is_some_and(|l| l.post_start.is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture;

    #[track_caller]
    fn check(pod: Value, name: &str, restarted: &[i32], ended: &[i32]) {
        let pod = fixture::pod(pod);
        let container = pod.init_containers.iter().chain(&pod.containers).find(|c| c.name == name).unwrap();
        for code in restarted {
            assert!(restarts(&pod, container, *code), "{code}");
        }
        for code in ended {
            assert!(!restarts(&pod, container, *code), "{code}");
        }
    }

    #[test]
    fn the_pods_policy_decides() {
        let with = |policy: Value| json!({"restartPolicy": policy, "containers": [{"name": "c"}]});
        check(with(Value::Null), "c", &[0, 1, 137], &[]);
        check(with(json!("Always")), "c", &[0, 1], &[]);
        check(with(json!("OnFailure")), "c", &[1, 137], &[0]);
        check(with(json!("Never")), "c", &[], &[0, 1]);
    }

    #[test]
    fn init_containers_restart_until_they_succeed() {
        let with = |policy: &str, own: Value| {
            json!({"restartPolicy": policy, "containers": [{"name": "c"}],
                   "initContainers": [{"name": "i", "restartPolicy": own}]})
        };
        check(with("Always", Value::Null), "i", &[1], &[0]);
        check(with("OnFailure", Value::Null), "i", &[1], &[0]);
        check(with("Never", Value::Null), "i", &[], &[0, 1]);
        check(with("Never", json!("Always")), "i", &[0, 1], &[]);
        check(with("Never", json!("OnFailure")), "i", &[1], &[0]);
        check(with("Always", json!("Never")), "i", &[], &[0, 1]);
    }

    #[test]
    fn the_containers_policy_and_rules_come_first() {
        let with = |own: &str, rules: Value| {
            json!({"restartPolicy": "OnFailure",
                   "containers": [{"name": "c", "restartPolicy": own, "restartPolicyRules": rules}]})
        };
        check(with("Never", Value::Null), "c", &[], &[0, 1]);
        check(with("Always", Value::Null), "c", &[0, 1], &[]);
        let rule = |operator: &str, values: Value| json!([{"action": "Restart", "exitCodes": {"operator": operator, "values": values}}]);
        check(with("Never", rule("In", json!([42, 43]))), "c", &[42, 43], &[0, 1]);
        check(with("Never", rule("NotIn", json!([0, 1]))), "c", &[2], &[0, 1]);
        check(with("OnFailure", rule("In", json!([0]))), "c", &[0, 1], &[]);
    }
}
