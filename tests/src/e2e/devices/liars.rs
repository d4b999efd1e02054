//! Plugins that lie, fail, hang and die: each beside a well-behaved one, which must not notice.

use serde_json::{Value, json};

use super::NEEDS_PYTHON;
use super::site::{Site, wants};
use crate::e2e::support::eventually;
use crate::fixture::{Behaviour, PluginDevice, PythonPlugin};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_liar_registers", registrations).timeout(120).needs(NEEDS_PYTHON),
    Test::new("devices_liar_lists", lists).timeout(150).needs(NEEDS_PYTHON),
    Test::new("devices_liar_answers", answers).timeout(180).needs(NEEDS_PYTHON),
    Test::new("devices_liar_hangs", hangs).timeout(240).needs(NEEDS_PYTHON),
    Test::new("devices_liar_dies", dies).timeout(180).needs(NEEDS_PYTHON),
];

/// How long a call may take, so that one that is never answered can be watched.
const TIMEOUT: &str = "pluginTimeoutSeconds: 2";

/// A site with a well-behaved plugin, whose pods must come up however the others behave.
struct Beside<'c> {
    site: Site<'c>,
    count: u32,
    _good: crate::fixture::Plugin,
}

impl<'c> Beside<'c> {
    fn new(context: &'c Context) -> Result<Self, Failure> {
        let site = Site::new(context, TIMEOUT)?;
        let good = site.plugin(&site.behaviour("good", &["g0"]))?;
        Ok(Self { site, count: 0, _good: good })
    }

    /// A pod of the well-behaved plugin comes and goes, in less time than one call of the other may take.
    fn nobody_else_is_held_up(&mut self, lie: &str) -> Result<(), Failure> {
        self.count += 1;
        let name = format!("good{}", self.count);
        let begun = std::time::Instant::now();
        self.site.stage.put([wants(&name, &[("good", 1)])])?;
        let up = self.site.stage.up(&name).map_err(|failure| {
            Failure::Unexpected(format!("beside a plugin that {lie}, a well-behaved one's pod: {failure}"))
        })?;
        let limit = self.site.context().patiently(2);
        ensure!(begun.elapsed() < limit, "beside a plugin that {lie} a pod took {:?}", begun.elapsed());
        ensure_eq!(self.site.told(&up, "c")?.len(), 1, "its devices");
        self.site.stage.remove(&name)?;
        self.site.stage.gone(&[&name])
    }

    /// A plugin's log has a line of this call.
    fn logged(&self, plugin: &PythonPlugin, call: &str) -> Result<Value, Failure> {
        eventually(self.site.context().patiently(15), &format!("no {call} in the plugin's log"), || {
            Ok(plugin.log().into_iter().find(|line| line["call"] == call))
        })
    }

    fn one(&self, name: &str) -> Behaviour {
        self.site.behaviour(name, &["x0", "x1"])
    }

    fn end(self) -> Result<(), Failure> {
        self.site.stage.finish()
    }
}

