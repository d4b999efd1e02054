//! Who gets which devices, and when.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use super::NEEDS;
use super::site::{SAY, Site, limits, notes, set, wants, with};
use crate::e2e::pods::manifest::{STAY, pod, shell};
use crate::e2e::support::eventually;
use crate::fixture::PluginDevice;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_wait_for_free_ones", wait).timeout(120).needs(NEEDS),
    Test::new("devices_of_init_containers", init).timeout(120).needs(NEEDS),
    Test::new("devices_preferred_and_numa", preferred).timeout(120).needs(NEEDS),
    Test::new("devices_prestart", prestart).timeout(120).needs(NEEDS),
];

fn wait(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let _plugin = site.plugin(&site.behaviour("thing", &["t0", "t1", "t2"]))?;
    site.stage.put([wants("two", &[("thing", 2)])])?;
    site.stage.up("two")?;
    site.stage.put([wants("more", &[("thing", 2)])])?;
    let message = site.waits("more", "OutOfnodewarden.test/thing")?;
    for word in ["nodewarden.test/thing", "requested: 2", "used: 2", "capacity: 3", "free: 1"] {
        ensure!(message.contains(word), "{word:?} is not in {message:?}");
    }
    // Who wants less is not held up by it, and nothing of what is free was set aside for who waits.
    site.stage.put([wants("less", &[("thing", 1)])])?;
    let less = site.stage.up("less")?;
    ensure_eq!(site.told(&less, "c")?.len(), 1, "devices of the pod that wants one");
    ensure_eq!(site.given_to("more", "thing")?, BTreeSet::new(), "devices of the pod that waits");
    site.stage.remove("two")?;
    let more = site.stage.up("more")?;
    let (of_more, of_less) = (site.told(&more, "c")?, site.told(&less, "c")?);
    ensure_eq!((of_more.len(), of_more.intersection(&of_less).count()), (2, 0), "{of_more:?}, {of_less:?}");

    // More than there ever are, and of what nobody has.
    site.stage.put([wants("never", &[("thing", 4)]), wants("unknown", &[("nothing", 1)])])?;
    let message = site.waits("never", "OutOfnodewarden.test/thing")?;
    ensure!(message.contains("capacity: 3"), "{message:?}");
    let message = site.waits("unknown", "DevicePluginNotReady")?;
    ensure!(message.contains("nodewarden.test/nothing"), "{message:?}");
    site.stage.finish()
}

fn init(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let _plugin = site.plugin(&site.behaviour("thing", &["t0", "t1", "t2"]))?;
    let folder = context.temp.join("notes");
    let (volumes, mount) = notes(&folder)?;
    let until = "echo devices=$DEVICES; echo done; while ! test -e /notes/go; do sleep 0.1; done";
    let first = shell("first", until, with(limits(&[("thing", 2)]), mount));
    let spec = json!({ "volumes": volumes, "initContainers": [first],
        "containers": [shell("c", SAY, limits(&[("thing", 1)]))] });
    site.stage.put([pod("init", spec)])?;
    let begun = site.stage.until("init", "running its init container", 30, |pod| {
        pod.container("first").is_ok_and(|first| first.is_running())
    })?;
    let of_init = site.told(&begun, "first")?;
    ensure_eq!(of_init.len(), 2, "devices of the init container");
    site.stage.put([wants("after", &[("thing", 2)])])?;
    site.waits("after", "OutOfnodewarden.test/thing")?;
    fs::write(folder.join("go"), "").map_err(Failure::file(&folder))?;
    let up = site.stage.up("init")?;
    let of_c = site.told(&up, "c")?;
    ensure!(of_c.len() == 1 && of_c.is_subset(&of_init), "{of_c:?} of {of_init:?} should be used again");
    // What only the init container had is free.
    let after = site.stage.up("after")?;
    let all: BTreeSet<_> = of_c.union(&site.told(&after, "c")?).cloned().collect();
    ensure_eq!(all, set(&["t0", "t1", "t2"]), "devices of both");
    site.stage.finish()
}

fn preferred(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let mut asked = site.behaviour("asked", &["p0", "p1", "p2"]);
    asked.preferred_allocation = true;
    let plugin = site.plugin(&asked)?;
    let mut nodes = site.behaviour("numa", &[]);
    nodes.devices = ["a0", "a1"].map(|id| PluginDevice::healthy(id).on(0)).to_vec();
    nodes.devices.extend(["b0", "b1", "b2"].map(|id| PluginDevice::healthy(id).on(1)));
    let _numa = site.plugin(&nodes)?;

    site.stage.put([wants("prefers", &[("asked", 1)])])?;
    let pod = site.stage.up("prefers")?;
    ensure_eq!(site.told(&pod, "c")?, set(&["p2"]), "what the plugin prefers");
    let calls = plugin.calls("GetPreferredAllocation");
    ensure_eq!(calls.len(), 1, "calls of GetPreferredAllocation");
    let call = (&calls[0]["available"], &calls[0]["must_include"], &calls[0]["size"]);
    ensure_eq!(call, (&json!(["p0", "p1", "p2"]), &json!([]), &json!(1)), "the call");

    for (name, count, expected) in [("three", 3, &["b0", "b1", "b2"][..]), ("two", 2, &["a0", "a1"][..])] {
        site.stage.put([wants(name, &[("numa", count)])])?;
        let pod = site.stage.up(name)?;
        ensure_eq!(site.told(&pod, "c")?, set(expected), "{count} devices of one node");
    }
    let topology = site.pod_resources()?.get("three")?;
    let devices = topology.containers.iter().flat_map(|c| &c.devices);
    let on: BTreeSet<i64> =
        devices.flat_map(|d| d.topology.iter().flat_map(|t| &t.nodes)).map(|n| n.id).collect();
    ensure_eq!(on, BTreeSet::from([1]), "NUMA nodes that PodResources tells");
    site.stage.finish()
}

fn prestart(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let mut behaviour = site.behaviour("thing", &["t0", "t1"]);
    behaviour.pre_start_required = true;
    let plugin = site.plugin(&behaviour)?;
    let (volumes, mount) = notes(&context.temp.join("notes"))?;
    let script = format!(
        "echo devices=$DEVICES; echo done; echo x >> /notes/runs; test `wc -l < /notes/runs` -lt 3 && exit 1; {STAY}"
    );
    let c = shell("c", &script, with(limits(&[("thing", 1)]), mount));
    site.stage.put([pod("starts", json!({ "volumes": volumes, "containers": [c] }))])?;
    let up = site.stage.until("starts", "up at its third run", 40, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 2)
    })?;
    let ids = site.told(&up, "c")?;
    let calls = plugin.calls("PreStartContainer");
    ensure_eq!(calls.len(), 3, "calls of PreStartContainer at three starts");
    ensure!(calls.iter().all(|call| call["ids"] == json!(ids)), "{calls:?} of {ids:?}");
    ensure_eq!(plugin.calls("Allocate").len(), 1, "calls of Allocate: a container keeps its devices");
    let order: Vec<_> = plugin
        .log()
        .iter()
        .filter_map(|line| line["call"].as_str().map(str::to_owned))
        .filter(|call| ["Allocate", "PreStartContainer"].contains(&call.as_str()))
        .take(2)
        .collect();
    ensure_eq!(order, ["Allocate", "PreStartContainer"], "their order");
    eventually(context.patiently(5), "the runs are not noted", || {
        let text = fs::read_to_string(context.temp.join("notes/runs")).unwrap_or_default();
        Ok((text.lines().count() == 3).then_some(()))
    })?;
    site.stage.finish()
}
