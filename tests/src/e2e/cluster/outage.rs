//! The API server is away, the agent ends meanwhile or much changes: what happened is reported afterwards,
//! and nothing is restarted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::NEEDS;
use super::bad_api::BadApi;
use super::fixture::{ClusterFixture, condition, ensure_no_restart};
use super::manifest::{WAIT, pod};
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_outage", outage).timeout(300).needs(NEEDS),
    Test::new("cluster_changes_in_an_outage", changes).timeout(300).needs(NEEDS),
];

fn outage(context: &Context) -> Result<(), Failure> {
    let mut fixture = ClusterFixture::start_alone(context)?;
    let node = fixture.name().to_owned();
    fixture.apply(&pod("stays", &node, WAIT))?;
    // Ends by itself while the API server is away.
    let mut ends = pod("ends", &node, "sleep 8; exit 3");
    ends["spec"]["restartPolicy"] = "Never".into();
    fixture.apply(&ends)?;
    let before = fixture.wait_ready("stays")?;
    fixture.wait_ready("ends")?;

    fixture.control_plane()?.api_server().kill();
    fixture.restart_agent(|| {
        std::thread::sleep(Duration::from_secs(10));
        Ok(())
    })?;
    std::thread::sleep(Duration::from_secs(2));
    let control_plane = fixture.control_plane()?;
    control_plane.api_server().start()?;
    control_plane.wait_ready()?;

    let ended = fixture.wait_pod("ends", "failed", 60, |pod| pod["status"]["phase"] == "Failed")?;
    let state = &ended["status"]["containerStatuses"][0]["state"]["terminated"];
    ensure_eq!(state["exitCode"], 3, "exit code of a container that ended during the outage");
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    let container = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    ensure_eq!(container(&after), container(&before), "the container that ran all the time");
    fixture.finish()
}

