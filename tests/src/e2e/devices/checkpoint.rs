//! The kubelet's checkpoint file, written and read independently of nodewarden's own code: JSON with a
//! checksum over the text that Go's spew prints of it (pkg/kubelet/checkpointmanager/checksum,
//! pkg/kubelet/cm/devicemanager/checkpoint).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use prost::Message;
use serde_json::{Value, json};

use crate::harness::Failure;

/// One `PodDevicesEntry`, with devices on no NUMA node.
pub struct Entry<'a> {
    pub uid: &'a str,
    pub container: &'a str,
    pub resource: String,
    pub ids: &'a [&'a str],
    pub response: ContainerAllocateResponse,
}

/// The text of the file as a kubelet writes it.
pub fn file(entries: &[Entry<'_>], registered: &BTreeMap<String, Vec<&str>>) -> String {
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| {
            let response = entry.response.encode_to_vec();
            json!({ "PodUID": entry.uid, "ContainerName": entry.container, "ResourceName": entry.resource,
                "DeviceIDs": { "-1": entry.ids }, "AllocResp": base64(&response) })
        })
        .collect();
    let data = json!({ "PodDeviceEntries": entries, "RegisteredDevices": registered });
    json!({ "Checksum": checksum(&data), "Data": data }).to_string()
}

/// Reads a file, checks its checksum, and returns the devices by owner: (pod uid, container).
///
/// # Errors
/// The file is damaged, or a device has two owners.
pub fn owners(path: &Path) -> Result<BTreeMap<(String, String), BTreeSet<String>>, Failure> {
    let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
    let wrong = |what: String| Failure::Unexpected(format!("{}: {what}: {text}", path.display()));
    let file: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let expected = checksum(&file["Data"]);
    if file["Checksum"].as_u64() != Some(expected.into()) {
        return Err(wrong(format!("its checksum should be {expected}")));
    }
    let mut owners: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    let mut seen = BTreeMap::new();
    for entry in file["Data"]["PodDeviceEntries"].as_array().into_iter().flatten() {
        let field = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let owner = (field("PodUID"), field("ContainerName"));
        let nodes = entry["DeviceIDs"].as_object().into_iter().flat_map(|nodes| nodes.values());
        let ids = nodes.flat_map(|ids| ids.as_array().into_iter().flatten()).filter_map(Value::as_str);
        for id in ids {
            // A container's devices may be on several NUMA nodes, and a pod's devices may be used again by
            // its next container.
            let other = seen.insert((field("ResourceName"), id.to_owned()), owner.0.clone());
            if let Some(other) = other.filter(|other| *other != owner.0) {
                return Err(wrong(format!("{id} is of {other} and of {}", owner.0)));
            }
            owners.entry(owner.clone()).or_default().insert(id.to_owned());
        }
    }
    Ok(owners)
}

/// FNV-1a of 32 bits over the text that spew prints of `checkpointData`, with sorted keys of maps.
fn checksum(data: &Value) -> u32 {
    printed(data).bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The text that spew prints of `checkpointData`.
fn printed(data: &Value) -> String {
    let entries = match data["PodDeviceEntries"].as_array() {
        None => "<nil>".to_owned(),
        Some(entries) => format!("[{}]", entries.iter().map(entry).collect::<Vec<_>>().join(" ")),
    };
    let registered = lists(&data["RegisteredDevices"], |name| name.to_owned());
    format!(
        "(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry){entries} \
         RegisteredDevices:(map[string][]string){registered}}}"
    )
}

/// The text that spew prints of one entry.
fn entry(entry: &Value) -> String {
    let field = |key: &str| entry[key].as_str().unwrap_or_default();
    let response = entry["AllocResp"].as_str().map_or_else(
        || "<nil>".to_owned(),
        |text| {
            let bytes: Vec<_> = unbase64(text).iter().map(u8::to_string).collect();
            format!("[{}]", bytes.join(" "))
        },
    );
    format!(
        "{{PodUID:(string){} ContainerName:(string){} ResourceName:(string){} \
         DeviceIDs:(checkpoint.DevicesPerNUMA){} AllocResp:([]uint8){response}}}",
        field("PodUID"),
        field("ContainerName"),
        field("ResourceName"),
        lists(&entry["DeviceIDs"], |node| node.parse::<i64>().unwrap_or_default()),
    )
}

/// The text that spew prints of a map of lists, `map[a:[x y] b:[z]]`, sorted by `key` of the names.
fn lists<K: Ord>(map: &Value, key: impl Fn(&str) -> K) -> String {
    let Some(map) = map.as_object() else { return "<nil>".to_owned() };
    let mut all: Vec<_> = map.iter().collect();
    all.sort_by_key(|(name, _)| key(name));
    let list = |list: &Value| match list.as_array() {
        None => "<nil>".to_owned(),
        Some(list) => {
            format!("[{}]", list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
    };
    let all: Vec<_> = all.into_iter().map(|(name, values)| format!("{name}:{}", list(values))).collect();
    format!("map[{}]", all.join(" "))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let field =
            chunk.iter().enumerate().fold(0u32, |field, (i, byte)| field | u32::from(*byte) << (16 - 8 * i));
        for digit in 0..4 {
            let value = (field >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= chunk.len() { char::from(DIGITS[value]) } else { '=' });
        }
    }
    text
}

fn unbase64(text: &str) -> Vec<u8> {
    let values = text.bytes().filter_map(|byte| DIGITS.iter().position(|digit| *digit == byte));
    let (mut bytes, mut field, mut bits) = (Vec::new(), 0usize, 0);
    for value in values {
        field = field << 6 | value;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((field >> bits & 255) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::golden;

    /// Compares with files recorded from a kubelet; does nothing where the recordings are missing.
    #[test]
    fn the_checksum_is_the_kubelets() {
        let Some(path) = golden("device_checkpoints.json") else {
            eprintln!("skipped: no golden values");
            return;
        };
        let samples: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert!(!samples.is_empty());
        for sample in samples {
            let data = &sample["File"]["Data"];
            assert_eq!(printed(data), sample["ForHash"].as_str().unwrap());
            assert_eq!(sample["File"]["Checksum"].as_u64(), Some(checksum(data).into()));
        }
    }

    #[test]
    fn a_written_file_is_read_back() {
        let response = ContainerAllocateResponse::default();
        let entry = |uid, ids| Entry {
            uid,
            container: "c",
            resource: "a.test/b".into(),
            ids,
            response: response.clone(),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let registered = BTreeMap::from([("a.test/b".to_owned(), vec!["1", "2"])]);
        std::fs::write(&path, file(&[entry("u", &["1"]), entry("v", &["2"])], &registered)).unwrap();
        let found = owners(&path).unwrap();
        assert_eq!(found[&("v".to_owned(), "c".to_owned())], BTreeSet::from(["2".to_owned()]));
        std::fs::write(&path, file(&[entry("u", &["1"]), entry("v", &["1"])], &registered)).unwrap();
        assert!(owners(&path).unwrap_err().to_string().contains("1 is of u and of v"));
        let text = std::fs::read_to_string(&path).unwrap().replace("\"u\"", "\"w\"");
        std::fs::write(&path, text).unwrap();
        assert!(owners(&path).unwrap_err().to_string().contains("checksum"));
        for bytes in [&b""[..], b"a", b"ab", b"abc", b"\xff\x00\x10\x80"] {
            assert_eq!(unbase64(&base64(bytes)), bytes);
        }
        assert_eq!(base64(b"ab"), "YWI=");
    }
}
