//! Pods that the node rejects: they fail at the API server and never run, and hold nothing of the node.

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{ClusterFixture, condition};
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_pods_that_do_not_fit", fit).timeout(240).needs(NEEDS),
    Test::new("cluster_sysctls", sysctls).timeout(240).needs(NEEDS),
];

/// The pods that the node may have in the first test.
const PODS: usize = 2;

/// What was bound to the node without the scheduler and does not fit fails with the kubelet's reason. The
/// scheduler does not count it, and places a pod that waited for room as soon as there is some.
fn fit(context: &Context) -> Result<(), Failure> {
    let lines = format!("maxPods: {PODS}\n");
    let fixture = Prepared::new(context)?.start(NodeOptions { lines, ..NodeOptions::default() })?;
    let allocatable = fixture.node()?["status"]["allocatable"].clone();
    ensure_eq!(allocatable["pods"], PODS.to_string(), "pods of the node");
    let cpu = millicores(&allocatable["cpu"])?;
    // Two of these are more than the node has.
    let much = cpu * 2 / 3;
    fixture.apply(&sized("first", much, &fixture))?;
    fixture.wait_ready("first")?;

    fixture.apply(&sized("waits", much, &fixture))?;
    for (name, request) in [("second", much), ("huge", cpu * 10)] {
        fixture.apply(&bound(sized(name, request, &fixture), &fixture))?;
        let words = format!(
            "Pod was rejected: Node didn't have enough resource: cpu, requested: {request}, used: {much}, capacity: {cpu}"
        );
        ensure_rejected(&fixture, name, "OutOfcpu", &words)?;
    }
    let mut elsewhere = bound(sized("elsewhere", 10, &fixture), &fixture);
    elsewhere["spec"]["nodeSelector"] = json!({ "example.com/there": "no" });
    fixture.apply(&elsewhere)?;
    ensure_rejected(&fixture, "elsewhere", "NodeAffinity", "node affinity/selector")?;

    // Neither those nor the pod that waits take one of the places.
    fixture.apply(&bound(sized("small", 10, &fixture), &fixture))?;
    fixture.wait_ready("small")?;
    fixture.apply(&bound(sized("third", 10, &fixture), &fixture))?;
    ensure_rejected(&fixture, "third", "OutOfpods", "pods, requested: 1, used: 2, capacity: 2")?;

    let waits = fixture.pod("waits")?.unwrap_or_default();
    ensure_eq!(condition(&waits, "PodScheduled"), Some("False"), "PodScheduled of the pod that waits");
    ensure!(waits["spec"]["nodeName"].is_null(), "the scheduler has placed a pod that does not fit");
    fixture.run(&["delete", "pod", "first", "--wait=false"])?;
    fixture.wait_ready("waits")?;
    // A rejection is final: there would be room for it now.
    for name in ["second", "third"] {
        let still = fixture.pod(name)?.unwrap_or_default();
        ensure_eq!(still["status"]["phase"], "Failed", "phase of {name} after there is room");
    }
    fixture.ensure_nothing_forbidden()?;
    fixture.finish()
}

