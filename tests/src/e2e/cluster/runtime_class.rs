//! Runtime classes: the handler of the runtime, and what a sandbox needs for itself.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::NEEDS;
use super::beside::cgroup;
use super::fixture::{ClusterFixture, container_id};
use super::manifest::{WAIT, pod};
use crate::e2e::support::eventually;
use crate::fixture::OTHER_HANDLER;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_runtime_class", class).timeout(240).needs(NEEDS)];

/// A pod runs by the handler of its class, and its cgroup has the class's overhead beside its containers'
/// limits. A handler that the runtime does not have keeps the pod waiting, with an event that names it.
fn class(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let [other, absent] =
        [OTHER_HANDLER, "absent"].map(|handler| (format!("{}-{handler}", fixture.namespace()), handler));
    for (name, handler) in [&other, &absent] {
        let overhead = json!({ "podFixed": { "cpu": "100m", "memory": "16Mi" } });
        fixture.kubectl().apply(&json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": name },
            "handler": handler, "overhead": overhead,
        }))?;
    }
    fixture.apply(&of_class("own", &other.0, &fixture))?;
    fixture.apply(&of_class("waiter", &absent.0, &fixture))?;
    let own = fixture.wait_ready("own")?;
    let id = container_id(&own).as_str().unwrap_or_default().trim_start_matches("containerd://").to_owned();
    let state = context.temp.join("containerd").join(OTHER_HANDLER).join("k8s.io").join(&id);
    ensure!(!id.is_empty() && state.exists(), "{} is not there: another handler runs it", state.display());
    let directory = cgroup(own["metadata"]["uid"].as_str().unwrap_or_default())?;
    ensure_eq!(quota(&directory)?, "20000 100000", "CPU quota and period of the pod, in microseconds");

    eventually(context.patiently(60), "no event names the handler that is missing", || {
        let events = fixture.get(&["events", "--field-selector", "reason=FailedCreatePodSandBox"])?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        let says = |event: &Value| {
            let message = event["message"].as_str().unwrap_or_default();
            event["involvedObject"]["name"] == "waiter" && message.contains("absent")
        };
        Ok(events.iter().any(says).then_some(()))
    })?;
    fixture.run(&["delete", "pod", "own", "waiter", "--wait=false"])?;
    fixture.wait_gone("own", 60)?;
    fixture.wait_gone("waiter", 60)?;
    fixture.kubectl().run(&["delete", "runtimeclass", &other.0, &absent.0, "--wait=false"])?;
    fixture.finish()
}

fn of_class(name: &str, class: &str, fixture: &ClusterFixture<'_>) -> Value {
    let mut own = pod(name, fixture.name(), WAIT);
    own["spec"]["runtimeClassName"] = json!(class);
    let amounts = json!({ "cpu": "100m", "memory": "32Mi" });
    own["spec"]["containers"][0]["resources"] = json!({ "requests": amounts, "limits": amounts });
    own
}

/// Quota and period as cgroup v2 has them.
fn quota(directory: &Path) -> Result<String, Failure> {
    let read = |file: &str| {
        let path = directory.join(file);
        fs::read_to_string(&path).map(|text| text.trim().to_owned()).map_err(Failure::file(&path))
    };
    if directory.join("cpu.max").exists() {
        return read("cpu.max");
    }
    Ok(format!("{} {}", read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?))
}
