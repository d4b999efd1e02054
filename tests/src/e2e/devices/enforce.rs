//! The kernel holds pods to the devices that they were given. Who is refused is privileged: the runtime lets it open
//! everything, so it is our program and nothing else that says no.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::NEEDS;
use super::site::{Site, identity, limits, notes, with};
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
    Test::new("devices_cut_off", cut_off).timeout(120).needs(NEEDS),
];

/// A site of one mode, with a plugin that gives the twin.
struct Guarded<'c> {
    site: Site<'c>,
    plugin: Plugin,
    twin: Twin,
    folder: PathBuf,
}

impl<'c> Guarded<'c> {
    fn new(context: &'c Context, mode: &str, more: &str) -> Result<Self, Failure> {
        let twin = Twin::make(&context.temp.join("nodes"))?;
        let section = format!("enforcement: {mode}\nprivilegedEnforcement: {mode}\n{more}");
        let site = Site::new(context, &section)?;
        if mode != "Off" {
            program_is_there(&site)?;
        }
        let mut behaviour = site.behaviour("twin", &["w0"]);
        behaviour.response.devices.push(DeviceNode {
            container_path: "/dev/given".into(),
            host_path: twin.path.clone(),
            permissions: "rw".into(),
        });
        let plugin = site.plugin(&behaviour)?;
        let folder = context.temp.join("notes");
        Ok(Self { site, plugin, twin, folder })
    }

    /// Opens a node again and again and notes what comes of it: `node`, after `before`.
    fn opener(&self, name: &str, before: &str, node: &str, more: Value) -> Result<Value, Failure> {
        let (volumes, mount) = notes(&self.folder)?;
        // Not every kernel's twin can be read from: opening is enough.
        let script = format!(
            "{before}; trap 'exit 0' TERM; while true; do ( : < {node} ) 2>/dev/null && echo opened >> /notes/{name} \
             || echo refused >> /notes/{name}; sleep 0.02; done"
        );
        let container = shell("c", &script, with(mount, more));
        Ok(pod(name, json!({ "volumes": volumes, "containers": [container] })))
    }

    /// Was given the device by its plugin.
    fn owner(&self) -> Result<Value, Failure> {
        self.opener("owner", ":", "/dev/given", limits(&[("twin", 1)]))
    }

    /// Was given nothing, and makes a node for itself.
    fn intruder(&self) -> Result<Value, Failure> {
        let make =
            format!("mknod /made c {} {} && echo made >> /notes/intruder", self.twin.major, self.twin.minor);
        let privileged = json!({ "securityContext": { "privileged": true } });
        self.opener("intruder", &make, "/made", merged(privileged, json!({})))
    }

