//! Plugins that do not register but are found by their socket (pluginregistration v1).

use serde_json::{Value, json};

use super::NEEDS_PYTHON;
use super::site::{Site, wants};
use crate::e2e::support::eventually;
use crate::fixture::PythonPlugin;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("devices_plugin_watcher", found).timeout(120).needs(NEEDS_PYTHON)];

fn notified(context: &Context, plugin: &PythonPlugin) -> Result<Value, Failure> {
    eventually(context.patiently(15), "the plugin is not told how its registration went", || {
        Ok(plugin.log().into_iter().find(|line| line["call"] == "NotifyRegistrationStatus"))
    })
}

fn found(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let behaviour = site.behaviour("found", &["f0", "f1"]);
    let below = site.registry().join("vendor");
    std::fs::create_dir(&below).map_err(Failure::file(&below))?;
    let plugin = site.liar(&behaviour, json!({ "watcher": below.join("f.sock") }))?;
    let told = notified(context, &plugin)?;
    ensure_eq!((&told["registered"], &told["error"]), (&json!(true), &json!("")), "what it was told");
    site.until_allocatable("found", &["f0", "f1"])?;
    site.stage.put([wants("has", &[("found", 1)])])?;
    let pod = site.stage.up("has")?;
    ensure_eq!(site.told(&pod, "c")?.len(), 1, "devices of a plugin that was found");

    // Another agent finds it again.
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    site.until_allocatable("found", &["f0", "f1"])?;

    let wrong = site.behaviour("wrong", &["w0"]);
    let socket = site.registry().join("w.sock");
    let wrong = site.liar(&wrong, json!({ "watcher": socket, "version": "v0" }))?;
    let told = notified(context, &wrong)?;
    let error = told["error"].as_str().unwrap_or_default();
    ensure!(told["registered"] == false && error.contains("v0"), "{told}");

    // A socket that is no more is a plugin that is no more.
    drop(plugin);
    let socket = below.join("f.sock");
    std::fs::remove_file(&socket).map_err(Failure::file(&socket))?;
    site.until_allocatable("found", &[])?;
    site.stage.finish()
}