fn registrations(context: &Context) -> Result<(), Failure> {
    let mut beside = Beside::new(context)?;
    for (name, lies, word) in [
        ("version", json!({ "version": "v1alpha" }), "v1alpha"),
        ("native", json!({ "resource": "cpu" }), "cpu"),
        ("spaces", json!({ "resource": "nodewarden.test/a b" }), "a b"),
        ("kubernetes", json!({ "resource": "requests.kubernetes.io/x" }), "kubernetes.io/x"),
        ("path", json!({ "endpoint": "../path.sock" }), "../path.sock"),
        (
            "absolute",
            json!({ "endpoint": "/etc/path.sock", "socket": beside.site.dir().join("a.sock") }),
            "/etc/path.sock",
        ),
        ("empty", json!({ "endpoint": "", "socket": beside.site.dir().join("e.sock") }), "endpoint"),
        (
            "own",
            json!({ "endpoint": "kubelet.sock", "socket": beside.site.dir().join("o.sock") }),
            "kubelet.sock",
        ),
    ] {
        let plugin = beside.site.liar(&beside.one(name), lies)?;
        let refused = beside.logged(&plugin, "Refused")?;
        let said = refused["error"].as_str().unwrap_or_default();
        ensure!(said.contains(word), "{name}: {word:?} is not in what the plugin was told: {refused}");
        ensure!(plugin.log().iter().all(|line| line["call"] != "ListAndWatch"), "{name} was listened to");
        // The operator is told as well.
        beside.site.until_said(&[word])?;
    }
    beside.nobody_else_is_held_up("is refused")?;

    // Twice at once: one of them is listened to, and the resource has its devices once.
    let twice = beside.site.liar(&beside.one("twice"), json!({ "register": 2 }))?;
    beside.site.until_allocatable("twice", &["x0", "x1"])?;
    beside.site.stage.put([wants("twice", &[("twice", 2)])])?;
    let pod = beside.site.stage.up("twice")?;
    ensure_eq!(beside.site.told(&pod, "c")?.len(), 2, "devices of a plugin that registered twice");
    beside.site.stage.put([wants("third", &[("twice", 1)])])?;
    beside.site.waits("third", "OutOfnodewarden.test/twice")?;
    drop(twice);
    beside.nobody_else_is_held_up("registered twice")?;
    beside.end()
}

fn lists(context: &Context) -> Result<(), Failure> {
    let mut beside = Beside::new(context)?;
    let mut liar = beside.one("liar");
    liar.devices = ["x0", "x0", "", "x1"].map(PluginDevice::healthy).to_vec();
    let mut plugin = beside.site.liar(&liar, json!({}))?;
    beside.site.until_allocatable("liar", &["x0", "x1"])?;
    beside.site.until_said(&["nodewarden.test/liar", "x0"])?;
    beside.site.until_said(&["nodewarden.test/liar", "no id"])?;
    beside.site.stage.put([wants("three", &[("liar", 3)]), wants("two", &[("liar", 2)])])?;
    let two = beside.site.stage.up("two")?;
    ensure_eq!(beside.site.told(&two, "c")?.len(), 2, "devices of a list with lies");
    beside.site.waits("three", "OutOfnodewarden.test/liar")?;
    // Health in no word that there is is none; an id that is too long for a file's name is used and told of.
    let long = "x".repeat(5000);
    plugin.order(&json!({ "set": { "devices": [{ "id": "x0", "health": "Fine" }, { "id": long },
        { "id": "x1" }] } }))?;
    beside.site.until_allocatable("liar", &["x1", &long])?;
    beside.site.until_said(&["nodewarden.test/liar", "Fine"])?;
    beside.site.until_said(&["nodewarden.test/liar", "5000 bytes"])?;
    beside.nobody_else_is_held_up("lists nonsense")?;
    // As many lists as it can send.
    for _ in 0..200 {
        plugin.order(&json!({ "set": { "devices": [{ "id": "x1" }, { "id": "x0" }] } }))?;
    }
    beside.site.until_allocatable("liar", &["x0", "x1"])?;
    beside.nobody_else_is_held_up("sends list after list")?;
    beside.end()
}

