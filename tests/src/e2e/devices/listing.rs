//! Devices as shown by PodResources, the command line and metrics.

use serde_json::Value;

use super::NEEDS;
use super::fixture::{DeviceFixture, requesting, set};
use crate::e2e::support::eventually;
use crate::fixture::{PluginDevice, RpcError, device_ids};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("devices_are_listed", listed).timeout(120).needs(NEEDS)];

/// PodResources, `nodewarden devices` and the metrics show devices, their health, NUMA nodes and owners.
fn listed(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let mut behaviour = fixture.behaviour("thing", &["t0", "t1"]);
    behaviour.devices.push(PluginDevice::healthy("t2").on(1));
    behaviour.devices.push(PluginDevice::unhealthy("t3"));
    let _plugin = fixture.start_plugin(&behaviour)?;
    fixture.pods.put([requesting("has", &[("thing", 3)]), requesting("none", &[])])?;
    let pod = fixture.pods.wait_up("has")?;
    fixture.pods.wait_up("none")?;

    let resources = fixture.pod_resources()?;
    let list = resources.list()?;
    let names: Vec<_> = list.iter().map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect();
    ensure!(names.contains(&("default", "has")) && names.contains(&("default", "none")), "List: {names:?}");
    let one = resources.get("has")?;
    ensure_eq!(list.iter().find(|pod| pod.name == "has"), Some(&one), "the pod by Get and by List");
    ensure_eq!(one.containers.len(), 1, "containers of the pod");
    let devices = &one.containers[0].devices;
    ensure_eq!(one.containers[0].name, "c", "the container");
    ensure_eq!(device_ids(devices, "nodewarden.test/thing"), set(&["t0", "t1", "t2"]), "its devices");
    for part in devices {
        let nodes: Vec<_> = part.topology.iter().flat_map(|t| &t.nodes).map(|node| node.id).collect();
        let expected = if part.device_ids == ["t2"] { vec![1] } else { Vec::new() };
        ensure_eq!(nodes, expected, "NUMA nodes of {:?}", part.device_ids);
    }
    match resources.get("missing") {
        Err(RpcError::Call { status, .. }) => {
            ensure!(status.message().contains("missing"), "Get of a pod that does not exist: {status:?}");
        }
        other => return Err(Failure::Unexpected(format!("Get of a pod that does not exist: {other:?}"))),
    }
    // Healthy devices, allocated or not (kubelet: GetAllocatableDevices).
    fixture.wait_allocatable("thing", &["t0", "t1", "t2"])?;

    let run = |command: &[&str]| -> Result<String, Failure> {
        let output = fixture.pods.command(command)?;
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

    for (name, minimum) in [
        ("kubelet_device_plugin_registration_total", 1.0),
        ("kubelet_device_plugin_alloc_duration_seconds_count", 1.0),
        ("nodewarden_device_allocation_seconds_count", 1.0),
    ] {
        eventually(context.patiently(10), &format!("{name} does not count"), || {
            let samples = fixture.samples(name)?;
            let of_it = samples.iter().filter(|sample| {
                let resource = sample.labels.get("resource_name");
                resource.is_none_or(|resource| resource == "nodewarden.test/thing")
            });
            Ok((of_it.map(|sample| sample.value).sum::<f64>() >= minimum).then_some(()))
        })?;
    }
    fixture.pods.finish()
}
