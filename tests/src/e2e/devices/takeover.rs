//! Checkpoints that the agent finds when it starts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use serde_json::json;

use super::NEEDS;
use super::checkpoint::{Entry, file, owners};
use super::fixture::{DeviceFixture, full_name, identity, limits, requesting, set};
use crate::e2e::pods::manifest::{STAY, one};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("devices_kubelet_checkpoint", taken_over).timeout(120).needs(NEEDS),
    Test::new("devices_damaged_checkpoint", damaged).timeout(120).needs(NEEDS),
];

const UID: &str = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";
const GONE: &str = "6ba7b811-9dad-41d1-80b4-00c04fd430c8";

/// The agent takes over a kubelet's checkpoint: pods keep their devices without a call of Allocate, and its
/// own file is one that a kubelet can read.
fn taken_over(context: &Context) -> Result<(), Failure> {
    let kubelet_dir = DeviceFixture::prepare(context)?;
    let response = |from: &str| ContainerAllocateResponse {
        envs: [("FROM".to_owned(), from.to_owned())].into(),
        ..Default::default()
    };
    let entry = |uid, ids, from| Entry {
        uid,
        container: "c",
        resource: full_name("thing"),
        ids,
        response: response(from),
    };
    let entries = [entry(UID, &["t1"], "a kubelet"), entry(GONE, &["t0"], "long ago")];
    let registered = BTreeMap::from([(full_name("thing"), vec!["t0", "t1", "t2"])]);
    let path = kubelet_dir.join("device-plugins/kubelet_internal_checkpoint");
    fs::write(&path, file(&entries, &registered)).map_err(Failure::file(&path))?;

    let script = format!("echo from=$FROM; echo done; {STAY}");
    let mut known = one("known", &script, limits(&[("thing", 1)]));
    known["metadata"]["uid"] = json!(UID);
    // The manifest exists before the agent starts, which frees devices of pods that do not exist.
    let manifests = context.temp.join("manifests");
    fs::create_dir_all(&manifests).map_err(Failure::file(&manifests))?;
    let manifest = manifests.join("known.json");
    fs::write(&manifest, known.to_string()).map_err(Failure::file(&manifest))?;
    let mut fixture = DeviceFixture::new(context, "")?;
    fixture.pods.put([known])?;
    let plugin = fixture.start_plugin(&fixture.behaviour("thing", &["t0", "t1", "t2"]))?;
    let pod = fixture.pods.wait_up("known")?;
    ensure_eq!(pod.uid(), UID, "uid");
    let printed = fixture.pods.printed_values(&pod, "c")?;
    ensure_eq!(
        printed.get("from").map(String::as_str),
        Some("a kubelet"),
        "FROM in the container's environment"
    );
    ensure_eq!(fixture.allocated_to("known", "thing")?, set(&["t1"]), "its device");
    ensure_eq!(plugin.calls("Allocate"), Vec::<serde_json::Value>::new(), "calls of Allocate");
    // The device of a pod that no longer exists is free.
    fixture.pods.put([requesting("new", &[("thing", 2)])])?;
    let new = fixture.pods.wait_up("new")?;
    ensure_eq!(fixture.printed_devices(&new, "c")?, set(&["t0", "t2"]), "devices of a new pod");
    let owners = owners(&fixture.checkpoint())?;
    let expected = BTreeMap::from([
        ((UID.to_owned(), "c".to_owned()), set(&["t1"])),
        ((new.uid().to_owned(), "c".to_owned()), set(&["t0", "t2"])),
    ]);
    ensure_eq!(owners, expected, "owners in the checkpoint");
    fixture.pods.remove("new")?;
    fixture.pods.wait_gone(&["new"])?;
    fixture.pods.finish()
}

/// The readable files of a directory, so no sockets, with their contents.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter_map(|path| Some((path.clone(), fs::read(&path).ok()?))).collect()
}

/// A damaged checkpoint is kept aside and reported, and the devices are read from the runtime instead.
fn damaged(context: &Context) -> Result<(), Failure> {
    let mut fixture = DeviceFixture::new(context, "")?;
    let ids = ["t0", "t1", "t2", "t3"];
    let _plugin = fixture.start_plugin(&fixture.behaviour("thing", &ids))?;
    fixture.pods.put([requesting("has", &[("thing", 2)])])?;
    let before = fixture.pods.wait_up("has")?;
    let given = fixture.allocated()?;
    let whole = fs::read_to_string(fixture.checkpoint()).map_err(Failure::file(fixture.checkpoint()))?;
    // Renamed devices with the old checksum, half a file, and the format of before 1.20 with a plain list of
    // devices.
    let renamed = whole.replace("\"t", "\"u");
    let half = whole[..whole.len() / 2].to_owned();
    let old = json!({ "Data": { "PodDeviceEntries": [{ "PodUID": before.uid(), "ContainerName": "c",
        "ResourceName": full_name("thing"), "DeviceIDs": ["t0"], "AllocResp": "" }], "RegisteredDevices": {} },
        "Checksum": 0 });
    for (round, text) in [renamed, half, old.to_string()].into_iter().enumerate() {
        fixture.pods.kill_agent()?;
        fs::write(fixture.checkpoint(), &text).map_err(Failure::file(fixture.checkpoint()))?;
        fixture.pods.start_agent()?;
        let kept = files(&fixture.dir()).into_iter().filter(|(path, _)| *path != fixture.checkpoint());
        let kept = kept.filter(|(_, bytes)| bytes == text.as_bytes()).count();
        ensure_eq!(kept, 1, "files with the damaged checkpoint of round {round}");
        fixture.wait_logged(&["checkpoint"])?;
        fixture.wait_allocatable("thing", &ids)?;
        ensure_eq!(fixture.allocated()?, given, "devices read from the runtime, round {round}");
        ensure_eq!(identity(&fixture.pods.wait_up("has")?)?, identity(&before)?, "the pod, round {round}");
        eventually(context.patiently(10), "no new checkpoint was written", || {
            Ok(owners(&fixture.checkpoint()).is_ok_and(|owners| owners.len() == 1).then_some(()))
        })?;
    }
    fixture.pods.put([requesting("more", &[("thing", 2)])])?;
    let more = fixture.pods.wait_up("more")?;
    let of_has = given.get("has").and_then(|pod| pod.get(&full_name("thing"))).cloned().unwrap_or_default();
    let of_more = fixture.printed_devices(&more, "c")?;
    ensure!(
        of_more.len() == 2 && of_more.is_disjoint(&of_has),
        "{of_more:?} allocated, though {of_has:?} are taken"
    );
    fixture.pods.finish()
}
