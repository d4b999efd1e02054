//! Devices turn unhealthy, plugins die and come back: what is said of it, and that running pods are left alone.

use std::time::{Duration, Instant};

use super::NEEDS;
use super::site::{Site, full, identity, set, wants};
use crate::e2e::pods::seen::Seen;
use crate::e2e::support::eventually;
use crate::fixture::PluginDevice;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_health", health).timeout(120).needs(NEEDS),
    Test::new("devices_plugin_dies", dies).timeout(150).needs(NEEDS),
];

/// What `/pods` says of one device of container `c`.
pub fn health_of(pod: &Seen, resource: &str, id: &str) -> String {
    let Ok(c) = pod.container("c") else { return String::new() };
    let all = c.0["allocatedResourcesStatus"].as_array().into_iter().flatten();
    let of_it = all.filter(|status| status["name"] == full(resource));
    let mut devices = of_it.flat_map(|status| status["resources"].as_array().into_iter().flatten());
    let found = devices.find(|device| device["resourceID"] == id);
    found.and_then(|device| device["health"].as_str()).unwrap_or_default().to_owned()
}

fn health(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let mut plugin = site.plugin(&site.behaviour("thing", &["t0", "t1"]))?;
    site.stage.put([wants("has", &[("thing", 1)])])?;
    let before = site.stage.up("has")?;
    let id = site.told(&before, "c")?.first().cloned().unwrap_or_default();
    let other = if id == "t0" { "t1" } else { "t0" };
    ensure_eq!(health_of(&before, "thing", &id), "Healthy", "health of {id}: {}", before.0["status"]);

    plugin.set_devices(&[PluginDevice::unhealthy(&id), PluginDevice::healthy(other)])?;
    site.stage
        .until("has", "with an unhealthy device", 10, |pod| health_of(pod, "thing", &id) == "Unhealthy")?;
    site.until_event("has", &["DeviceUnhealthy", &id, "nodewarden.test/thing"])?;
    site.until_allocatable("thing", &[other])?;
    // A restart of the container gets the same again, healthy or not; another pod does not get it.
    site.stage.put([wants("next", &[("thing", 1)]), wants("third", &[("thing", 1)])])?;
    let given = eventually(context.patiently(20), "nobody is given the healthy device", || {
        let given = site.given()?;
        Ok(["next", "third"].into_iter().find(|pod| given.contains_key(*pod)))
    })?;
    ensure_eq!(site.given_to(given, "thing")?, set(&[other]), "the device of {given}");
    let waiting = if given == "next" { "third" } else { "next" };
    let message = site.waits(waiting, "OutOfnodewarden.test/thing")?;
    ensure!(message.contains("unhealthy"), "{message:?}");

    plugin.set_devices(&[PluginDevice::healthy(&id), PluginDevice::healthy(other)])?;
    let after =
        site.stage.until("has", "healthy again", 10, |pod| health_of(pod, "thing", &id) == "Healthy")?;
    site.until_event("has", &["DeviceHealthy", &id])?;
    ensure_eq!(identity(&after)?, identity(&before)?, "the pod that has the device");

    // One that is listed no more stays whose it is.
    plugin.set_devices(&[PluginDevice::healthy(other), PluginDevice::healthy("t9")])?;
    site.stage.until("has", "with an unknown device", 10, |pod| health_of(pod, "thing", &id) == "Unknown")?;
    let last = site.stage.up(waiting)?;
    ensure_eq!(site.told(&last, "c")?, set(&["t9"]), "the device that came");
    ensure_eq!(site.given_to("has", "thing")?, set(&[&id]), "the device of the first pod");
    site.stage.finish()
}

fn dies(context: &Context) -> Result<(), Failure> {
    let grace = context.scaled([3u64, 20]);
    let mut site = Site::new(context, &format!("graceSeconds: {grace}"))?;
    let behaviour = site.behaviour("thing", &["t0", "t1"]);
    let plugin = site.plugin(&behaviour)?;
    let unused = site.plugin(&site.behaviour("unused", &["u0"]))?;
    site.stage.put([wants("has", &[("thing", 1)])])?;
    let before = site.stage.up("has")?;
    let ids = site.told(&before, "c")?;
    let id = ids.first().cloned().unwrap_or_default();

    drop(plugin);
    site.stage.until("has", "without its plugin", 10, |pod| health_of(pod, "thing", &id) != "Healthy")?;
    ensure_eq!(site.given_to("has", "thing")?, ids, "the pod's devices without their plugin");
    site.until_allocatable("thing", &[])?;
    site.stage.put([wants("waits", &[("thing", 1)])])?;
    site.waits("waits", "DevicePluginNotReady")?;

    let again = site.plugin(&behaviour)?;
    let waited = site.stage.up("waits")?;
    ensure_eq!(site.told(&waited, "c")?.intersection(&ids).count(), 0, "devices of two pods");
    let back = site
        .stage
        .until("has", "with its plugin back", 10, |pod| health_of(pod, "thing", &id) == "Healthy")?;
    ensure_eq!(identity(&back)?, identity(&before)?, "the pod that had the device all the time");

    // After the grace the resource is no more, which stays to be read; who has devices of it keeps them.
    let listed = |site: &Site<'_>| -> Result<String, Failure> {
        let output = site.stage.command(&["devices"])?;
        ensure!(output.status.success(), "nodewarden devices: {output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let dropped = |text: &str| {
        text.lines().any(|line| line.contains("nodewarden.test/unused") && line.contains("dropped"))
    };
    let text = listed(&site)?;
    ensure!(text.contains("nodewarden.test/unused") && !dropped(&text), "with its plugin:\n{text}");
    let ended = Instant::now();
    drop((unused, again));
    std::thread::sleep(Duration::from_secs(grace) / 3);
    let text = listed(&site)?;
    let over = ended.elapsed() >= Duration::from_secs(grace);
    ensure!(
        over || (text.contains("nodewarden.test/unused") && !dropped(&text)),
        "within its grace:\n{text}"
    );
    eventually(context.patiently(grace + 10), "the resource outlives its grace", || {
        Ok(dropped(&listed(&site)?).then_some(()))
    })?;
    ensure!(ended.elapsed() >= Duration::from_secs(grace), "gone after {:?}", ended.elapsed());
    ensure_eq!(site.given_to("has", "thing")?, ids, "the pod's devices after the grace");
    let still = site.stage.up("has")?;
    ensure_eq!(identity(&still)?, identity(&before)?, "the pod after the grace");
    let _plugin = site.plugin(&behaviour)?;
    ensure_eq!(site.given_to("has", "thing")?, ids, "the pod's devices with the plugin back");
    site.stage.finish()
}
