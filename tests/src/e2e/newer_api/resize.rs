//! A resize through `spec.containers[].resources` of a pod of the API server (KEP-1287, KEP-5067).

use serde_json::{Value, json};

use super::fixture::{NewerApi, condition, container};
use crate::e2e::pods::NEEDS;
use crate::e2e::pods::manifest::{STAY, shell};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("newer_api_resize", resize).timeout(180).needs(NEEDS),
    Test::new("newer_api_resize_error", error).timeout(180).needs(NEEDS),
];

fn sized(cpu: &str, memory: &str) -> Value {
    json!({ "requests": { "cpu": cpu, "memory": memory }, "limits": { "cpu": cpu, "memory": memory } })
}

/// Gives container `c` of a pod other resources.
fn ask(node: &NewerApi<'_>, pod: &str, resources: &Value) {
    node.api().change_spec(pod, |spec| spec["containers"][0]["resources"] = resources.clone());
}

/// The pod's status is about its newest generation.
fn is_observed(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let wanted = &pod["metadata"]["generation"];
    pod["status"]["observedGeneration"] == *wanted
        && conditions.filter(|own| own["type"] != "Mine").all(|own| own["observedGeneration"] == *wanted)
}

/// A container has other resources without a restart; what there is no room for is deferred or infeasible.
fn resize(context: &Context) -> Result<(), Failure> {
    let node = NewerApi::start(context, "")?;
    let (small, large) = (sized("100m", "64Mi"), sized("200m", "96Mi"));
    node.create("grows", json!({ "containers": [shell("c", STAY, json!({ "resources": small }))] }));
    let first = node.wait_ready("grows")?;
    ensure!(is_observed(&first), "the first generation: {}", first["status"]);
    let c = container(&first, "c")?;
    ensure_eq!(c["resources"], small, "resources at first");
    ensure_eq!(c["allocatedResources"], small["requests"], "allocatedResources at first");

    ask(&node, "grows", &large);
    let has = |pod: &Value| container(pod, "c").is_ok_and(|c| c["resources"] == large);
    let second = node.wait("grows", "resized", 40, |pod| {
        has(pod) && is_observed(pod) && condition(pod, "PodResizeInProgress").is_null()
    })?;
    let now = container(&second, "c")?;
    ensure_eq!(now["allocatedResources"], large["requests"], "allocatedResources afterwards");
    ensure_eq!(now["containerID"], c["containerID"], "the container");
    ensure_eq!(now["restartCount"], json!(0), "restarts");
    ensure_eq!(second["status"]["observedGeneration"], json!(2), "observedGeneration");

    // Never, and then: not as long as there is so little.
    for (cpu, reason) in [("9000", "Infeasible"), ("200m", "")] {
        let before = node.api().pod("grows").unwrap_or_default()["metadata"]["generation"].clone();
        ask(&node, "grows", &sized(cpu, "96Mi"));
        let seen = node.wait("grows", reason, 40, |pod| {
            let pending = condition(pod, "PodResizePending");
            let is = if reason.is_empty() { pending.is_null() } else { pending["reason"] == reason };
            is && is_observed(pod)
        })?;
        ensure!(seen["metadata"]["generation"] != before, "the generation stays {before}");
        ensure_eq!(container(&seen, "c")?["resources"], large, "resources while {reason:?}");
        ensure_eq!(container(&seen, "c")?["containerID"], c["containerID"], "the container");
    }
    node.remove("grows")
}

/// While the container uses more than its new limit the resize is in progress, with an error.
fn error(context: &Context) -> Result<(), Failure> {
    let node = NewerApi::start(context, "")?;
    // 40 MiB in a file in memory, for 25 s.
    let script = format!(
        "dd if=/dev/zero of=/dev/shm/x bs=1048576 count=40 2>/dev/null; sleep 25; rm /dev/shm/x; {STAY}"
    );
    let resources = sized("100m", "128Mi");
    node.create("shrinks", json!({ "containers": [shell("c", &script, json!({ "resources": resources }))] }));
    let first = node.wait_ready("shrinks")?;
    let id = container(&first, "c")?["containerID"].clone();
    // The file is there.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let less = sized("100m", "24Mi");
    ask(&node, "shrinks", &less);
    let failing = node.wait("shrinks", "resizing with an error", 20, |pod| {
        condition(pod, "PodResizeInProgress")["reason"] == "Error" && is_observed(pod)
    })?;
    let progress = condition(&failing, "PodResizeInProgress");
    ensure_eq!(progress["status"], json!("True"), "status of the condition");
    let message = progress["message"].as_str().unwrap_or_default();
    ensure!(message.contains("cannot decrease memory limits"), "message: {message}");
    ensure!(condition(&failing, "PodResizePending").is_null(), "it has been admitted: {}", failing["status"]);
    ensure_eq!(
        container(&failing, "c")?["resources"]["limits"]["memory"],
        json!("128Mi"),
        "the limit it still has"
    );
    ensure_eq!(
        container(&failing, "c")?["allocatedResources"],
        less["requests"],
        "what it was admitted with"
    );
    let done = node.wait("shrinks", "resized", 60, |pod| condition(pod, "PodResizeInProgress").is_null())?;
    let c = container(&done, "c")?;
    ensure_eq!((&c["resources"], &c["containerID"]), (&less, &id), "resources and id of the container");
    node.remove("shrinks")
}
