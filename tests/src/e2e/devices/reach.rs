//! What a plugin answers takes effect in the container.

use std::fs;

use serde_json::json;

use super::NEEDS;
use super::fixture::{DeviceFixture, limits, set};
use super::twin::Twin;
use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::manifest::{STAY, merged, one};
use crate::fixture::{CdiDevice, DeviceNode, Mount};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_reach_the_container", reach).timeout(120).needs(NEEDS),
    Test::new("devices_cdi", cdi).timeout(120).needs(NEEDS),
];

/// Environment, mounts, device nodes and annotations of a plugin's answer are in the container; the pod's own
/// environment wins.
fn reach(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let twin = Twin::make(&context.temp.join("nodes"))?;
    let mounted = context.temp.join("lent");
    fs::create_dir(&mounted).map_err(Failure::file(&mounted))?;
    fs::write(mounted.join("file"), "from the machine\n").map_err(Failure::file(&mounted))?;
    let mut behaviour = fixture.behaviour("thing", &["t0", "t1", "t2"]);
    behaviour.response.envs.insert("PLAIN".into(), "from the plugin".into());
    behaviour.response.annotations.insert("thing.test/ids".into(), "{ids}".into());
    behaviour.response.mounts.push(Mount {
        container_path: "/lent".into(),
        host_path: mounted,
        read_only: true,
    });
    behaviour.per_device.push(DeviceNode {
        container_path: "/dev/thing-{id}".into(),
        host_path: twin.path.clone(),
        permissions: "rw".into(),
    });
    let plugin = fixture.start_plugin(&behaviour)?;

    let script = format!(
        "echo devices=$DEVICES; echo plain=$PLAIN; echo own=$OWN; echo lent=`cat /lent/file`; \
         (echo x > /lent/other) 2>/dev/null && echo wrote=yes; \
         for node in /dev/thing-*; do ( : < $node ) && echo open=$node; done; \
         echo nodes=`ls /dev | grep thing-`; echo done; {STAY}"
    );
    let env = json!({ "env": [{ "name": "OWN", "value": "$(PLAIN)" }, { "name": "PLAIN", "value": "own" }] });
    fixture.pods.put([one("one", &script, merged(limits(&[("thing", 1)]), env))])?;
    let pod = fixture.pods.wait_up("one")?;
    let printed = fixture.pods.printed_values(&pod, "c")?;
    let ids = fixture.printed_devices(&pod, "c")?;
    ensure_eq!(ids.len(), 1, "devices in the container's environment");
    let id = ids.first().cloned().unwrap_or_default();
    for (key, value) in [
        ("open", format!("/dev/thing-{id}")),
        ("nodes", format!("thing-{id}")),
        ("lent", "from the machine".to_owned()),
        // As in the kubelet, the pod's own environment comes after the plugin's and overrides it.
        ("plain", "own".to_owned()),
    ] {
        ensure_eq!(printed.get(key), Some(&value), "{key} in the container");
    }
    ensure!(!printed.contains_key("wrote"), "a read-only mount was written to");
    ensure_eq!(fixture.allocated_to("one", "thing")?, ids, "PodResources");
    let asked = plugin.calls("Allocate");
    ensure_eq!(asked.len(), 1, "calls of Allocate");
    ensure_eq!((&asked[0]["ids"], &asked[0]["containers"]), (&json!(ids), &json!(1)), "the call");

    let containers = fixture.pods.cri().list_containers()?;
    let container = containers.iter().find(|c| c.id == pod.container("c").map_or("", |c| c.id()));
    let annotations = container.map(|c| c.annotations.clone()).unwrap_or_default();
    ensure_eq!(annotations.get("thing.test/ids"), Some(&id), "the plugin's annotation");
    let ours = annotations.get("nodewarden.io/devices").cloned().unwrap_or_default();
    let ours: serde_json::Value = serde_json::from_str(&ours)
        .map_err(|error| Failure::Unexpected(format!("nodewarden.io/devices: {error}: {ours:?}")))?;
    ensure_eq!(ours, json!({ "nodewarden.test/thing": { "-1": [id] } }), "nodewarden's annotation");
    fixture.wait_event("one", &["DevicesAllocated", "nodewarden.test/thing"])?;

    // Two containers of a pod have separate devices.
    let script = format!("echo devices=$DEVICES; echo done; {STAY}");
    let c = crate::e2e::pods::manifest::shell("c", &script, limits(&[("thing", 1)]));
    let mut d = c.clone();
    d["name"] = json!("d");
    fixture.pods.put([crate::e2e::pods::manifest::pod("two", json!({ "containers": [c, d] }))])?;
    let two = fixture.pods.wait_up("two")?;
    let all: std::collections::BTreeSet<_> =
        [fixture.printed_devices(&two, "c")?, fixture.printed_devices(&two, "d")?, ids]
            .into_iter()
            .flatten()
            .collect();
    ensure_eq!(all, set(&["t0", "t1", "t2"]), "devices of three containers");
    fixture.pods.finish()
}