    fn noted(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Waits until the last three tries came to this: how long that took.
    fn until(&self, name: &str, outcome: &str, limit: Duration) -> Result<Duration, Failure> {
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

    /// The sum of `nodewarden_device_denials_total` of a pod and the twin.
    fn denials(&self, name: &str) -> Result<f64, Failure> {
        let number = format!("{}:{}", self.twin.major, self.twin.minor);
        let samples = self.site.samples("nodewarden_device_denials_total")?;
        let of_it = samples.iter().filter(|sample| {
            let has = |text: &str| sample.labels.values().any(|value| value.contains(text));
            has(name) && has(&number)
        });
        Ok(of_it.map(|sample| sample.value).sum())
    }

    /// The event of what was tried: pod, process, device, and what became of it.
    fn told(&self, name: &str, verdict: &str) -> Result<(), Failure> {
        let number = format!("{}:{}", self.twin.major, self.twin.minor);
        let shown = self.site.until_event(name, &["\"device\"", name, "\"sh\"", verdict])?;
        ensure!(shown.to_string().contains(&number), "{number} is not in {shown}");
        // The same for people.
        let command = ["events", "--since", "10m", "--type", "device", "--no-follow"];
        let output = self.site.stage.command(&command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let said =
            text.lines().any(|line| line.contains(name) && line.contains(&number) && line.contains("sh"));
        ensure!(output.status.success() && said, "{verdict}: no line of {name} and {number} in\n{text}");
        eventually(self.site.context().patiently(10), "the metric does not count it", || {
            Ok((self.denials(name)? > 0.0).then_some(()))
        })
    }
}

/// The topic of the kernel program; without it nothing can be shown here.
fn program_is_there(site: &Site<'_>) -> Result<(), Failure> {
    let topics = site.stage.agent()?.client()?.status()?.topics;
    let names: Vec<_> = topics.iter().map(|topic| topic.topic.clone()).collect();
    match topics.into_iter().find(|topic| topic.topic == "device") {
        None => Err(Failure::Unexpected(format!("no topic of devices among {names:?}"))),
        Some(topic) if topic.state == "off" => {
            Err(Failure::Skip(format!("devices are not checked by the kernel: {}", topic.reason)))
        }
        Some(_) => Ok(()),
    }
}

/// Nobody is let in before its policy stands: of the first try on it is as it should be.
fn enforced(context: &Context) -> Result<(), Failure> {
    let mut guarded = Guarded::new(context, "Enforce", "")?;
    let (owner, intruder) = (guarded.owner()?, guarded.intruder()?);
    guarded.site.stage.put([owner, intruder])?;
    guarded.site.stage.up("owner")?;
    guarded.site.stage.up("intruder")?;
    guarded.until("owner", "opened", context.patiently(10))?;
    guarded.until("intruder", "refused", context.patiently(10))?;
    let text = guarded.noted("intruder");
    ensure!(text.starts_with("made\n"), "mknod is never refused: {:?}", text.lines().next());
    ensure!(!text.contains("opened"), "the intruder was let in");
    ensure!(!guarded.noted("owner").contains("refused"), "the owner was refused");
    guarded.told("intruder", "denied")?;
    ensure_eq!(guarded.denials("owner")?, 0.0, "denials of the owner");
    ensure!(
        guarded.site.events("owner")?.iter().all(|event| event["type"] != "device"),
        "an event of the owner"
    );

    // The usual ones are there for everybody, and a storm of refusals is told of now and then.
    let usual = "for d in null zero full random urandom tty; do ( : < /dev/$d ) 2>/dev/null || test $d = tty || echo no $d; \
                 done; echo x > /dev/null; head -c 1 /dev/zero > /dev/null; echo checked; echo done";
    let usual = format!("{usual}; {}", crate::e2e::pods::manifest::STAY);
    guarded.site.stage.put([crate::e2e::pods::manifest::one("usual", &usual, json!({}))])?;
    let pod = guarded.site.stage.up("usual")?;
    let said = guarded.site.stage.log_until(&pod, "c", 0, "done\n")?;
    ensure_eq!(said, "checked\ndone\n", "what every container may open");
    std::thread::sleep(Duration::from_secs(2));
    let tries = guarded.noted("intruder").lines().count();
    let events = guarded.site.events("intruder")?.iter().filter(|event| event["type"] == "device").count();
    ensure!(events < tries, "{events} events of {tries} tries");
    let counted = guarded.denials("intruder")?;
    ensure!(counted + 1.0 >= events as f64, "{counted} counted, {events} told");

    // Another agent guards the same pods anew.
    guarded.site.stage.kill_agent()?;
    guarded.site.stage.start_agent()?;
    guarded.until("intruder", "refused", context.patiently(5))?;
    guarded.until("owner", "opened", context.patiently(5))?;
    guarded.site.stage.finish()
}

fn audited(context: &Context) -> Result<(), Failure> {
    let mut guarded = Guarded::new(context, "Audit", "")?;
    let intruder = guarded.intruder()?;
    guarded.site.stage.put([intruder])?;
    guarded.site.stage.up("intruder")?;
    guarded.until("intruder", "opened", context.patiently(10))?;
    guarded.told("intruder", "audited")?;
    ensure!(!guarded.noted("intruder").contains("refused"), "an audited pod was refused");
    guarded.site.stage.finish()
}

fn off(context: &Context) -> Result<(), Failure> {
    let mut guarded = Guarded::new(context, "Off", "")?;
    let (owner, intruder) = (guarded.owner()?, guarded.intruder()?);
    guarded.site.stage.put([owner, intruder])?;
    guarded.site.stage.up("intruder")?;
    guarded.until("intruder", "opened", context.patiently(10))?;
    guarded.until("owner", "opened", context.patiently(10))?;
    ensure_eq!(guarded.denials("intruder")?, 0.0, "denials");
    let events = guarded.site.events("intruder")?;
    ensure!(events.iter().all(|event| event["type"] != "device"), "{events:?}");
    guarded.site.stage.finish()
}

fn cut_off(context: &Context) -> Result<(), Failure> {
    let mut guarded = Guarded::new(context, "Enforce", "cutUnhealthy: true")?;
    let owner = guarded.owner()?;
    guarded.site.stage.put([owner])?;
    let before = guarded.site.stage.up("owner")?;
    guarded.until("owner", "opened", context.patiently(10))?;
    for _ in 0..3 {
        guarded.plugin.set_devices(&[PluginDevice::unhealthy("w0")])?;
        let cut = guarded.until("owner", "refused", context.patiently(1))?;
        guarded.plugin.set_devices(&[PluginDevice::healthy("w0")])?;
        let back = guarded.until("owner", "opened", context.patiently(1))?;
        println!("cut off after {cut:?}, given back after {back:?} (three tries included)");
    }
    guarded.site.until_event("owner", &["DeviceUnhealthy", "w0"])?;
    let after = guarded.site.stage.up("owner")?;
    ensure_eq!(identity(&after)?, identity(&before)?, "the pod that was cut off");
    // A plugin that is gone is no unhealthy device: its grace stands between.
    guarded.site.stage.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twin_is_none_that_every_container_has() {
        let folder = tempfile::tempdir().unwrap();
        match Twin::make(folder.path()) {
            Ok(twin) => {
                assert!(twin.path.exists());
                assert!(
                    ![(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)]
                        .contains(&(twin.major, twin.minor))
                );
            }
            // Not everybody may make nodes.
            Err(failure) => assert!(matches!(failure, Failure::Skip(_)), "{failure}"),
        }
    }
}
