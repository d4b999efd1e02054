//! Plugins that send wrong data, fail, hang and die: pods of a well-behaved plugin must not be affected.

use serde_json::{Value, json};

use super::NEEDS_PYTHON;
use super::fixture::{DeviceFixture, requesting};
use crate::e2e::support::eventually;
use crate::fixture::{Behaviour, PluginDevice, PythonPlugin};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_bad_registrations", registrations).timeout(120).needs(NEEDS_PYTHON),
    Test::new("devices_bad_lists", lists).timeout(150).needs(NEEDS_PYTHON),
    Test::new("devices_bad_answers", answers).timeout(180).needs(NEEDS_PYTHON),
    Test::new("devices_plugin_hangs", hangs).timeout(240).needs(NEEDS_PYTHON),
    Test::new("devices_plugin_crashes", dies).timeout(180).needs(NEEDS_PYTHON),
];

/// A short timeout of calls, so that a call without an answer ends within the test; longer than a pod takes
/// to start on a busy machine.
const TIMEOUT: u64 = 8;

/// A fixture with a well-behaved plugin, whose pods must come up whatever the other plugin does.
struct WithGoodPlugin<'c> {
    devices: DeviceFixture<'c>,
    count: u32,
    _good: crate::fixture::Plugin,
}

impl<'c> WithGoodPlugin<'c> {
    fn new(context: &'c Context) -> Result<Self, Failure> {
        let fixture = DeviceFixture::new(context, &format!("pluginTimeoutSeconds: {TIMEOUT}"))?;
        let good = fixture.start_plugin(&fixture.behaviour("good", &["g0"]))?;
        Ok(Self { devices: fixture, count: 0, _good: good })
    }

    /// Checks that a pod of the well-behaved plugin starts in less time than one call of the other plugin may
    /// take. `behaviour` says what that plugin does.
    fn check_others_unaffected(&mut self, behaviour: &str) -> Result<(), Failure> {
        self.count += 1;
        let name = format!("good{}", self.count);
        let begun = std::time::Instant::now();
        self.devices.pods.put([requesting(&name, &[("good", 1)])])?;
        let up = self.devices.pods.wait_up(&name).map_err(|failure| {
            Failure::Unexpected(format!(
                "pod of the well-behaved plugin, while another plugin {behaviour}: {failure}"
            ))
        })?;
        let limit = self.devices.context().patiently(TIMEOUT);
        ensure!(begun.elapsed() < limit, "while another plugin {behaviour} a pod took {:?}", begun.elapsed());
        ensure_eq!(self.devices.printed_devices(&up, "c")?.len(), 1, "its devices");
        self.devices.pods.remove(&name)?;
        self.devices.pods.wait_gone(&[&name])
    }

    /// Waits for a line of this call in a plugin's log, and returns it.
    fn wait_call(&self, plugin: &PythonPlugin, call: &str) -> Result<Value, Failure> {
        eventually(self.devices.context().patiently(15), &format!("no {call} in the plugin's log"), || {
            Ok(plugin.log().into_iter().find(|line| line["call"] == call))
        })
    }

    /// A plugin with the devices x0 and x1.
    fn one(&self, name: &str) -> Behaviour {
        self.devices.behaviour(name, &["x0", "x1"])
    }

    /// Ends the test.
    fn end(self) -> Result<(), Failure> {
        self.devices.pods.finish()
    }
}

