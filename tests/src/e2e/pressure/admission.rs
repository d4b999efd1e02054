//! Admission: pods wait for resources that are not free.

use serde_json::{Value, json};

use super::fixture::{LEFT_MIB, POOL_MIB, PressureFixture, QUICK_RESTART, pool_config, requests};
use super::{ANYWHERE, NEEDS};
use crate::e2e::pods::manifest::{STAY, merged, one};
use crate::e2e::support::{MIB, eventually};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("admission_waits_for_free_resources", waits).timeout(120).needs(ANYWHERE),
    Test::new("admission_reports_missing_resource", missing).timeout(120).needs(NEEDS),
    Test::new("admission_checks_node_labels", labels).timeout(120).needs(NEEDS),
    Test::new("admission_survives_agent_restart", survives_restart).timeout(120).needs(NEEDS),
];

/// MiB that all pods together may request: the pool less what must stay available by the threshold.
const ALLOCATABLE_MIB: u64 = POOL_MIB - LEFT_MIB;

/// A pod that requests memory.
fn requesting(name: &str, mib: u64) -> Value {
    one(name, STAY, json!({ "resources": requests(mib) }))
}

/// The usual pool.
fn fixture(context: &Context) -> Result<PressureFixture<'_>, Failure> {
    PressureFixture::with_pool(context, LEFT_MIB, "")
}

/// A pod that requests more than is free waits with the kubelet's message and starts when a resize or an end
/// frees enough; smaller pods start meanwhile.
fn waits(context: &Context) -> Result<(), Failure> {
    let mut fixture = fixture(context)?;
    let first = fixture.put_and_wait_up([requesting("first", 150)])?;
    fixture.pods.put([requesting("large", 140)])?;
    let message = fixture.wait_pending("large", "OutOfmemory")?;
    let expected = format!(
        "Node didn't have enough resource: memory, requested: {}, used: {}, capacity: {}",
        140 * MIB,
        150 * MIB,
        ALLOCATABLE_MIB * MIB
    );
    ensure!(message.contains(&expected), "{message:?} has no {expected:?}");
    let notes = fixture.pods.notes("large", "OutOfmemory", fixture.begun)?;
    ensure_eq!(notes.len(), 1, "events of why it waits: {notes:?}");
    // A pod that requests less starts meanwhile.
    let small = fixture.put_and_wait_up([requesting("small", 60)])?;
    // A resize of another pod, which restarts no pod, frees some memory, but not enough.
    fixture.pods.put([requesting("first", 100)])?;
    fixture.check_unchanged(&small)?;
    eventually(context.patiently(10), "the message does not show the new usage", || {
        let message = fixture.wait_pending("large", "OutOfmemory")?;
        Ok(message.contains(&format!("used: {}", 160 * MIB)).then_some(()))
    })?;
    fixture.pods.put([requesting("first", 40)])?;
    let large = fixture.put_and_wait_up([requesting("large", 140)])?;
    // The end of other pods frees memory.
    fixture.pods.put([requesting("last", 200)])?;
    fixture.wait_pending("last", "OutOfmemory")?;
    fixture.pods.remove("small")?;
    fixture.pods.wait_gone(&["small"])?;
    ensure!(
        fixture.pods.pod("last")?.is_some_and(|pod| pod.phase() == "Pending"),
        "it was admitted without free memory"
    );
    fixture.pods.remove("large")?;
    fixture.pods.wait_up("last")?;
    ensure!(!large.is_empty(), "it did not run");
    fixture.check_unchanged(&first)?;
    fixture.pods.finish()
}

