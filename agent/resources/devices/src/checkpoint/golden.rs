//! Golden tests with files that a real kubelet's functions wrote, each with the text that its checksum
//! covers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::Sink;
use super::{Checkpoint, read, write};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Sample {
    file: File,
    for_hash: String,
}

/// The fields in the order in which the kubelet writes them; maps are sorted by their keys as text, like
/// Go's.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct File {
    data: Data,
    checksum: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Data {
    pod_device_entries: Option<Vec<Entry>>,
    registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Entry {
    #[serde(rename = "PodUID")]
    pod: String,
    container_name: String,
    resource_name: String,
    #[serde(rename = "DeviceIDs")]
    devices: Option<BTreeMap<String, Option<Vec<String>>>>,
    alloc_resp: Option<String>,
}

struct Text(Vec<u8>);

impl Sink for Text {
    fn put(&mut self, text: &[u8]) {
        self.0.extend(text);
    }
}

#[test]
fn every_file_is_read_and_written_like_the_kubelet_does() {
    let Some(samples) = nodewarden_testing::golden::load("device_checkpoints.json") else { return };
    let samples: Vec<Sample> = serde_json::from_value(samples).unwrap();
    assert!(!samples.is_empty());
    for Sample { file, for_hash } in samples {
        let bytes = serde_json::to_vec(&file).unwrap();
        let checkpoint = Checkpoint::parse(&bytes).unwrap();

        let mut text = Text(Vec::new());
        read::hashed(&bytes, &mut text);
        assert_eq!(String::from_utf8(text.0).unwrap(), for_hash);
        let mut text = Text(Vec::new());
        write::put(&checkpoint, &mut text);
        assert_eq!(String::from_utf8(text.0).unwrap(), for_hash);
        let written = checkpoint.to_bytes();
        assert_eq!(String::from_utf8(written).unwrap(), String::from_utf8(bytes).unwrap());

        let data = file.data;
        assert_eq!(checkpoint.entries.len(), data.pod_device_entries.iter().flatten().count());
        for (ours, theirs) in checkpoint.entries.iter().zip(data.pod_device_entries.iter().flatten()) {
            assert_eq!(ours.pod_uid, theirs.pod);
            assert_eq!(ours.container_name, theirs.container_name);
            assert_eq!(ours.resource_name, theirs.resource_name);
            let theirs = theirs.devices.iter().flatten();
            let ours = ours.device_ids.iter();
            let ours: BTreeMap<_, Vec<_>> =
                ours.map(|(node, ids)| (node.to_string(), ids.iter().cloned().collect())).collect();
            let theirs: BTreeMap<_, _> =
                theirs.map(|(node, ids)| (node.clone(), ids.clone().unwrap_or_default())).collect();
            assert_eq!(ours, theirs);
        }
    }
}