fn answers(context: &Context) -> Result<(), Failure> {
    let mut beside = Beside::new(context)?;
    let mut liar = beside.one("liar");
    // With one to spare a plugin's wishes are asked for.
    liar.devices.push(PluginDevice::healthy("x2"));
    liar.preferred_allocation = true;
    let preferred = ["nobody", "x0", "x0", ""];
    let mut plugin = beside.site.liar(&liar, json!({ "preferred": preferred }))?;
    beside.site.until_allocatable("liar", &["x0", "x1", "x2"])?;
    beside.site.stage.put([wants("one", &[("liar", 1)])])?;
    let one = beside.site.stage.up("one")?;
    let given = beside.site.told(&one, "c")?;
    ensure!(
        given.iter().all(|id| ["x0", "x1", "x2"].contains(&id.as_str())),
        "devices that nobody listed: {given:?}"
    );
    ensure_eq!(given.len(), 1, "devices of a plugin that prefers others");
    beside.site.stage.remove("one")?;
    beside.site.stage.gone(&["one"])?;

    // More answers than questions, none, an error: the pod waits with the reason and nothing stays taken.
    for (order, word) in [
        (json!({ "responses": 2 }), "Allocate"),
        (json!({ "responses": 0 }), "Allocate"),
        (json!({ "responses": 1, "fail": { "Allocate": "not today" } }), "not today"),
    ] {
        plugin.order(&json!({ "set": order }))?;
        beside.site.stage.put([wants("fails", &[("liar", 2)])])?;
        let message = beside.site.waits("fails", "UnexpectedAdmissionError")?;
        for word in [word, "nodewarden.test/liar"] {
            ensure!(message.contains(word), "{order}: {word:?} is not in {message:?}");
        }
        beside.nobody_else_is_held_up("answers wrongly")?;
        let given = beside.site.given_to("fails", "liar")?;
        ensure!(given.is_empty(), "{order}: {given:?} stay given");
        plugin.order(&json!({ "set": { "responses": 1, "fail": {} } }))?;
        // It is tried again by itself.
        let up = beside.site.stage.up("fails")?;
        ensure_eq!(beside.site.told(&up, "c")?.len(), 2, "devices once it answers");
        beside.site.stage.remove("fails")?;
        beside.site.stage.gone(&["fails"])?;
    }
    // Wishes that cannot be had are not waited for.
    plugin.order(&json!({ "set": { "fail": { "GetPreferredAllocation": "no wishes" } } }))?;
    beside.site.stage.put([wants("wishes", &[("liar", 2)])])?;
    let up = beside.site.stage.up("wishes")?;
    ensure_eq!(beside.site.told(&up, "c")?.len(), 2, "devices of a plugin that cannot tell its wishes");
    beside.site.until_said(&["nodewarden.test/liar", "no wishes"])?;
    beside.end()
}

fn hangs(context: &Context) -> Result<(), Failure> {
    let mut beside = Beside::new(context)?;
    // What is asked at the registration. What it wants stands in the registration too; without a list it has no devices.
    for (call, comes_up) in [("GetDevicePluginOptions", true), ("ListAndWatch", false)] {
        let name = format!("hangs-{}", call.to_lowercase());
        let plugin = beside.site.liar(&beside.one(&name), json!({ "hang": [call] }))?;
        beside.logged(&plugin, call)?;
        beside.nobody_else_is_held_up(&format!("never answers {call}"))?;
        let pod = format!("of-{name}");
        beside.site.stage.put([wants(&pod, &[(&name, 1)])])?;
        if comes_up {
            beside.site.stage.up(&pod)?;
        } else {
            beside.site.stage.until(&pod, "waiting", 20, |pod| {
                let reason = pod.text("/status/reason");
                pod.phase() == "Pending" && (reason == "DevicePluginNotReady" || reason.starts_with("OutOf"))
            })?;
        }
        beside.site.stage.remove(&pod)?;
        beside.site.stage.gone(&[&pod])?;
    }
    // What is asked for a pod.
    let mut liar = beside.one("liar");
    // With one to spare a plugin's wishes are asked for.
    liar.devices.push(PluginDevice::healthy("x2"));
    (liar.preferred_allocation, liar.pre_start_required) = (true, true);
    let mut plugin = beside.site.liar(&liar, json!({}))?;
    beside.site.until_allocatable("liar", &["x0", "x1", "x2"])?;
    for call in ["GetPreferredAllocation", "Allocate", "PreStartContainer"] {
        plugin.order(&json!({ "set": { "hang": [call] } }))?;
        beside.logged_obeyed(&plugin, call)?;
        beside.site.stage.put([wants("hangs", &[("liar", 2)])])?;
        eventually(context.patiently(10), &format!("{call} is not called"), || {
            let asked = plugin.log().into_iter().rev().take_while(|line| line["call"] != "Obeyed");
            Ok(asked.into_iter().any(|line| line["call"] == call).then_some(()))
        })?;
        beside.nobody_else_is_held_up(&format!("never answers {call}"))?;
        if call == "GetPreferredAllocation" {
            // Devices are chosen without its wishes.
            beside.site.until_said(&["nodewarden.test/liar", call])?;
        } else {
            beside.site.stage.until("hangs", "told why it does not start", 20, |pod| {
                let text = pod.0["status"].to_string();
                !pod.is_up() && text.contains(call) && text.contains("nodewarden.test/liar")
            })?;
        }
        plugin.order(&json!({ "set": { "hang": [] } }))?;
        let up = beside.site.stage.until("hangs", "up", 40, crate::e2e::pods::seen::Seen::is_up)?;
        ensure_eq!(beside.site.told(&up, "c")?.len(), 2, "devices once it answers {call}");
        beside.site.stage.remove("hangs")?;
        beside.site.stage.gone(&["hangs"])?;
    }
    beside.end()
}