/// A registration with a wrong version, name or path is refused with the reason; one that comes twice counts
/// once.
fn registrations(context: &Context) -> Result<(), Failure> {
    let mut fixture = WithGoodPlugin::new(context)?;
    for (name, lies, word) in [
        ("version", json!({ "version": "v1alpha" }), "v1alpha"),
        ("native", json!({ "resource": "cpu" }), "cpu"),
        ("spaces", json!({ "resource": "nodewarden.test/a b" }), "a b"),
        ("kubernetes", json!({ "resource": "requests.kubernetes.io/x" }), "kubernetes.io/x"),
        ("path", json!({ "endpoint": "../path.sock" }), "../path.sock"),
        (
            "absolute",
            json!({ "endpoint": "/etc/path.sock", "socket": fixture.devices.dir().join("a.sock") }),
            "/etc/path.sock",
        ),
        ("empty", json!({ "endpoint": "", "socket": fixture.devices.dir().join("e.sock") }), "endpoint"),
        (
            "own",
            json!({ "endpoint": "kubelet.sock", "socket": fixture.devices.dir().join("o.sock") }),
            "kubelet.sock",
        ),
    ] {
        let plugin = fixture.devices.start_misbehaving(&fixture.one(name), lies)?;
        let refused = fixture.wait_call(&plugin, "Refused")?;
        let error = refused["error"].as_str().unwrap_or_default();
        ensure!(error.contains(word), "{name}: {word:?} is not in the answer to the plugin: {refused}");
        ensure!(
            plugin.log().iter().all(|line| line["call"] != "ListAndWatch"),
            "ListAndWatch of {name} was called"
        );
        // The agent logs the refusal as well.
        fixture.devices.wait_logged(&[word])?;
    }
    fixture.check_others_unaffected("is refused")?;

    // Two registrations at the same time: one of them is used, and the resource has its devices once.
    let twice = fixture.devices.start_misbehaving(&fixture.one("twice"), json!({ "register": 2 }))?;
    fixture.devices.wait_allocatable("twice", &["x0", "x1"])?;
    fixture.devices.pods.put([requesting("twice", &[("twice", 2)])])?;
    let pod = fixture.devices.pods.wait_up("twice")?;
    ensure_eq!(
        fixture.devices.printed_devices(&pod, "c")?.len(),
        2,
        "devices of a plugin that registered twice"
    );
    fixture.devices.pods.put([requesting("third", &[("twice", 1)])])?;
    fixture.devices.wait_pending("third", "OutOfnodewarden.test/twice")?;
    drop(twice);
    fixture.check_others_unaffected("registered twice")?;
    fixture.end()
}

/// Duplicate and empty ids, unknown health and very long ids in a list are reported, and the valid devices
/// are used; a flood of lists delays no pod.
fn lists(context: &Context) -> Result<(), Failure> {
    let mut fixture = WithGoodPlugin::new(context)?;
    let mut faulty = fixture.one("faulty");
    faulty.devices = ["x0", "x0", "", "x1"].map(PluginDevice::healthy).to_vec();
    let mut plugin = fixture.devices.start_misbehaving(&faulty, json!({}))?;
    fixture.devices.wait_allocatable("faulty", &["x0", "x1"])?;
    fixture.devices.wait_logged(&["nodewarden.test/faulty", "x0"])?;
    fixture.devices.wait_logged(&["nodewarden.test/faulty", "no id"])?;
    fixture.devices.pods.put([requesting("three", &[("faulty", 3)]), requesting("two", &[("faulty", 2)])])?;
    let two = fixture.devices.pods.wait_up("two")?;
    ensure_eq!(fixture.devices.printed_devices(&two, "c")?.len(), 2, "devices of a list with wrong entries");
    fixture.devices.wait_pending("three", "OutOfnodewarden.test/faulty")?;
    // An unknown health counts as unhealthy; an id that is too long for a file name is used and reported.
    let long = "x".repeat(5000);
    plugin.order(&json!({ "set": { "devices": [{ "id": "x0", "health": "Fine" }, { "id": long },
        { "id": "x1" }] } }))?;
    fixture.devices.wait_allocatable("faulty", &["x1", &long])?;
    fixture.devices.wait_logged(&["nodewarden.test/faulty", "Fine"])?;
    fixture.devices.wait_logged(&["nodewarden.test/faulty", "5000 bytes"])?;
    fixture.check_others_unaffected("lists nonsense")?;
    // Lists as fast as the plugin can send them.
    for _ in 0..200 {
        plugin.order(&json!({ "set": { "devices": [{ "id": "x1" }, { "id": "x0" }] } }))?;
    }
    fixture.devices.wait_allocatable("faulty", &["x0", "x1"])?;
    fixture.check_others_unaffected("sends list after list")?;
    fixture.end()
}

