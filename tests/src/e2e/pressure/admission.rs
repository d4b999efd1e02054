//! Who is let in: pods wait for what they lack, say what that is, and go on as soon as it is there.

use serde_json::{Value, json};

use super::site::{LEFT_MIB, POOL_MIB, QUICK, Site, pool, requests};
use super::{ANYWHERE, NEEDS};
use crate::e2e::pods::manifest::{STAY, merged, one};
use crate::e2e::support::{MIB, eventually};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("admission_waits_and_goes_on", waits).timeout(120).needs(ANYWHERE),
    Test::new("admission_names_what_lacks", names).timeout(120).needs(NEEDS),
    Test::new("admission_by_labels_of_the_node", labels).timeout(120).needs(NEEDS),
    Test::new("admission_outlives_the_agent", outlives).timeout(120).needs(NEEDS),
];

/// What pods may ask for together, in MiB: what is left at the threshold is nobody's.
const ALLOCATABLE_MIB: u64 = POOL_MIB - LEFT_MIB;

fn wants(name: &str, mib: u64) -> Value {
    one(name, STAY, json!({ "resources": requests(mib) }))
}

fn site(context: &Context) -> Result<Site<'_>, Failure> {
    Site::with_pool(context, LEFT_MIB, "")
}

fn waits(context: &Context) -> Result<(), Failure> {
    let mut site = site(context)?;
    let first = site.up([wants("first", 150)])?;
    site.stage.put([wants("large", 140)])?;
    let message = site.waits("large", "OutOfmemory")?;
    let expected = format!(
        "Node didn't have enough resource: memory, requested: {}, used: {}, capacity: {}",
        140 * MIB,
        150 * MIB,
        ALLOCATABLE_MIB * MIB
    );
    ensure!(message.contains(&expected), "{message:?} has no {expected:?}");
    let notes = site.stage.notes("large", "OutOfmemory", site.begun)?;
    ensure_eq!(notes.len(), 1, "events of why it waits: {notes:?}");
    // Who wants less is not held up by it.
    let small = site.up([wants("small", 60)])?;
    // Room is made by a resize, which restarts nobody, and not for more than it holds.
    site.stage.put([wants("first", 100)])?;
    site.unharmed(&small)?;
    eventually(context.patiently(10), "the message does not follow what is used", || {
        let message = site.waits("large", "OutOfmemory")?;
        Ok(message.contains(&format!("used: {}", 160 * MIB)).then_some(()))
    })?;
    site.stage.put([wants("first", 40)])?;
    let large = site.up([wants("large", 140)])?;
    // By somebody's end.
    site.stage.put([wants("last", 200)])?;
    site.waits("last", "OutOfmemory")?;
    site.stage.remove("small")?;
    site.stage.gone(&["small"])?;
    ensure!(site.stage.pod("last")?.is_some_and(|pod| pod.phase() == "Pending"), "there is no room for it");
    site.stage.remove("large")?;
    site.stage.up("last")?;
    ensure!(!large.is_empty(), "it ran");
    site.unharmed(&first)?;
    site.stage.finish()
}

fn names(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, &pool(LEFT_MIB, "maxPods: 4\n")?, QUICK)?;
    site.up([wants("one", 16), wants("two", 16), wants("three", 16)])?;
    let resources = |requests: Value| json!({ "resources": { "requests": requests } });
    for (resource, asked, requested) in [
        ("cpu", "4000", "4000000"),
        ("memory", "1Ti", "1099511627776"),
        ("ephemeral-storage", "1Pi", "1125899906842624"),
    ] {
        let name = format!("wants-{resource}");
        site.stage.put([one(&name, STAY, resources(json!({ resource: asked })))])?;
        let message = site.waits(&name, &format!("OutOf{resource}"))?;
        for word in [resource, &format!("requested: {requested}"), "used: ", "capacity: "] {
            ensure!(message.contains(word), "{word:?} is not in {message:?}");
        }
        site.stage.remove(&name)?;
        site.stage.gone(&[&name])?;
    }
    site.up([wants("four", 16)])?;
    site.stage.put([wants("five", 16)])?;
    let message = site.waits("five", "OutOfpods")?;
    for word in ["pods", "requested: 1", "used: 4", "capacity: 4"] {
        ensure!(message.contains(word), "{word:?} is not in {message:?}");
    }
    site.stage.remove("two")?;
    site.stage.up("five")?;
    site.stage.finish()
}

fn labels(context: &Context) -> Result<(), Failure> {
    let mut site = site(context)?;
    let selecting = |name: &str, selector: Value| {
        let mut pod = one(name, STAY, json!({}));
        pod["spec"] = merged(pod["spec"].clone(), json!({ "nodeSelector": selector }));
        pod
    };
    // As the stage calls its node.
    site.up([selecting("here", json!({ "kubernetes.io/hostname": "stage", "kubernetes.io/os": "linux" }))])?;
    site.stage.put([selecting("elsewhere", json!({ "kubernetes.io/hostname": "other" }))])?;
    site.waits("elsewhere", "NodeAffinity")?;
    let mut affine = one("affine", STAY, json!({}));
    let terms = |value: &str| {
        let expression = json!({ "key": "kubernetes.io/os", "operator": "In", "values": [value] });
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [expression] }] } } })
    };
    affine["spec"]["affinity"] = terms("windows");
    site.stage.put([affine.clone()])?;
    site.waits("affine", "NodeAffinity")?;
    // Another manifest is another pod, which may run.
    affine["spec"]["affinity"] = terms("linux");
    site.up([affine, selecting("elsewhere", json!({ "kubernetes.io/os": "linux" }))])?;
    site.stage.finish()
}

fn outlives(context: &Context) -> Result<(), Failure> {
    let mut site = site(context)?;
    let first = site.up([wants("first", 150)])?;
    site.stage.put([wants("second", 140)])?;
    site.waits("second", "OutOfmemory")?;
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    site.unharmed(&first)?;
    site.waits("second", "OutOfmemory")?;
    // A node that has become too small for who runs on it ends nobody, and lets nobody in.
    site.stage.stop_agent();
    site.stage.set_kubelet(&pool(POOL_MIB - 50, "")?);
    site.stage.start_agent()?;
    site.unharmed(&first)?;
    site.stage.put([wants("third", 10)])?;
    let message = site.waits("third", "OutOfmemory")?;
    ensure!(message.contains(&format!("capacity: {}", 50 * MIB)), "{message:?}");
    site.stage.remove("first")?;
    site.stage.up("third")?;
    site.waits("second", "OutOfmemory")?;
    site.stage.finish()
}