/// The message names the missing resource with requested, used and capacity, for CPU, memory, storage and the
/// number of pods.
fn missing(context: &Context) -> Result<(), Failure> {
    let mut fixture = PressureFixture::new(context, &pool_config(LEFT_MIB, "maxPods: 4\n")?, QUICK_RESTART)?;
    fixture.put_and_wait_up([requesting("one", 16), requesting("two", 16), requesting("three", 16)])?;
    let resources = |requests: Value| json!({ "resources": { "requests": requests } });
    for (resource, asked, requested) in [
        ("cpu", "4000", "4000000"),
        ("memory", "1Ti", "1099511627776"),
        ("ephemeral-storage", "1Pi", "1125899906842624"),
    ] {
        let name = format!("wants-{resource}");
        fixture.pods.put([one(&name, STAY, resources(json!({ resource: asked })))])?;
        let message = fixture.wait_pending(&name, &format!("OutOf{resource}"))?;
        for word in [resource, &format!("requested: {requested}"), "used: ", "capacity: "] {
            ensure!(message.contains(word), "{word:?} is not in {message:?}");
        }
        fixture.pods.remove(&name)?;
        fixture.pods.wait_gone(&[&name])?;
    }
    fixture.put_and_wait_up([requesting("four", 16)])?;
    fixture.pods.put([requesting("five", 16)])?;
    let message = fixture.wait_pending("five", "OutOfpods")?;
    for word in ["pods", "requested: 1", "used: 4", "capacity: 4"] {
        ensure!(message.contains(word), "{word:?} is not in {message:?}");
    }
    fixture.pods.remove("two")?;
    fixture.pods.wait_up("five")?;
    fixture.pods.finish()
}

/// A pod whose nodeSelector or node affinity does not match the node waits with the reason NodeAffinity.
fn labels(context: &Context) -> Result<(), Failure> {
    let mut fixture = fixture(context)?;
    let selecting = |name: &str, selector: Value| {
        let mut pod = one(name, STAY, json!({}));
        pod["spec"] = merged(pod["spec"].clone(), json!({ "nodeSelector": selector }));
        pod
    };
    // The fixture's node name.
    fixture.put_and_wait_up([selecting(
        "here",
        json!({ "kubernetes.io/hostname": "stage", "kubernetes.io/os": "linux" }),
    )])?;
    fixture.pods.put([selecting("elsewhere", json!({ "kubernetes.io/hostname": "other" }))])?;
    fixture.wait_pending("elsewhere", "NodeAffinity")?;
    let mut affine = one("affine", STAY, json!({}));
    let terms = |value: &str| {
        let expression = json!({ "key": "kubernetes.io/os", "operator": "In", "values": [value] });
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } } })
    };
    affine["spec"]["affinity"] = terms("windows");
    fixture.pods.put([affine.clone()])?;
    fixture.wait_pending("affine", "NodeAffinity")?;
    // A changed manifest is another pod, which may run.
    affine["spec"]["affinity"] = terms("linux");
    fixture.put_and_wait_up([affine, selecting("elsewhere", json!({ "kubernetes.io/os": "linux" }))])?;
    fixture.pods.finish()
}

/// After a restart running pods stay, even if the node has become too small for them, and waiting pods keep
/// waiting.
fn survives_restart(context: &Context) -> Result<(), Failure> {
    let mut fixture = fixture(context)?;
    let first = fixture.put_and_wait_up([requesting("first", 150)])?;
    fixture.pods.put([requesting("second", 140)])?;
    fixture.wait_pending("second", "OutOfmemory")?;
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    fixture.check_unchanged(&first)?;
    fixture.wait_pending("second", "OutOfmemory")?;
    // A node that has become too small for its pods ends none of them, and admits none.
    fixture.pods.stop_agent();
    fixture.pods.set_kubelet(&pool_config(POOL_MIB - 50, "")?);
    fixture.pods.start_agent()?;
    fixture.check_unchanged(&first)?;
    fixture.pods.put([requesting("third", 10)])?;
    let message = fixture.wait_pending("third", "OutOfmemory")?;
    ensure!(message.contains(&format!("capacity: {}", 50 * MIB)), "{message:?}");
    fixture.pods.remove("first")?;
    fixture.pods.wait_up("third")?;
    fixture.wait_pending("second", "OutOfmemory")?;
    fixture.pods.finish()
}