/// A pod sets the sysctls that are safe and those that the node allows; with any other it is rejected.
fn sysctls(context: &Context) -> Result<(), Failure> {
    let lines = "allowedUnsafeSysctls: ['kernel.msg*']\n".to_owned();
    let fixture = Prepared::new(context)?.start(NodeOptions { lines, ..NodeOptions::default() })?;
    let with = |name: &str, sysctls: &[(&str, &str)]| {
        let mut own = pod(name, fixture.name(), WAIT);
        let list: Vec<Value> =
            sysctls.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        own["spec"]["securityContext"] = json!({ "sysctls": list });
        own
    };
    let values = [("kernel.shm_rmid_forced", "1"), ("kernel.msgmax", "16385"), ("kernel.msgmni", "123")];
    fixture.apply(&with("allowed", &values))?;
    fixture.apply(&with("usual", &[]))?;
    fixture.apply(&with("forbidden", &[("kernel.shm_rmid_forced", "1"), ("kernel.sem", "1 2 3 4")]))?;
    // Its name only begins like one that is allowed.
    fixture.apply(&with("close", &[("kernel.shmmax", "1000000")]))?;
    // A pod in the machine's namespace would change the machine.
    let mut of_machine = with("machine", &[("kernel.msgmax", "16386")]);
    of_machine["spec"]["hostIPC"] = json!(true);
    fixture.apply(&of_machine)?;

    fixture.wait_ready("allowed")?;
    fixture.wait_ready("usual")?;
    for (name, value) in values {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let read = |pod: &str| fixture.run(&["exec", pod, "--", "cat", &path]);
        ensure_eq!(read("allowed")?, format!("{value}\n"), "{name} in the pod that sets it");
        ensure!(read("usual")?.trim() != value, "{name} of another pod is {value} too");
    }
    for (name, sysctl) in [("forbidden", "kernel.sem"), ("close", "kernel.shmmax")] {
        let words = format!("forbidden sysctl: {sysctl:?} not allowlisted");
        ensure_rejected(&fixture, name, "SysctlForbidden", &words)?;
    }
    // A newer API server does not take such a pod.
    let words = r#"forbidden sysctl: "kernel.msgmax" not allowed with host ipc enabled"#;
    ensure_rejected(&fixture, "machine", "SysctlForbidden", words)?;
    let path = std::path::Path::new("/proc/sys/kernel/msgmax");
    let of_machine = std::fs::read_to_string(path).map_err(Failure::file(path))?;
    ensure!(of_machine.trim() != "16386", "the machine's kernel.msgmax was set by a pod");
    fixture.finish()
}

/// Waits until a pod has failed for this reason, with these words. Its only event says the same: nothing of
/// it has run.
fn ensure_rejected(
    fixture: &ClusterFixture<'_>,
    name: &str,
    reason: &str,
    words: &str,
) -> Result<(), Failure> {
    ensure_failed(fixture, name, reason, words)?;
    let field = format!("involvedObject.name={name},source=kubelet");
    let mut seen = Vec::new();
    let said = eventually(fixture.context().patiently(10), "", || {
        let events = fixture.get(&["events", "--field-selector", &field])?;
        let all = events["items"].as_array().into_iter().flatten();
        seen = all.filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect();
        Ok(seen.iter().any(|one| one == reason).then_some(()))
    });
    said.map_err(|_| Failure::Unexpected(format!("no event {reason} of {name}, only {seen:?}")))?;
    ensure_eq!(seen, [reason], "events of {name}");
    Ok(())
}

/// Waits until a pod has failed for this reason, with these words.
fn ensure_failed(fixture: &ClusterFixture<'_>, name: &str, reason: &str, words: &str) -> Result<(), Failure> {
    let failed = fixture.wait_pod(name, "failed", 20, |pod| pod["status"]["phase"] == "Failed")?;
    ensure_eq!(failed["status"]["reason"], reason, "reason of {name}");
    let message = failed["status"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains(words), "message of {name}: {message:?}, expected {words:?}");
    Ok(())
}

/// A pod whose container requests so many thousandths of a CPU.
fn sized(name: &str, millicores: u64, fixture: &ClusterFixture<'_>) -> Value {
    let mut own = pod(name, fixture.name(), WAIT);
    own["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": format!("{millicores}m") } });
    own
}

/// The same pod, bound to the node without the scheduler.
fn bound(mut pod: Value, fixture: &ClusterFixture<'_>) -> Value {
    pod["spec"]["nodeName"] = json!(fixture.name());
    pod
}

/// Thousandths of a CPU of an amount such as `2` or `1500m`.
fn millicores(amount: &Value) -> Result<u64, Failure> {
    let text = amount.as_str().unwrap_or_default();
    let parsed = match text.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().ok(),
        None => text.parse::<u64>().ok().map(|whole| whole * 1000),
    };
    parsed.ok_or_else(|| Failure::Unexpected(format!("an amount of CPU: {amount}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_cpu_are_thousandths() {
        for (text, expected) in [("2", Some(2000)), ("1500m", Some(1500)), ("1.5", None), ("", None)] {
            assert_eq!(millicores(&json!(text)).ok(), expected, "{text}");
        }
    }
}
