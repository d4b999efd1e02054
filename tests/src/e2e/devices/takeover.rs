//! Checkpoints that the agent finds: a kubelet's, and one that is damaged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use serde_json::json;

use super::NEEDS;
use super::checkpoint::{Entry, file, owners};
use super::site::{Site, full, identity, limits, set, wants};
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

fn taken_over(context: &Context) -> Result<(), Failure> {
    let home = Site::prepare(context)?;
    let response = |from: &str| ContainerAllocateResponse {
        envs: [("FROM".to_owned(), from.to_owned())].into(),
        ..Default::default()
    };
    let entry = |uid, ids, from| Entry {
        uid,
        container: "c",
        resource: full("thing"),
        ids,
        response: response(from),
    };
    let entries = [entry(UID, &["t1"], "a kubelet"), entry(GONE, &["t0"], "long ago")];
    let registered = BTreeMap::from([(full("thing"), vec!["t0", "t1", "t2"])]);
    let path = home.join("device-plugins/kubelet_internal_checkpoint");
    fs::write(&path, file(&entries, &registered)).map_err(Failure::file(&path))?;

    let script = format!("echo from=$FROM; echo done; {STAY}");
    let mut known = one("known", &script, limits(&[("thing", 1)]));
    known["metadata"]["uid"] = json!(UID);
    // It is there before the agent: of a pod that is not, devices are freed.
    let manifests = context.temp.join("manifests");
    fs::create_dir_all(&manifests).map_err(Failure::file(&manifests))?;
    let manifest = manifests.join("known.json");
    fs::write(&manifest, known.to_string()).map_err(Failure::file(&manifest))?;
    let mut site = Site::new(context, "")?;
    site.stage.put([known])?;
    let plugin = site.plugin(&site.behaviour("thing", &["t0", "t1", "t2"]))?;
    let pod = site.stage.up("known")?;
    ensure_eq!(pod.uid(), UID, "uid");
    let told = site.stage.told(&pod, "c")?;
    ensure_eq!(told.get("from").map(String::as_str), Some("a kubelet"), "what the container was told");
    ensure_eq!(site.given_to("known", "thing")?, set(&["t1"]), "its device");
    ensure_eq!(plugin.calls("Allocate"), Vec::<serde_json::Value>::new(), "calls of Allocate");
    // What belonged to a pod that is no more is free.
    site.stage.put([wants("new", &[("thing", 2)])])?;
    let new = site.stage.up("new")?;
    ensure_eq!(site.told(&new, "c")?, set(&["t0", "t2"]), "devices of a new pod");
    let owners = owners(&site.checkpoint())?;
    let expected = BTreeMap::from([
        ((UID.to_owned(), "c".to_owned()), set(&["t1"])),
        ((new.uid().to_owned(), "c".to_owned()), set(&["t0", "t2"])),
    ]);
    ensure_eq!(owners, expected, "the checkpoint, which a kubelet could take back");
    site.stage.remove("new")?;
    site.stage.gone(&["new"])?;
    site.stage.finish()
}

/// Files of a folder, sockets left out, with what is in them.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter_map(|path| Some((path.clone(), fs::read(&path).ok()?))).collect()
}

fn damaged(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let ids = ["t0", "t1", "t2", "t3"];
    let _plugin = site.plugin(&site.behaviour("thing", &ids))?;
    site.stage.put([wants("has", &[("thing", 2)])])?;
    let before = site.stage.up("has")?;
    let given = site.given()?;
    let whole = fs::read_to_string(site.checkpoint()).map_err(Failure::file(site.checkpoint()))?;
    // A device of another name, half a file, and the format of before 1.20, in which devices were a plain list.
    let renamed = whole.replace("\"t", "\"u");
    let half = whole[..whole.len() / 2].to_owned();
    let old = json!({ "Data": { "PodDeviceEntries": [{ "PodUID": before.uid(), "ContainerName": "c",
        "ResourceName": full("thing"), "DeviceIDs": ["t0"], "AllocResp": "" }], "RegisteredDevices": {} },
        "Checksum": 0 });
    for (round, text) in [renamed, half, old.to_string()].into_iter().enumerate() {
        site.stage.kill_agent()?;
        fs::write(site.checkpoint(), &text).map_err(Failure::file(site.checkpoint()))?;
        site.stage.start_agent()?;
        let kept = files(&site.dir()).into_iter().filter(|(path, _)| *path != site.checkpoint());
        let kept = kept.filter(|(_, bytes)| bytes == text.as_bytes()).count();
        ensure_eq!(kept, 1, "files with the damaged checkpoint of round {round}");
        site.until_said(&["checkpoint"])?;
        site.until_allocatable("thing", &ids)?;
        ensure_eq!(site.given()?, given, "devices by the runtime's word, round {round}");
        ensure_eq!(identity(&site.stage.up("has")?)?, identity(&before)?, "the pod, round {round}");
        eventually(context.patiently(10), "there is no checkpoint again", || {
            Ok(owners(&site.checkpoint()).is_ok_and(|owners| owners.len() == 1).then_some(()))
        })?;
    }
    site.stage.put([wants("more", &[("thing", 2)])])?;
    let more = site.stage.up("more")?;
    let of_has = given.get("has").and_then(|pod| pod.get(&full("thing"))).cloned().unwrap_or_default();
    let of_more = site.told(&more, "c")?;
    ensure!(of_more.len() == 2 && of_more.is_disjoint(&of_has), "{of_more:?} beside {of_has:?}");
    site.stage.finish()
}
