use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use serde_json::{Value, json};

use nodewarden_model::fnv::Fnv32a;

use super::text::{Decimal, Sink};
use super::*;

fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn sample() -> Checkpoint {
    Checkpoint {
        entries: vec![Arc::new(PodDevicesEntry {
            pod_uid: "u1".to_owned(),
            container_name: "c".to_owned(),
            resource_name: "a.b/gpu".to_owned(),
            device_ids: [(-1, set(&["x"])), (2, set(&["y", "z"])), (10, set(&["y"]))].into(),
            alloc_resp: Some(vec![0, 9, 10, 99, 100, 255]),
        })],
        registered: [("a.b/gpu".to_owned(), ["x".to_owned()].into())].into(),
    }
}

/// A file with these data and the matching checksum.
fn file(data: &Value) -> Vec<u8> {
    let with = |checksum: u64| json!({"Data": data, "Checksum": checksum}).to_string().into_bytes();
    let mut hash = Fnv32a::new();
    read::hashed(&with(0), &mut hash);
    with(hash.value().into())
}

#[test]
fn decimal_digits_of_extreme_numbers() {
    for number in [0, 7, -1, 10, i64::MAX, i64::MIN] {
        assert_eq!(Decimal::of(number).text(), number.to_string().as_bytes());
    }
}

#[test]
fn nodes_are_sorted_as_text_in_the_file_and_as_numbers_in_the_hash() {
    let text = String::from_utf8(sample().to_bytes()).unwrap();
    assert!(text.contains(r#""DeviceIDs":{"-1":["x"],"10":["y"],"2":["y","z"]}"#), "{text}");
    let mut hashed = Vec::new();
    struct To<'a>(&'a mut Vec<u8>);
    impl Sink for To<'_> {
        fn put(&mut self, text: &[u8]) {
            self.0.extend(text);
        }
    }
    write::put(&sample(), &mut To(&mut hashed));
    let hashed = String::from_utf8(hashed).unwrap();
    assert!(hashed.contains("map[-1:[x] 2:[y z] 10:[y]]"), "{hashed}");
    assert!(hashed.contains("AllocResp:([]uint8)[0 9 10 99 100 255]}"), "{hashed}");
}

#[test]
fn lists_of_a_kubelet_in_any_order_and_nil_or_empty_are_read() {
    let entry = |devices: Value, response: Value| {
        json!({"PodUID": "u", "ContainerName": "c", "ResourceName": "a.b/c", "DeviceIDs": devices,
               "AllocResp": response})
    };
    let entries = vec![
        entry(json!({"0": ["b", "a", "b"], "-1": []}), json!("")),
        entry(json!({"0": null}), Value::Null),
        entry(json!({}), json!("AQ==")),
        entry(Value::Null, Value::Null),
    ];
    let data = json!({"PodDeviceEntries": entries, "RegisteredDevices": {"a.b/c": [], "d.e/f": null, "g.h/i": ["z", "a"]}});
    let read = Checkpoint::parse(&file(&data)).unwrap();
    let devices: Vec<_> = read.entries.iter().map(|e| (e.device_ids.clone(), e.alloc_resp.clone())).collect();
    let expected = [
        (BTreeMap::from([(0, set(&["a", "b"])), (-1, set(&[]))]), Some(vec![])),
        (BTreeMap::from([(0, set(&[]))]), None),
        (BTreeMap::new(), Some(vec![1])),
        (BTreeMap::new(), None),
    ];
    assert_eq!(devices, expected);
    assert_eq!(*read.registered["g.h/i"], ["z", "a"]);
    assert_eq!(Checkpoint::parse(&read.to_bytes()).unwrap(), read);

    let nothing = json!({"PodDeviceEntries": [], "RegisteredDevices": null});
    assert_eq!(Checkpoint::parse(&file(&nothing)).unwrap(), Checkpoint::default());
}

#[test]
fn fields_that_newer_kubelets_add_outside_the_data_are_ignored() {
    let mut value: Value = serde_json::from_slice(&sample().to_bytes()).unwrap();
    value["BootID"] = json!("0f0e");
    assert_eq!(Checkpoint::parse(value.to_string().as_bytes()).unwrap(), sample());
}

#[test]
fn an_invalid_file_is_an_error_with_its_reason() {
    let good = sample().to_bytes();
    let error = |bytes: &[u8]| Checkpoint::parse(bytes).unwrap_err().to_string();
    let text = String::from_utf8(good.clone()).unwrap();

    let computed = text.replace("\"u1\"", "\"u2\"");
    assert!(error(computed.as_bytes()).starts_with("the checksum in it is "));
    assert!(error(&good[..good.len() / 2]).contains("EOF"));
    assert!(error(b"").contains("EOF"));
    assert!(error(&[0xff; 64]).contains("not a device checkpoint"));
    assert!(error(b"{}").contains("missing field `Data`"));
    let newer = text.replace("\"PodUID\"", "\"PodName\":\"n\",\"PodUID\"");
    assert!(error(newer.as_bytes()).contains("unknown field `PodName`"));
    let base64 = text.replace("\"AAkKY2T/\"", "\"?\"");
    assert_ne!(base64, text);
    assert!(error(base64.as_bytes()).contains("not a device checkpoint"));

    let old = json!({"PodDeviceEntries": [{"PodUID": "u", "ContainerName": "c", "ResourceName": "a.b/c",
        "DeviceIDs": ["d1", "d2"], "AllocResp": "AQ=="}], "RegisteredDevices": {}});
    let old = json!({"Data": old, "Checksum": 1}).to_string();
    assert_eq!(
        error(old.as_bytes()),
        "it was written by a kubelet before 1.20: the devices of a.b/c in container c of pod u have no NUMA nodes"
    );
}

