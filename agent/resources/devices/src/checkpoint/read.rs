//! Reads the kubelet's file: decodes it as it was written, verifies the checksum, then converts it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use nodewarden_model::fnv::Fnv32a;

use super::text::{self, Entry, Sink};
use super::{Checkpoint, CheckpointError, PodDevicesEntry};

/// `checkpoint.Data`.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "Data")]
    data: Data,
    #[serde(rename = "Checksum")]
    checksum: u64,
}

/// `checkpoint.checkpointData`; `None` is Go's nil. Unknown fields are refused, because they would be part of
/// the hash.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct Data {
    pod_device_entries: Option<Vec<RawEntry>>,
    registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
struct RawEntry {
    #[serde(rename = "PodUID", default)]
    pod: String,
    #[serde(default)]
    container_name: String,
    #[serde(default)]
    resource_name: String,
    #[serde(rename = "DeviceIDs", default)]
    devices: Devices,
    alloc_resp: Option<ByteString>,
}

#[derive(Default)]
enum Devices {
    #[default]
    Nil,
    ByNuma(BTreeMap<i64, Option<Vec<String>>>),
    /// A plain list: written by kubelets before 1.20.
    Plain,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Checkpoint, CheckpointError> {
    let file: File = serde_json::from_slice(bytes)?;
    for entry in file.data.pod_device_entries.iter().flatten() {
        if matches!(entry.devices, Devices::Plain) {
            return Err(CheckpointError::BeforeNuma {
                pod: entry.pod.clone(),
                container: entry.container_name.clone(),
                resource: entry.resource_name.clone(),
            });
        }
    }
    let mut hash = Fnv32a::new();
    put(&file.data, &mut hash);
    if u64::from(hash.value()) != file.checksum {
        return Err(CheckpointError::Checksum { written: file.checksum, computed: hash.value() });
    }
    Ok(checkpoint(file.data))
}

/// As [`parse`], without a look at the checksum.
#[cfg(feature = "fuzzing")]
pub(super) fn unverified(bytes: &[u8]) -> Option<Checkpoint> {
    let file: File = serde_json::from_slice(bytes).ok()?;
    let mut entries = file.data.pod_device_entries.iter().flatten();
    let plain = entries.any(|entry| matches!(entry.devices, Devices::Plain));
    (!plain).then(|| checkpoint(file.data))
}

/// Writes the text that a file's checksum covers.
#[cfg(test)]
pub(super) fn hashed(bytes: &[u8], sink: &mut impl Sink) {
    put(&serde_json::from_slice::<File>(bytes).unwrap().data, sink);
}

fn put(data: &Data, sink: &mut impl Sink) {
    let entries = data.pod_device_entries.as_ref().map(|entries| {
        entries.iter().map(|entry| Entry {
            pod: &entry.pod,
            container: &entry.container_name,
            resource: &entry.resource_name,
            devices: match &entry.devices {
                Devices::ByNuma(nodes) => Some(nodes.iter().map(|(node, ids)| (*node, strings(ids)))),
                Devices::Nil | Devices::Plain => None,
            },
            response: entry.alloc_resp.as_ref().map(|bytes| bytes.0.as_slice()),
        })
    });
    let registered = data.registered_devices.as_ref();
    let registered = registered.map(|all| all.iter().map(|(name, ids)| (name.as_str(), strings(ids))));
    text::put(sink, entries, registered);
}

fn strings(ids: &Option<Vec<String>>) -> Option<impl Iterator<Item = &str>> {
    ids.as_ref().map(|ids| ids.iter().map(String::as_str))
}

fn checkpoint(data: Data) -> Checkpoint {
    let entries = data.pod_device_entries.into_iter().flatten();
    let entries = entries.map(|entry| PodDevicesEntry {
        pod_uid: entry.pod,
        container_name: entry.container_name,
        resource_name: entry.resource_name,
        device_ids: match entry.devices {
            Devices::ByNuma(nodes) => {
                let set = |ids: Option<Vec<String>>| ids.into_iter().flatten().collect::<BTreeSet<_>>();
                nodes.into_iter().map(|(node, ids)| (node, set(ids))).collect()
            }
            Devices::Nil | Devices::Plain => BTreeMap::new(),
        },
        alloc_resp: entry.alloc_resp.map(|bytes| bytes.0),
    });
    let registered = data.registered_devices.into_iter().flatten();
    Checkpoint {
        entries: entries.map(Arc::new).collect(),
        registered: registered.map(|(name, ids)| (name, ids.unwrap_or_default().into())).collect(),
    }
}

impl<'de> Deserialize<'de> for Devices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Devices;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("device ids by NUMA node")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Devices, E> {
                Ok(Devices::Nil)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Devices, A::Error> {
                let mut nodes = BTreeMap::new();
                while let Some((node, ids)) = map.next_entry()? {
                    nodes.insert(node, ids);
                }
                Ok(Devices::ByNuma(nodes))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Devices, A::Error> {
                while list.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Devices::Plain)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
