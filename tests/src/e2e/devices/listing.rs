//! What can be read of devices: PodResources, the command line, metrics.

use serde_json::Value;

use super::NEEDS;
use super::site::{Site, set, wants};
use crate::e2e::support::eventually;
use crate::fixture::{PluginDevice, RpcError, device_ids};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("devices_can_be_read", read).timeout(120).needs(NEEDS)];

fn read(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let mut behaviour = site.behaviour("thing", &["t0", "t1"]);
    behaviour.devices.push(PluginDevice::healthy("t2").on(1));
    behaviour.devices.push(PluginDevice::unhealthy("t3"));
    let _plugin = site.plugin(&behaviour)?;
    site.stage.put([wants("has", &[("thing", 3)]), wants("none", &[])])?;
    let pod = site.stage.up("has")?;
    site.stage.up("none")?;

    let resources = site.pod_resources()?;
    let listed = resources.list()?;
    let names: Vec<_> = listed.iter().map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect();
    ensure!(names.contains(&("default", "has")) && names.contains(&("default", "none")), "List: {names:?}");
    let one = resources.get("has")?;
    ensure_eq!(listed.iter().find(|pod| pod.name == "has"), Some(&one), "Get beside List");
    ensure_eq!(one.containers.len(), 1, "containers of the pod");
    let devices = &one.containers[0].devices;
    ensure_eq!(one.containers[0].name, "c", "the container");
    ensure_eq!(device_ids(devices, "nodewarden.test/thing"), set(&["t0", "t1", "t2"]), "its devices");
    for part in devices {
        let nodes: Vec<_> = part.topology.iter().flat_map(|t| &t.nodes).map(|node| node.id).collect();
        let expected = if part.device_ids == ["t2"] { vec![1] } else { Vec::new() };
        ensure_eq!(nodes, expected, "NUMA nodes of {:?}", part.device_ids);
    }
    match resources.get("nobody") {
        Err(RpcError::Call { status, .. }) => {
            ensure!(status.message().contains("nobody"), "of a pod that is not there: {status:?}");
        }
        other => return Err(Failure::Unexpected(format!("of a pod that is not there: {other:?}"))),
    }
    // Healthy ones, allocated or not (kubelet: GetAllocatableDevices).
    site.until_allocatable("thing", &["t0", "t1", "t2"])?;

    let run = |command: &[&str]| -> Result<String, Failure> {
        let output = site.stage.command(command)?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command:?}: {}: {error}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let text = run(&["devices"])?;
    for word in ["nodewarden.test/thing", "t0", "t3", "Unhealthy", "has"] {
        ensure!(text.contains(word), "{word:?} is not in\n{text}");
    }
    let text = run(&["devices", "-o", "json"])?;
    let json: Value = serde_json::from_str(&text)
        .map_err(|e| Failure::Unexpected(format!("devices -o json: {e}: {text}")))?;
    let flat = json.to_string();
    for word in ["\"nodewarden.test/thing\"", "\"t3\"", "\"Unhealthy\"", pod.uid()] {
        ensure!(flat.contains(word), "{word} is not in {json:#}");
    }

    for (name, least) in [
        ("kubelet_device_plugin_registration_total", 1.0),
        ("kubelet_device_plugin_alloc_duration_seconds_count", 1.0),
        ("nodewarden_device_allocation_seconds_count", 1.0),
    ] {
        eventually(context.patiently(10), &format!("{name} does not count"), || {
            let samples = site.samples(name)?;
            let of_it = samples.iter().filter(|sample| {
                let resource = sample.labels.get("resource_name");
                resource.is_none_or(|resource| resource == "nodewarden.test/thing")
            });
            Ok((of_it.map(|sample| sample.value).sum::<f64>() >= least).then_some(()))
        })?;
    }
    site.stage.finish()
}