/// With a wrong preference devices are chosen without it; a wrong or failed Allocate leaves the pod pending
/// with the reason, allocates nothing, and is retried.
fn answers(context: &Context) -> Result<(), Failure> {
    let mut fixture = WithGoodPlugin::new(context)?;
    let mut faulty = fixture.one("faulty");
    // With more devices than wanted, GetPreferredAllocation is called.
    faulty.devices.push(PluginDevice::healthy("x2"));
    faulty.preferred_allocation = true;
    let preferred = ["unlisted", "x0", "x0", ""];
    let mut plugin = fixture.devices.start_misbehaving(&faulty, json!({ "preferred": preferred }))?;
    fixture.devices.wait_allocatable("faulty", &["x0", "x1", "x2"])?;
    fixture.devices.pods.put([requesting("one", &[("faulty", 1)])])?;
    let one = fixture.devices.pods.wait_up("one")?;
    let given = fixture.devices.printed_devices(&one, "c")?;
    ensure!(
        given.iter().all(|id| ["x0", "x1", "x2"].contains(&id.as_str())),
        "devices that are not in the list: {given:?}"
    );
    ensure_eq!(given.len(), 1, "devices of a plugin that prefers others");
    fixture.devices.pods.remove("one")?;
    fixture.devices.pods.wait_gone(&["one"])?;

    // Too many responses, none, or an error: the pod waits with the reason and no device stays allocated.
    for (order, word) in [
        (json!({ "responses": 2 }), "Allocate"),
        (json!({ "responses": 0 }), "Allocate"),
        (json!({ "responses": 1, "fail": { "Allocate": "not today" } }), "not today"),
    ] {
        plugin.order(&json!({ "set": order }))?;
        fixture.devices.pods.put([requesting("fails", &[("faulty", 2)])])?;
        let message = fixture.devices.wait_pending("fails", "UnexpectedAdmissionError")?;
        for word in [word, "nodewarden.test/faulty"] {
            ensure!(message.contains(word), "{order}: {word:?} is not in {message:?}");
        }
        fixture.check_others_unaffected("answers wrongly")?;
        let given = fixture.devices.allocated_to("fails", "faulty")?;
        ensure!(given.is_empty(), "{order}: {given:?} stay allocated");
        plugin.order(&json!({ "set": { "responses": 1, "fail": {} } }))?;
        // The agent tries again by itself.
        let up = fixture.devices.pods.wait_up("fails")?;
        ensure_eq!(fixture.devices.printed_devices(&up, "c")?.len(), 2, "devices once the plugin answers");
        fixture.devices.pods.remove("fails")?;
        fixture.devices.pods.wait_gone(&["fails"])?;
    }
    // When GetPreferredAllocation fails, devices are chosen without it.
    plugin.order(&json!({ "set": { "fail": { "GetPreferredAllocation": "no wishes" } } }))?;
    fixture.devices.pods.put([requesting("wishes", &[("faulty", 2)])])?;
    let up = fixture.devices.pods.wait_up("wishes")?;
    ensure_eq!(
        fixture.devices.printed_devices(&up, "c")?.len(),
        2,
        "devices of a plugin whose GetPreferredAllocation fails"
    );
    fixture.devices.wait_logged(&["nodewarden.test/faulty", "no wishes"])?;
    fixture.end()
}

/// A call that a plugin never answers delays only pods that need the plugin, which show the call, and start
/// once it answers.
fn hangs(context: &Context) -> Result<(), Failure> {
    let mut fixture = WithGoodPlugin::new(context)?;
    // Calls at the registration. The options are in the registration as well, so a hanging
    // GetDevicePluginOptions does no harm; without a list there are no devices.
    for (call, comes_up) in [("GetDevicePluginOptions", true), ("ListAndWatch", false)] {
        let name = format!("hangs-{}", call.to_lowercase());
        let plugin = fixture.devices.start_misbehaving(&fixture.one(&name), json!({ "hang": [call] }))?;
        fixture.wait_call(&plugin, call)?;
        fixture.check_others_unaffected(&format!("never answers {call}"))?;
        let pod = format!("of-{name}");
        fixture.devices.pods.put([requesting(&pod, &[(&name, 1)])])?;
        if comes_up {
            fixture.devices.pods.wait_up(&pod)?;
        } else {
            fixture.devices.pods.wait_until(&pod, "waiting", 20, |pod| {
                let reason = pod.text("/status/reason");
                pod.phase() == "Pending" && (reason == "DevicePluginNotReady" || reason.starts_with("OutOf"))
            })?;
        }
        fixture.devices.pods.remove(&pod)?;
        fixture.devices.pods.wait_gone(&[&pod])?;
    }
    // Calls for a pod.
    let mut faulty = fixture.one("faulty");
    // With more devices than wanted, GetPreferredAllocation is called.
    faulty.devices.push(PluginDevice::healthy("x2"));
    (faulty.preferred_allocation, faulty.pre_start_required) = (true, true);
    let mut plugin = fixture.devices.start_misbehaving(&faulty, json!({}))?;
    fixture.devices.wait_allocatable("faulty", &["x0", "x1", "x2"])?;
    for call in ["GetPreferredAllocation", "Allocate", "PreStartContainer"] {
        plugin.order(&json!({ "set": { "hang": [call] } }))?;
        fixture.devices.pods.put([requesting("hangs", &[("faulty", 2)])])?;
        eventually(context.patiently(10), &format!("{call} is not called"), || {
            let asked = plugin.log().into_iter().rev().take_while(|line| line["call"] != "Obeyed");
            Ok(asked.into_iter().any(|line| line["call"] == call).then_some(()))
        })?;
        fixture.check_others_unaffected(&format!("never answers {call}"))?;
        if call == "GetPreferredAllocation" {
            // Devices are chosen without a preference.
            fixture.devices.wait_logged(&["nodewarden.test/faulty", call])?;
        } else {
            fixture.devices.pods.wait_until("hangs", "waiting with a reason", 20, |pod| {
                let text = pod.0["status"].to_string();
                !pod.is_up() && text.contains(call) && text.contains("nodewarden.test/faulty")
            })?;
        }
        plugin.order(&json!({ "set": { "hang": [] } }))?;
        let up =
            fixture.devices.pods.wait_until("hangs", "up", 40, crate::e2e::pods::listed::ListedPod::is_up)?;
        ensure_eq!(
            fixture.devices.printed_devices(&up, "c")?.len(),
            2,
            "devices once the plugin answers {call}"
        );
        fixture.devices.pods.remove("hangs")?;
        fixture.devices.pods.wait_gone(&["hangs"])?;
    }
    fixture.end()
}

