//! Which pod gets which devices, and when.

use std::collections::BTreeSet;
use std::fs;

use serde_json::json;

use super::NEEDS;
use super::fixture::{DeviceFixture, PRINT_DEVICES, limits, notes, requesting, set};
use crate::e2e::pods::manifest::{STAY, merged, pod, shell};
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

/// A pod that wants more devices than are free waits with the kubelet's reason, reserves none, and starts
/// when enough are free.
fn wait(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let _plugin = fixture.start_plugin(&fixture.behaviour("thing", &["t0", "t1", "t2"]))?;
    fixture.pods.put([requesting("two", &[("thing", 2)])])?;
    fixture.pods.wait_up("two")?;
    fixture.pods.put([requesting("more", &[("thing", 2)])])?;
    let message = fixture.wait_pending("more", "OutOfnodewarden.test/thing")?;
    for word in ["nodewarden.test/thing", "requested: 2", "used: 2", "capacity: 3", "free: 1"] {
        ensure!(message.contains(word), "{word:?} is not in {message:?}");
    }
    // A pod that wants fewer starts meanwhile: no free device is reserved for the waiting pod.
    fixture.pods.put([requesting("less", &[("thing", 1)])])?;
    let less = fixture.pods.wait_up("less")?;
    ensure_eq!(fixture.printed_devices(&less, "c")?.len(), 1, "devices of the pod that wants one");
    ensure_eq!(fixture.allocated_to("more", "thing")?, BTreeSet::new(), "devices of the pod that waits");
    fixture.pods.remove("two")?;
    let more = fixture.pods.wait_up("more")?;
    let (of_more, of_less) = (fixture.printed_devices(&more, "c")?, fixture.printed_devices(&less, "c")?);
    ensure_eq!((of_more.len(), of_more.intersection(&of_less).count()), (2, 0), "{of_more:?}, {of_less:?}");

    // More than the capacity, and of an unknown resource.
    fixture.pods.put([requesting("never", &[("thing", 4)]), requesting("unknown", &[("nothing", 1)])])?;
    let message = fixture.wait_pending("never", "OutOfnodewarden.test/thing")?;
    ensure!(message.contains("capacity: 3"), "{message:?}");
    let message = fixture.wait_pending("unknown", "DevicePluginNotReady")?;
    ensure!(message.contains("nodewarden.test/nothing"), "{message:?}");
    fixture.pods.finish()
}

/// Devices of an init container are used again by the pod's main container, and the rest are freed.
fn init(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let _plugin = fixture.start_plugin(&fixture.behaviour("thing", &["t0", "t1", "t2"]))?;
    let folder = context.temp.join("notes");
    let (volumes, mount) = notes(&folder)?;
    let script = "echo devices=$DEVICES; echo done; while ! test -e /notes/go; do sleep 0.1; done";
    let first = shell("first", script, merged(limits(&[("thing", 2)]), mount));
    let spec = json!({ "volumes": volumes, "initContainers": [first],
        "containers": [shell("c", PRINT_DEVICES, limits(&[("thing", 1)]))] });
    fixture.pods.put([pod("init", spec)])?;
    let begun = fixture.pods.wait_until("init", "running its init container", 30, |pod| {
        pod.container("first").is_ok_and(|first| first.is_running())
    })?;
    let of_init = fixture.printed_devices(&begun, "first")?;
    ensure_eq!(of_init.len(), 2, "devices of the init container");
    fixture.pods.put([requesting("after", &[("thing", 2)])])?;
    fixture.wait_pending("after", "OutOfnodewarden.test/thing")?;
    fs::write(folder.join("go"), "").map_err(Failure::file(&folder))?;
    let up = fixture.pods.wait_up("init")?;
    let of_c = fixture.printed_devices(&up, "c")?;
    ensure!(
        of_c.len() == 1 && of_c.is_subset(&of_init),
        "{of_c:?} is not one of the init container's {of_init:?}"
    );
    // The devices that only the init container had are free.
    let after = fixture.pods.wait_up("after")?;
    let all: BTreeSet<_> = of_c.union(&fixture.printed_devices(&after, "c")?).cloned().collect();
    ensure_eq!(all, set(&["t0", "t1", "t2"]), "devices of both pods");
    fixture.pods.finish()
}

/// GetPreferredAllocation is followed; without it all devices of a container come from one NUMA node if
/// possible.
fn preferred(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let mut asked = fixture.behaviour("asked", &["p0", "p1", "p2"]);
    asked.preferred_allocation = true;
    let plugin = fixture.start_plugin(&asked)?;
    let mut nodes = fixture.behaviour("numa", &[]);
    nodes.devices = ["a0", "a1"].map(|id| PluginDevice::healthy(id).on(0)).to_vec();
    nodes.devices.extend(["b0", "b1", "b2"].map(|id| PluginDevice::healthy(id).on(1)));
    let _numa = fixture.start_plugin(&nodes)?;

    fixture.pods.put([requesting("prefers", &[("asked", 1)])])?;
    let pod = fixture.pods.wait_up("prefers")?;
    ensure_eq!(fixture.printed_devices(&pod, "c")?, set(&["p2"]), "the devices that the plugin prefers");
    let calls = plugin.calls("GetPreferredAllocation");
    ensure_eq!(calls.len(), 1, "calls of GetPreferredAllocation");
    let call = (&calls[0]["available"], &calls[0]["must_include"], &calls[0]["size"]);
    ensure_eq!(call, (&json!(["p0", "p1", "p2"]), &json!([]), &json!(1)), "the call");

    for (name, count, expected) in [("three", 3, &["b0", "b1", "b2"][..]), ("two", 2, &["a0", "a1"][..])] {
        fixture.pods.put([requesting(name, &[("numa", count)])])?;
        let pod = fixture.pods.wait_up(name)?;
        ensure_eq!(fixture.printed_devices(&pod, "c")?, set(expected), "{count} devices of one node");
    }
    let topology = fixture.pod_resources()?.get("three")?;
    let devices = topology.containers.iter().flat_map(|c| &c.devices);
    let on: BTreeSet<i64> =
        devices.flat_map(|d| d.topology.iter().flat_map(|t| &t.nodes)).map(|n| n.id).collect();
    ensure_eq!(on, BTreeSet::from([1]), "NUMA nodes by PodResources");
    fixture.pods.finish()
}

/// PreStartContainer is called before every start of the container, with the devices of the one Allocate.
fn prestart(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let mut behaviour = fixture.behaviour("thing", &["t0", "t1"]);
    behaviour.pre_start_required = true;
    let plugin = fixture.start_plugin(&behaviour)?;
    let (volumes, mount) = notes(&context.temp.join("notes"))?;
    let script = format!(
        "echo devices=$DEVICES; echo done; echo x >> /notes/runs; test `wc -l < /notes/runs` -lt 3 && exit 1; {STAY}"
    );
    let c = shell("c", &script, merged(limits(&[("thing", 1)]), mount));
    fixture.pods.put([pod("starts", json!({ "volumes": volumes, "containers": [c] }))])?;
    let up = fixture.pods.wait_until("starts", "up at its third run", 40, |pod| {
        pod.is_up() && pod.container("c").is_ok_and(|c| c.restarts() == 2)
    })?;
    let ids = fixture.printed_devices(&up, "c")?;
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
    ensure_eq!(order, ["Allocate", "PreStartContainer"], "order of the calls");
    eventually(context.patiently(5), "not every run was noted", || {
        let text = fs::read_to_string(context.temp.join("notes/runs")).unwrap_or_default();
        Ok((text.lines().count() == 3).then_some(()))
    })?;
    fixture.pods.finish()
}
