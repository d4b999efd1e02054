//! What a power loss leaves behind on the disk, made by hand: the network library's unsynced files are empty.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::NETWORK_NEEDS;
use super::fixture::PodFixture;
use super::manifest::{STAY, pod, shell};
use crate::ensure_eq;
use crate::fixture::CNI_RESULTS;
use crate::harness::{Context, Failure, Test};

pub const TESTS: &[Test] =
    &[Test::new("pod_ends_with_empty_network_results", empty_results).timeout(120).needs(NETWORK_NEEDS)];

/// A pod whose network results are empty ends nevertheless, and gives its address back.
fn empty_results(context: &Context) -> Result<(), Failure> {
    let mut fixture = PodFixture::new(context)?;
    fixture
        .put([pod("lost", json!({ "hostNetwork": null, "containers": [shell("c", STAY, json!({}))] }))])?;
    let lost = fixture.wait_up("lost")?;
    let address = lost.text("/status/podIP").to_owned();
    let uid = Some(lost.uid());
    let sandboxes = fixture.cri().list_sandboxes()?;
    let sandbox = sandboxes.iter().find(|s| s.labels.get("io.kubernetes.pod.uid").map(String::as_str) == uid);
    let Some(sandbox) = sandbox else {
        return Err(Failure::Unexpected(format!("no sandbox has the uid of the pod: {sandboxes:?}")));
    };
    let results = Path::new(CNI_RESULTS);
    let mut emptied = 0;
    for entry in fs::read_dir(results).map_err(Failure::file(results))? {
        let path = entry.map_err(Failure::file(results))?.path();
        if path.to_string_lossy().contains(&sandbox.id) {
            fs::write(&path, "").map_err(Failure::file(&path))?;
            emptied += 1;
        }
    }
    // That of the loopback interface and that of the pod network.
    ensure_eq!(emptied, 2, "results of the sandbox");
    fixture.remove("lost")?;
    fixture.wait_gone(&["lost"])?;
    ensure_eq!(fixture.cri().sandboxes()?.contains(&sandbox.id), false, "the sandbox is still there");
    let left = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    ensure_eq!(left.matches(&format!(" {address} ")).count(), 0, "{address} is still this machine's");
    fixture.finish()
}
