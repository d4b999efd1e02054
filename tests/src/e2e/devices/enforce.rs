//! Enforcement of device access in the kernel. The pod that must be refused is privileged: the runtime allows
//! it every device, so a refusal can only come from nodewarden's eBPF program.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{DeviceFixture, identity, limits, notes};
use super::twin::Twin;
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::support::eventually;
use crate::fixture::{DeviceNode, Plugin, PluginDevice};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_enforced", enforced).timeout(120).needs(NEEDS),
    Test::new("devices_audited", audited).timeout(120).needs(NEEDS),
    Test::new("devices_not_enforced", off).timeout(120).needs(NEEDS),
    Test::new("devices_cut_off_unhealthy", cut_off).timeout(120).needs(NEEDS),
];

/// A fixture in one mode of enforcement, with a plugin that allocates the twin device.
struct EnforcedFixture<'c> {
    devices: DeviceFixture<'c>,
    plugin: Plugin,
    twin: Twin,
    folder: PathBuf,
}

impl<'c> EnforcedFixture<'c> {
    fn new(context: &'c Context, mode: &str, more: &str) -> Result<Self, Failure> {
        let twin = Twin::make(&context.temp.join("nodes"))?;
        let section = format!("enforcement: {mode}\nprivilegedEnforcement: {mode}\n{more}");
        let fixture = DeviceFixture::new(context, &section)?;
        if mode != "Off" {
            require_program(&fixture)?;
        }
        let mut behaviour = fixture.behaviour("twin", &["w0"]);
        behaviour.response.devices.push(DeviceNode {
            container_path: "/dev/given".into(),
            host_path: twin.path.clone(),
            permissions: "rw".into(),
        });
        let plugin = fixture.start_plugin(&behaviour)?;
        let folder = context.temp.join("notes");
        Ok(Self { devices: fixture, plugin, twin, folder })
    }

    /// A pod that runs `before`, then opens `node` again and again and notes each result.
    fn opening_pod(&self, name: &str, before: &str, node: &str, more: Value) -> Result<Value, Failure> {
        let (volumes, mount) = notes(&self.folder)?;
        // Some twins cannot be read from; opening is enough. An emulated machine has no time for many tries.
        let pause = 0.02 * f64::from(self.devices.context().patience);
        let script = format!(
            "{before}; trap 'exit 0' TERM; while true; do ( : < {node} ) 2>/dev/null && echo opened >> /notes/{name} \
             || echo refused >> /notes/{name}; sleep {pause:.2}; done"
        );
        let container = shell("c", &script, merged(mount, more));
        Ok(pod(name, json!({ "volumes": volumes, "containers": [container] })))
    }

    /// A pod with the device, allocated by the plugin.
    fn owner(&self) -> Result<Value, Failure> {
        self.opening_pod("owner", ":", "/dev/given", limits(&[("twin", 1)]))
    }

    /// A privileged pod without a device, which creates a node for itself.
    fn intruder(&self) -> Result<Value, Failure> {
        let make =
            format!("mknod /made c {} {} && echo made >> /notes/intruder", self.twin.major, self.twin.minor);
        let privileged = json!({ "securityContext": { "privileged": true } });
        self.opening_pod("intruder", &make, "/made", merged(privileged, json!({})))
    }

