//! Unhealthy devices, and plugins that die and come back.

use std::time::{Duration, Instant};

use super::NEEDS;
use super::fixture::{DeviceFixture, full_name, identity, requesting, set};
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::eventually;
use crate::fixture::PluginDevice;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_health", health).timeout(120).needs(NEEDS),
    Test::new("devices_plugin_dies", dies).timeout(150).needs(NEEDS),
];

/// The health of a device of container `c` that `/pods` shows.
pub fn health_of(pod: &ListedPod, resource: &str, id: &str) -> String {
    let Ok(c) = pod.container("c") else { return String::new() };
    let all = c.0["allocatedResourcesStatus"].as_array().into_iter().flatten();
    let of_it = all.filter(|status| status["name"] == full_name(resource));
    let mut devices = of_it.flat_map(|status| status["resources"].as_array().into_iter().flatten());
    let found = devices.find(|device| device["resourceID"] == id);
    found.and_then(|device| device["health"].as_str()).unwrap_or_default().to_owned()
}

/// A device's health is shown and reported; an unhealthy device is not allocated to another pod, and pods
/// that have it keep it.
fn health(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let mut plugin = fixture.start_plugin(&fixture.behaviour("thing", &["t0", "t1"]))?;
    fixture.pods.put([requesting("has", &[("thing", 1)])])?;
    let before = fixture.pods.wait_up("has")?;
    let id = fixture.printed_devices(&before, "c")?.first().cloned().unwrap_or_default();
    let other = if id == "t0" { "t1" } else { "t0" };
    ensure_eq!(health_of(&before, "thing", &id), "Healthy", "health of {id}: {}", before.0["status"]);

    plugin.set_devices(&[PluginDevice::unhealthy(&id), PluginDevice::healthy(other)])?;
    fixture.pods.wait_until("has", "with an unhealthy device", 10, |pod| {
        health_of(pod, "thing", &id) == "Unhealthy"
    })?;
    fixture.wait_event("has", &["DeviceUnhealthy", &id, "nodewarden.test/thing"])?;
    fixture.wait_allocatable("thing", &[other])?;
    // The unhealthy device stays with its pod; no other pod gets it.
    fixture.pods.put([requesting("next", &[("thing", 1)]), requesting("third", &[("thing", 1)])])?;
    let allocated = eventually(context.patiently(20), "no pod gets the healthy device", || {
        let allocated = fixture.allocated()?;
        Ok(["next", "third"].into_iter().find(|pod| allocated.contains_key(*pod)))
    })?;
    ensure_eq!(fixture.allocated_to(allocated, "thing")?, set(&[other]), "the device of {allocated}");
    let waiting = if allocated == "next" { "third" } else { "next" };
    let message = fixture.wait_pending(waiting, "OutOfnodewarden.test/thing")?;
    ensure!(message.contains("unhealthy"), "{message:?}");

    plugin.set_devices(&[PluginDevice::healthy(&id), PluginDevice::healthy(other)])?;
    let after = fixture
        .pods
        .wait_until("has", "healthy again", 10, |pod| health_of(pod, "thing", &id) == "Healthy")?;
    fixture.wait_event("has", &["DeviceHealthy", &id])?;
    ensure_eq!(identity(&after)?, identity(&before)?, "the pod that has the device");

    // A device that is no longer listed stays with its pod.
    plugin.set_devices(&[PluginDevice::healthy(other), PluginDevice::healthy("t9")])?;
    fixture
        .pods
        .wait_until("has", "with an unknown device", 10, |pod| health_of(pod, "thing", &id) == "Unknown")?;
    let last = fixture.pods.wait_up(waiting)?;
    ensure_eq!(fixture.printed_devices(&last, "c")?, set(&["t9"]), "the new device");
    ensure_eq!(fixture.allocated_to("has", "thing")?, set(&[&id]), "the device of the first pod");
    fixture.pods.finish()
}

/// After a plugin's death its resource is dropped when the grace period ends; pods keep their devices, and
/// new pods wait for the plugin.
fn dies(context: &Context) -> Result<(), Failure> {
    let grace = context.scaled([3u64, 20]);
    let mut fixture = DeviceFixture::new(context, &format!("graceSeconds: {grace}"))?;
    let behaviour = fixture.behaviour("thing", &["t0", "t1"]);
    let plugin = fixture.start_plugin(&behaviour)?;
    let unused = fixture.start_plugin(&fixture.behaviour("unused", &["u0"]))?;
    fixture.pods.put([requesting("has", &[("thing", 1)])])?;
    let before = fixture.pods.wait_up("has")?;
    let ids = fixture.printed_devices(&before, "c")?;
    let id = ids.first().cloned().unwrap_or_default();

    drop(plugin);
    fixture
        .pods
        .wait_until("has", "without its plugin", 10, |pod| health_of(pod, "thing", &id) != "Healthy")?;
    ensure_eq!(fixture.allocated_to("has", "thing")?, ids, "the pod's devices without their plugin");
    fixture.wait_allocatable("thing", &[])?;
    fixture.pods.put([requesting("waits", &[("thing", 1)])])?;
    fixture.wait_pending("waits", "DevicePluginNotReady")?;

    let again = fixture.start_plugin(&behaviour)?;
    let waited = fixture.pods.wait_up("waits")?;
    ensure_eq!(fixture.printed_devices(&waited, "c")?.intersection(&ids).count(), 0, "devices of two pods");
    let back = fixture
        .pods
        .wait_until("has", "with its plugin back", 10, |pod| health_of(pod, "thing", &id) == "Healthy")?;
    ensure_eq!(identity(&back)?, identity(&before)?, "the pod that kept the device");

    // After the grace period the resource is shown as dropped; pods that have devices of it keep them.
    let listed = |fixture: &DeviceFixture<'_>| -> Result<String, Failure> {
        let output = fixture.pods.command(&["devices"])?;
        ensure!(output.status.success(), "nodewarden devices: {output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let dropped = |text: &str| {
        text.lines().any(|line| line.contains("nodewarden.test/unused") && line.contains("dropped"))
    };
    let text = listed(&fixture)?;
    ensure!(text.contains("nodewarden.test/unused") && !dropped(&text), "while its plugin runs:\n{text}");
    let ended = Instant::now();
    drop((unused, again));
    std::thread::sleep(Duration::from_secs(grace) / 3);
    let text = listed(&fixture)?;
    let over = ended.elapsed() >= Duration::from_secs(grace);
    ensure!(
        over || (text.contains("nodewarden.test/unused") && !dropped(&text)),
        "within its grace period:\n{text}"
    );
    eventually(context.patiently(grace + 10), "the resource is not dropped after its grace period", || {
        Ok(dropped(&listed(&fixture)?).then_some(()))
    })?;
    ensure!(ended.elapsed() >= Duration::from_secs(grace), "dropped after {:?}", ended.elapsed());
    ensure_eq!(fixture.allocated_to("has", "thing")?, ids, "the pod's devices after the grace");
    let still = fixture.pods.wait_up("has")?;
    ensure_eq!(identity(&still)?, identity(&before)?, "the pod after the grace");
    let _plugin = fixture.start_plugin(&behaviour)?;
    ensure_eq!(fixture.allocated_to("has", "thing")?, ids, "the pod's devices with the plugin back");
    fixture.pods.finish()
}