impl Beside<'_> {
    /// Waits until the plugin has taken the order that names this.
    fn logged_obeyed(&self, plugin: &PythonPlugin, word: &str) -> Result<(), Failure> {
        eventually(self.site.context().patiently(10), "the plugin does not obey", || {
            let last = plugin.log().into_iter().rev().find(|line| line["call"] == "Obeyed");
            Ok(last.filter(|line| line.to_string().contains(word)).map(drop))
        })
    }
}

fn dies(context: &Context) -> Result<(), Failure> {
    let mut beside = Beside::new(context)?;
    let liar = beside.one("liar");
    for call in ["Allocate", "ListAndWatch"] {
        let plugin = beside.site.liar(&liar, json!({ "die": [call] }))?;
        if call == "ListAndWatch" {
            beside.logged(&plugin, call)?;
        } else {
            beside.site.until_allocatable("liar", &["x0", "x1"])?;
        }
        beside.site.stage.put([wants("dies", &[("liar", 2)])])?;
        beside.site.stage.until("dies", "told why it does not start", 20, |pod| {
            let reason = pod.text("/status/reason");
            let known = ["UnexpectedAdmissionError", "DevicePluginNotReady", "OutOfnodewarden.test/liar"];
            pod.phase() == "Pending" && known.contains(&reason)
        })?;
        beside.nobody_else_is_held_up(&format!("dies in {call}"))?;
        drop(plugin);
        // Another comes in its place: nothing of the devices is lost.
        let better = beside.site.plugin(&liar)?;
        let up = beside.site.stage.up("dies")?;
        ensure_eq!(beside.site.told(&up, "c")?.len(), 2, "devices of the plugin that came after");
        beside.site.stage.remove("dies")?;
        beside.site.stage.gone(&["dies"])?;
        drop(better);
        beside.site.until_allocatable("liar", &[])?;
    }
    // A stream that ends without an end of the plugin, and one that registers anew while its pods run.
    let mut plugin = beside.site.liar(&liar, json!({}))?;
    beside.site.until_allocatable("liar", &["x0", "x1"])?;
    beside.site.stage.put([wants("stays", &[("liar", 1)])])?;
    let before = super::site::identity(&beside.site.stage.up("stays")?)?;
    let given = beside.site.given_to("stays", "liar")?;
    plugin.order(&json!({ "end": "streams" }))?;
    beside.site.until_allocatable("liar", &[])?;
    for _ in 0..5 {
        plugin.order(&json!({ "register": 1 }))?;
    }
    beside.site.until_allocatable("liar", &["x0", "x1"])?;
    ensure_eq!(beside.site.given_to("stays", "liar")?, given, "devices of the running pod");
    ensure_eq!(super::site::identity(&beside.site.stage.up("stays")?)?, before, "the running pod");
    beside.site.stage.put([wants("next", &[("liar", 2)])])?;
    beside.site.waits("next", "OutOfnodewarden.test/liar")?;
    beside.end()
}