    /// The results that a pod has noted.
    fn noted(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Waits until the last three tries had this result. Returns how long that took.
    fn wait_result(&self, name: &str, outcome: &str, limit: Duration) -> Result<Duration, Failure> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            let text = self.noted(name);
            let last: Vec<_> = text.lines().rev().take(3).collect();
            if last.len() == 3 && last.iter().all(|line| *line == outcome) {
                return Ok(begun.elapsed());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let text = self.noted(name);
        let last: Vec<_> = text.lines().rev().take(5).collect();
        Err(Failure::Unexpected(format!("{name} is not {outcome} within {limit:?}: the last are {last:?}")))
    }

    /// The sum of `nodewarden_device_denials_total` for a pod and the twin.
    fn denials(&self, name: &str) -> Result<f64, Failure> {
        let number = format!("{}:{}", self.twin.major, self.twin.minor);
        let samples = self.devices.samples("nodewarden_device_denials_total")?;
        let of_it = samples.iter().filter(|sample| {
            let has = |text: &str| sample.labels.values().any(|value| value.contains(text));
            has(name) && has(&number)
        });
        Ok(of_it.map(|sample| sample.value).sum())
    }

    /// Waits for the event of a try, with pod, process, device and verdict, in JSON and text, and for its
    /// count in the metric.
    fn expect_event(&self, name: &str, verdict: &str) -> Result<(), Failure> {
        let number = format!("{}:{}", self.twin.major, self.twin.minor);
        let shown = self.devices.wait_event(name, &["\"device\"", name, "\"sh\"", verdict])?;
        ensure!(shown.to_string().contains(&number), "{number} is not in {shown}");
        // The same in the text output.
        let command = ["events", "--since", "10m", "--type", "device", "--no-follow"];
        let output = self.devices.pods.command(&command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let found =
            text.lines().any(|line| line.contains(name) && line.contains(&number) && line.contains("sh"));
        ensure!(output.status.success() && found, "{verdict}: no line of {name} and {number} in\n{text}");
        eventually(self.devices.context().patiently(10), "the metric does not count the try", || {
            Ok((self.denials(name)? > 0.0).then_some(()))
        })
    }
}

/// Skips the test if the topic of the kernel program is off.
fn require_program(fixture: &DeviceFixture<'_>) -> Result<(), Failure> {
    let topics = fixture.pods.agent()?.client()?.status()?.topics;
    let names: Vec<_> = topics.iter().map(|topic| topic.topic.clone()).collect();
    match topics.into_iter().find(|topic| topic.topic == "device") {
        None => Err(Failure::Unexpected(format!("no topic of devices among {names:?}"))),
        Some(topic) if topic.state == "off" => {
            Err(Failure::Skip(format!("the kernel does not check devices: {}", topic.reason)))
        }
        Some(_) => Ok(()),
    }
}

/// In mode Enforce a pod opens exactly its own devices, from its first try on, also under the next agent;
/// denials are reported at a limited rate.
fn enforced(context: &Context) -> Result<(), Failure> {
    let mut enforced = EnforcedFixture::new(context, "Enforce", "")?;
    let (owner, intruder) = (enforced.owner()?, enforced.intruder()?);
    enforced.devices.pods.put([owner, intruder])?;
    enforced.devices.pods.wait_up("owner")?;
    enforced.devices.pods.wait_up("intruder")?;
    enforced.wait_result("owner", "opened", context.patiently(10))?;
    enforced.wait_result("intruder", "refused", context.patiently(10))?;
    let text = enforced.noted("intruder");
    ensure!(text.starts_with("made\n"), "mknod is never refused: {:?}", text.lines().next());
    ensure!(!text.contains("opened"), "the intruder could open the device");
    ensure!(!enforced.noted("owner").contains("refused"), "the owner was refused");
    enforced.expect_event("intruder", "denied")?;
    ensure_eq!(enforced.denials("owner")?, 0.0, "denials of the owner");
    ensure!(
        enforced.devices.events("owner")?.iter().all(|event| event["type"] != "device"),
        "an event of the owner"
    );

    // Every container may open the usual devices, and of many denials only some are reported.
    let usual = "for d in null zero full random urandom tty; do ( : < /dev/$d ) 2>/dev/null || test $d = tty || echo no $d; \
                 done; echo x > /dev/null; head -c 1 /dev/zero > /dev/null; echo checked; echo done";
    let usual = format!("{usual}; {}", crate::e2e::pods::manifest::STAY);
    enforced.devices.pods.put([crate::e2e::pods::manifest::one("usual", &usual, json!({}))])?;
    let pod = enforced.devices.pods.wait_up("usual")?;
    let found = enforced.devices.pods.log_until(&pod, "c", 0, "done\n")?;
    ensure_eq!(found, "checked\ndone\n", "what every container may open");
    std::thread::sleep(Duration::from_secs(2));
    let tries = enforced.noted("intruder").lines().count();
    let events =
        enforced.devices.events("intruder")?.iter().filter(|event| event["type"] == "device").count();
    ensure!(events < tries, "{events} events of {tries} tries");
    let counted = enforced.denials("intruder")?;
    ensure!(counted + 1.0 >= events as f64, "{counted} counted, {events} reported");

    // The next agent enforces the same for the same pods.
    enforced.devices.pods.kill_agent()?;
    enforced.devices.pods.start_agent()?;
    enforced.wait_result("intruder", "refused", context.patiently(5))?;
    enforced.wait_result("owner", "opened", context.patiently(5))?;
    enforced.devices.pods.finish()
}

/// In mode Audit a denied try succeeds and is reported.
fn audited(context: &Context) -> Result<(), Failure> {
    let mut enforced = EnforcedFixture::new(context, "Audit", "")?;
    let intruder = enforced.intruder()?;
    enforced.devices.pods.put([intruder])?;
    enforced.devices.pods.wait_up("intruder")?;
    enforced.wait_result("intruder", "opened", context.patiently(10))?;
    enforced.expect_event("intruder", "audited")?;
    ensure!(!enforced.noted("intruder").contains("refused"), "an audited pod was refused");
    enforced.devices.pods.finish()
}

/// In mode Off every try succeeds and nothing is reported.
fn off(context: &Context) -> Result<(), Failure> {
    let mut enforced = EnforcedFixture::new(context, "Off", "")?;
    let (owner, intruder) = (enforced.owner()?, enforced.intruder()?);
    enforced.devices.pods.put([owner, intruder])?;
    enforced.devices.pods.wait_up("intruder")?;
    enforced.wait_result("intruder", "opened", context.patiently(10))?;
    enforced.wait_result("owner", "opened", context.patiently(10))?;
    ensure_eq!(enforced.denials("intruder")?, 0.0, "denials");
    let events = enforced.devices.events("intruder")?;
    ensure!(events.iter().all(|event| event["type"] != "device"), "{events:?}");
    enforced.devices.pods.finish()
}

/// With cutUnhealthy a running pod cannot open a device while it is unhealthy, and can again afterwards.
fn cut_off(context: &Context) -> Result<(), Failure> {
    let mut enforced = EnforcedFixture::new(context, "Enforce", "cutUnhealthy: true")?;
    let owner = enforced.owner()?;
    enforced.devices.pods.put([owner])?;
    let before = enforced.devices.pods.wait_up("owner")?;
    enforced.wait_result("owner", "opened", context.patiently(10))?;
    for _ in 0..3 {
        enforced.plugin.set_devices(&[PluginDevice::unhealthy("w0")])?;
        let cut = enforced.wait_result("owner", "refused", context.patiently(1))?;
        enforced.plugin.set_devices(&[PluginDevice::healthy("w0")])?;
        let back = enforced.wait_result("owner", "opened", context.patiently(1))?;
        println!("cut off after {cut:?}, allowed again after {back:?} (three tries included)");
    }
    enforced.devices.wait_event("owner", &["DeviceUnhealthy", "w0"])?;
    let after = enforced.devices.pods.wait_up("owner")?;
    ensure_eq!(identity(&after)?, identity(&before)?, "the pod that was cut off");
    // A plugin that has ended does not make its devices unhealthy: it has a grace period.
    enforced.devices.pods.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twin_is_no_device_that_every_container_has() {
        let folder = tempfile::tempdir().unwrap();
        match Twin::make(folder.path()) {
            Ok(twin) => {
                assert!(twin.path.exists());
                assert!(
                    ![(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)]
                        .contains(&(twin.major, twin.minor))
                );
            }
            // Without root no node can be created.
            Err(failure) => assert!(matches!(failure, Failure::Skip(_)), "{failure}"),
        }
    }
}