#[test]
fn a_saved_checkpoint_is_loaded_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = CheckpointFile::new(dir.path());
    assert_eq!(file.load().unwrap(), None);
    // A file that a killed agent left, readable for all.
    let left = dir.path().join(".kubelet_internal_checkpoint.new");
    fs::write(&left, "half").unwrap();
    file.save(&Checkpoint::default()).unwrap();
    file.save(&sample()).unwrap();
    assert_eq!(file.load().unwrap(), Some(sample()));
    assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(file.path(), dir.path().join("kubelet_internal_checkpoint"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn damaged_files_are_renamed_and_none_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let file = CheckpointFile::new(dir.path());
    for (n, end) in ["damaged", "damaged.2", "damaged.3"].into_iter().enumerate() {
        fs::write(file.path(), format!("{n}")).unwrap();
        let Err(LoadError::Damaged(damaged)) = file.load() else { panic!("not damaged") };
        assert_eq!(damaged.kept_aside, file.path().with_extension(end));
        assert_eq!(fs::read_to_string(&damaged.kept_aside).unwrap(), format!("{n}"));
        assert!(damaged.to_string().contains("kept as"), "{damaged}");
        assert_eq!(file.load().unwrap(), None);
    }
}

#[test]
fn file_errors_name_the_call_and_the_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = CheckpointFile::new(dir.path().join("absent"));
    let error = file.save(&sample()).unwrap_err();
    assert_eq!(error.call, "create");
    assert!(error.to_string().contains("/absent/.kubelet_internal_checkpoint.new"), "{error}");

    let file = CheckpointFile::new(dir.path());
    fs::create_dir(file.path()).unwrap();
    let Err(LoadError::File(error)) = file.load() else { panic!("read a directory") };
    assert_eq!((error.call, error.path.as_path()), ("read", file.path()));
    // The previous file stays if it cannot be replaced.
    assert_eq!(file.save(&sample()).unwrap_err().call, "rename");
    assert!(file.path().is_dir());
}

fn ids() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set(any::<String>(), 0..4)
}

prop_compose! {
    fn entry()(
        pod_uid: String, container_name: String, resource_name: String,
        device_ids in prop::collection::btree_map(-1i64..12, ids(), 0..4),
        alloc_resp in prop::option::of(prop::collection::vec(any::<u8>(), 0..9)),
    ) -> Arc<PodDevicesEntry> {
        Arc::new(PodDevicesEntry { pod_uid, container_name, resource_name, device_ids, alloc_resp })
    }
}

proptest! {
    #[test]
    fn any_written_checkpoint_is_read_again(
        entries in prop::collection::vec(entry(), 0..4),
        registered in prop::collection::btree_map(any::<String>(), prop::collection::vec(any::<String>(), 0..3), 0..3),
    ) {
        let registered = registered.into_iter().map(|(name, ids)| (name, ids.into())).collect();
        let checkpoint = Checkpoint { entries, registered };
        let bytes = checkpoint.to_bytes();
        prop_assert_eq!(&Checkpoint::parse(&bytes).unwrap(), &checkpoint);
        // Go escapes these everywhere, so they never occur in the file.
        let text = String::from_utf8(bytes).unwrap();
        let escaped = ['<', '>', '&', '\u{2028}', '\u{2029}'];
        prop_assert!(!text.contains(escaped));
    }

    /// The incremental writer and a new one write the same, however the entries changed before.
    #[test]
    fn an_incremental_writer_writes_the_same_as_a_new_one(
        entries in prop::collection::vec(entry(), 1..5),
        rounds in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..6), 1..6),
    ) {
        let mut writer = write::Writer::default();
        for picks in rounds {
            let entries = picks.iter().map(|pick| pick.get(&entries).clone()).collect();
            let checkpoint = Checkpoint { entries, ..Checkpoint::default() };
            prop_assert_eq!(writer.bytes(&checkpoint), checkpoint.to_bytes());
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..400, byte: u8) {
        prop_assert!(Checkpoint::parse(&bytes).is_err());
        // One changed byte in a valid file is an error, or does not change the meaning.
        let mut one = sample().to_bytes();
        let at = at % one.len();
        one[at] = byte;
        if let Ok(read) = Checkpoint::parse(&one) {
            prop_assert_eq!(read, sample());
        }
    }
}