/// Major and minor version of `containerd 1.7.3` or `containerd v2.0.0`.
fn version(text: &str) -> Option<(u32, u32)> {
    let number = text.strip_prefix("containerd ")?.trim_start_matches('v');
    let mut parts = number.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// The runtime's name and version, by the agent's status.
fn runtime(fixture: &PodFixture<'_>) -> Result<String, Failure> {
    Ok(fixture.agent()?.client()?.status()?.runtime)
}

/// A CDI device of a plugin's answer is added by the runtime, and the container may open its node under
/// enforcement.
fn cdi(context: &Context) -> Result<(), Failure> {
    // With enforcement: the plugin's answer does not name device nodes that the runtime adds by CDI, so the
    // agent must read them from the runtime.
    let mut fixture = DeviceFixture::new(context, "enforcement: Enforce")?;
    let runtime = runtime(&fixture.pods)?;
    if version(&runtime) < Some((1, 7)) {
        return Err(Failure::Skip(format!("{runtime}: CDI devices come with containerd 1.7")));
    }
    let folder = fixture.pods.cdi_folder();
    let twin = Twin::make(&context.temp.join("nodes"))?;
    let node = json!({ "path": "/dev/made", "hostPath": twin.path, "type": "c",
        "major": twin.major, "minor": twin.minor, "permissions": "rw" });
    let edits = json!({ "env": ["MADE=by CDI"], "deviceNodes": [node] });
    let spec = json!({ "cdiVersion": "0.5.0", "kind": "nodewarden.test/made",
        "devices": [{ "name": "m0", "containerEdits": edits }] });
    fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
    let path = folder.join("nodewarden.json");
    fs::write(&path, spec.to_string()).map_err(Failure::file(&path))?;
    let mut behaviour = fixture.behaviour("made", &["m0"]);
    behaviour.response.cdi_devices.push(CdiDevice { name: "nodewarden.test/made=m0".into() });
    let _plugin = fixture.start_plugin(&behaviour)?;
    let script = format!("echo made=$MADE; ( : < /dev/made ) && echo open=yes; echo done; {STAY}");
    fixture.pods.put([one("cdi", &script, limits(&[("made", 1)]))])?;
    let pod = fixture.pods.wait_up("cdi")?;
    let printed = fixture.pods.printed_values(&pod, "c")?;
    ensure_eq!(printed.get("made").map(String::as_str), Some("by CDI"), "environment that CDI adds");
    ensure_eq!(printed.get("open").map(String::as_str), Some("yes"), "a device node that CDI adds");
    fixture.pods.finish()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_of_containerd() {
        assert_eq!(version("containerd 1.6.20~ds1"), Some((1, 6)));
        assert_eq!(version("containerd v2.1.0"), Some((2, 1)));
        assert!(version("cri-o 1.30") < Some((1, 7)));
    }
}
