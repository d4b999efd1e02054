//! Plugins that are found by their socket instead of registering themselves (pluginregistration v1).

use serde_json::{Value, json};

use super::NEEDS_PYTHON;
use super::fixture::{DeviceFixture, requesting};
use crate::e2e::support::eventually;
use crate::fixture::PythonPlugin;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("devices_plugin_watcher", found).timeout(120).needs(NEEDS_PYTHON)];

/// Waits until the plugin got NotifyRegistrationStatus, and returns the call.
fn notified(context: &Context, plugin: &PythonPlugin) -> Result<Value, Failure> {
    eventually(context.patiently(15), "the plugin gets no NotifyRegistrationStatus", || {
        Ok(plugin.log().into_iter().find(|line| line["call"] == "NotifyRegistrationStatus"))
    })
}

/// A plugin whose socket appears in the directory is registered, also by the next agent; a wrong version is
/// refused, and a removed socket removes the devices.
fn found(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let behaviour = fixture.behaviour("found", &["f0", "f1"]);
    let below = fixture.registry().join("vendor");
    std::fs::create_dir(&below).map_err(Failure::file(&below))?;
    let plugin = fixture.start_misbehaving(&behaviour, json!({ "watcher": below.join("f.sock") }))?;
    let status = notified(context, &plugin)?;
    ensure_eq!(
        (&status["registered"], &status["error"]),
        (&json!(true), &json!("")),
        "the status sent to the plugin"
    );
    fixture.wait_allocatable("found", &["f0", "f1"])?;
    fixture.pods.put([requesting("has", &[("found", 1)])])?;
    let pod = fixture.pods.wait_up("has")?;
    ensure_eq!(fixture.printed_devices(&pod, "c")?.len(), 1, "devices of a plugin that was found");

    // The next agent finds the plugin again.
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    fixture.wait_allocatable("found", &["f0", "f1"])?;

    let wrong = fixture.behaviour("wrong", &["w0"]);
    let socket = fixture.registry().join("w.sock");
    let wrong = fixture.start_misbehaving(&wrong, json!({ "watcher": socket, "version": "v0" }))?;
    let status = notified(context, &wrong)?;
    let error = status["error"].as_str().unwrap_or_default();
    ensure!(status["registered"] == false && error.contains("v0"), "{status}");

    // A plugin whose socket is removed is deregistered.
    drop(plugin);
    let socket = below.join("f.sock");
    std::fs::remove_file(&socket).map_err(Failure::file(&socket))?;
    fixture.wait_allocatable("found", &[])?;
    fixture.pods.finish()
}