/// A plugin that dies in a call is replaced by the next one without loss of devices; one whose stream ends
/// keeps its pods' devices.
fn dies(context: &Context) -> Result<(), Failure> {
    let mut fixture = WithGoodPlugin::new(context)?;
    let faulty = fixture.one("faulty");
    for call in ["Allocate", "ListAndWatch"] {
        let plugin = fixture.devices.start_misbehaving(&faulty, json!({ "die": [call] }))?;
        if call == "ListAndWatch" {
            fixture.wait_call(&plugin, call)?;
        } else {
            fixture.devices.wait_allocatable("faulty", &["x0", "x1"])?;
        }
        fixture.devices.pods.put([requesting("dies", &[("faulty", 2)])])?;
        fixture.devices.pods.wait_until("dies", "waiting with a reason", 20, |pod| {
            let reason = pod.text("/status/reason");
            let known = ["UnexpectedAdmissionError", "DevicePluginNotReady", "OutOfnodewarden.test/faulty"];
            pod.phase() == "Pending" && known.contains(&reason)
        })?;
        fixture.check_others_unaffected(&format!("dies in {call}"))?;
        drop(plugin);
        // Another plugin replaces it: no device is lost.
        let better = fixture.devices.start_plugin(&faulty)?;
        let up = fixture.devices.pods.wait_up("dies")?;
        ensure_eq!(
            fixture.devices.printed_devices(&up, "c")?.len(),
            2,
            "devices of the plugin that replaced it"
        );
        fixture.devices.pods.remove("dies")?;
        fixture.devices.pods.wait_gone(&["dies"])?;
        drop(better);
        fixture.devices.wait_allocatable("faulty", &[])?;
    }
    // A stream that ends while the plugin lives on, and a plugin that registers again while its pods run.
    let mut plugin = fixture.devices.start_misbehaving(&faulty, json!({}))?;
    fixture.devices.wait_allocatable("faulty", &["x0", "x1"])?;
    fixture.devices.pods.put([requesting("stays", &[("faulty", 1)])])?;
    let before = super::fixture::identity(&fixture.devices.pods.wait_up("stays")?)?;
    let given = fixture.devices.allocated_to("stays", "faulty")?;
    plugin.order(&json!({ "end": "streams" }))?;
    fixture.devices.wait_allocatable("faulty", &[])?;
    for _ in 0..5 {
        plugin.order(&json!({ "register": 1 }))?;
    }
    fixture.devices.wait_allocatable("faulty", &["x0", "x1"])?;
    ensure_eq!(fixture.devices.allocated_to("stays", "faulty")?, given, "devices of the running pod");
    ensure_eq!(super::fixture::identity(&fixture.devices.pods.wait_up("stays")?)?, before, "the running pod");
    fixture.devices.pods.put([requesting("next", &[("faulty", 2)])])?;
    fixture.devices.wait_pending("next", "OutOfnodewarden.test/faulty")?;
    fixture.end()
}