/// While the API server cannot be reached a probe fails, a pod is evicted, a manifest is removed and another
/// one written, and users delete and make pods. All of it is so afterwards, with the events and times of when
/// it was.
fn changes(context: &Context) -> Result<(), Failure> {
    let api = BadApi::start(context)?;
    let fixture = &api.fixture;
    let orders = context.temp.join("orders");
    fs::create_dir_all(&orders).map_err(Failure::file(&orders))?;
    let order = |name: &str| orders.join(name);
    write(&order("ready"))?;
    fixture.apply(&flipping(fixture, &orders))?;
    fixture.apply(&greedy(fixture, &orders))?;
    fixture.apply(&pod("deleted", fixture.name(), WAIT))?;
    fixture.write_manifest("removed", &from_manifest("removed", fixture))?;
    let mirror = |name: &str| format!("{name}-{}", fixture.name());
    for name in ["flips", "greedy", "deleted", &mirror("removed")] {
        fixture.wait_ready(name)?;
    }

    let (begun, away) = (Timestamp::now(), Instant::now());
    api.proxy.set_away(true);
    fixture.run(&["delete", "pod", "deleted", "--wait=false"])?;
    fixture.apply(&pod("made", fixture.name(), WAIT))?;
    fs::remove_file(order("ready")).map_err(Failure::file(&orders))?;
    write(&order("greedy"))?;
    fixture.remove_manifest("removed")?;
    fixture.write_manifest("written", &from_manifest("written", fixture))?;
    let on_node = |name: &str| -> Result<Option<ListedPod>, Failure> {
        let listed = ListedPod::list(&fixture.agent()?.get("/pods")?.text())?;
        Ok(listed.into_iter().find(|pod| pod.name() == name))
    };
    eventually(context.patiently(40), "the node does not do what it has to without an API server", || {
        let evicted = on_node("greedy")?.is_some_and(|pod| pod.text("/status/reason") == "Evicted");
        let unready = on_node("flips")?.is_some_and(|pod| condition(&pod.0, "Ready") == Some("False"));
        let written = on_node(&mirror("written"))?.is_some_and(|pod| pod.is_up());
        let removed = on_node(&mirror("removed"))?.is_none();
        Ok((evicted && unready && written && removed).then_some(()))
    })?;
    let back = Timestamp::now();
    println!("{REPORTED}outage: {:.1} s", away.elapsed().as_secs_f64());
    api.proxy.set_away(false);

    let again = Instant::now();
    let evicted = |pod: &Value| pod["status"]["phase"] == "Failed" && pod["status"]["reason"] == "Evicted";
    let greedy = fixture.wait_pod("greedy", "evicted", 60, evicted)?;
    let message = greedy["status"]["message"].as_str().unwrap_or_default();
    ensure!(message.contains("exceeds the limit \"1Mi\""), "message of the eviction: {message:?}");
    let unready = |pod: &Value| condition(pod, "Ready") == Some("False");
    let flips = fixture.wait_pod("flips", "not ready", 60, unready)?;
    ensure_no_restart(&flips)?;
    let conditions = flips["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.filter(|own| own["type"] == "Ready").collect::<Vec<_>>();
    let since = ready.first().and_then(|own| own["lastTransitionTime"].as_str()).unwrap_or_default();
    let since: Option<Timestamp> = since.parse().ok();
    // Times of the API are whole seconds.
    let is_between = |time: Timestamp| time.as_second() >= begun.as_second() && time <= back;
    ensure!(since.is_some_and(is_between), "not ready since {since:?}, the outage was {begun} to {back}");
    fixture.wait_gone(&mirror("removed"), 60)?;
    fixture.wait_gone("deleted", 60)?;
    fixture.wait_ready(&mirror("written"))?;
    fixture.wait_ready("made")?;
    for (name, reason) in [("greedy", "Evicted"), ("flips", "Unhealthy")] {
        let field = format!("involvedObject.name={name},reason={reason}");
        eventually(context.patiently(30), &format!("no event {reason} of {name} in the outage"), || {
            let events = fixture.get(&["events", "--field-selector", &field])?;
            let mut all = events["items"].as_array().into_iter().flatten();
            let first = |event: &Value| event["firstTimestamp"].as_str()?.parse::<Timestamp>().ok();
            Ok(all.any(|event| first(event).is_some_and(is_between)).then_some(()))
        })?;
    }
    println!("{REPORTED}the API server back to all known: {:.1} s", again.elapsed().as_secs_f64());
    api.ensure_untouched()?;
    fixture.remove_manifest("written")?;
    api.fixture.finish()
}

fn write(path: &PathBuf) -> Result<(), Failure> {
    fs::write(path, "").map_err(Failure::file(path))
}

/// A pod of a manifest in the test's namespace.
fn from_manifest(name: &str, fixture: &ClusterFixture<'_>) -> Value {
    let mut own = pod(name, fixture.name(), WAIT);
    own["metadata"]["namespace"] = fixture.name().into();
    if let Some(spec) = own["spec"].as_object_mut() {
        spec.remove("nodeSelector");
    }
    own
}

/// A pod that sees the directory with orders at `/orders`.
fn ordered(name: &str, fixture: &ClusterFixture<'_>, orders: &Path, script: &str) -> Value {
    let mut own = pod(name, fixture.name(), script);
    own["spec"]["volumes"] =
        json!([{ "name": "orders", "hostPath": { "path": orders, "type": "Directory" } }]);
    own["spec"]["containers"][0]["volumeMounts"] = json!([{ "name": "orders", "mountPath": "/orders" }]);
    own
}

/// It is ready while the order of that name is there.
fn flipping(fixture: &ClusterFixture<'_>, orders: &Path) -> Value {
    let mut own = ordered("flips", fixture, orders, WAIT);
    own["spec"]["containers"][0]["readinessProbe"] = json!({
        "exec": { "command": ["test", "-e", "/orders/ready"] }, "periodSeconds": 1, "failureThreshold": 1,
    });
    own
}

/// It writes more into a volume than that may have, when it is ordered to.
fn greedy(fixture: &ClusterFixture<'_>, orders: &Path) -> Value {
    let script = "while ! test -e /orders/greedy; do sleep 0.2; done; \
                  dd if=/dev/zero of=/data/f bs=1048576 count=3; ";
    let mut own = ordered("greedy", fixture, orders, &format!("{script}{WAIT}"));
    if let Some(volumes) = own["spec"]["volumes"].as_array_mut() {
        volumes.push(json!({ "name": "data", "emptyDir": { "sizeLimit": "1Mi" } }));
    }
    if let Some(mounts) = own["spec"]["containers"][0]["volumeMounts"].as_array_mut() {
        mounts.push(json!({ "name": "data", "mountPath": "/data" }));
    }
    own
}
