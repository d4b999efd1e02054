//! Compares state files and the check of `reservedMemory` with a kubelet 1.36.

use std::collections::BTreeSet;

use nodewarden_manifest::{Quantity, ResourceList};
use nodewarden_model::fnv::fnv32a;
use nodewarden_testing::golden::are_our_own;
use nodewarden_topology::fixture::{list, load, number, text, texts};
use serde_json::{Value, json};

use super::{FILE, blocks, pod_level, reserved_bytes};
use crate::StateFile;
use crate::settings::reserved;

/// Every recorded file is read and written byte for byte, and its checksum is that of the recorded text.
#[test]
fn recorded_state_files_are_written_byte_for_byte() {
    let Some(recorded) = load(FILE) else { return };
    let mut files = 0;
    for sequence in list(&recorded["sequences"]) {
        for step in list(&sequence["steps"]).iter().filter(|step| step["state_file"].is_string()) {
            let file = StateFile::read(text(&step["state_file"])).unwrap();
            assert_eq!(file.write(pod_level(sequence)), text(&step["state_file"]));
            assert_eq!(file.checksum(pod_level(sequence)), fnv32a(text(&step["state_file_checksum_input"])));
            assert_eq!(file.blocks, blocks(step));
            files += 1;
        }
    }
    println!("state files: {files} equal");
    assert!(!are_our_own() || files == 51, "{files}");
}

/// `reservedMemory` is accepted and refused as by the kubelet.
#[test]
fn reserved_memory_is_checked_as_by_the_kubelet() {
    let Some(recorded) = load(FILE) else { return };
    let amounts = |value: &Value| -> ResourceList {
        let amount = |(name, text): (String, String)| (name, Quantity::parse(&text).expect("a quantity"));
        texts(value).into_iter().map(amount).collect()
    };
    let mut equal = 0;
    for case in list(&recorded["reserved_cases"]) {
        let nodes: BTreeSet<u32> = (0..number(&case["numa_nodes"]) as u32).collect();
        let by_node: Vec<_> = list(&case["reserved_memory"])
            .iter()
            .map(|one| (number(&one["numa"]) as u32, amounts(&one["limits"])))
            .collect();
        match reserved(&nodes, &amounts(&case["node_allocatable_reservation"]), &by_node) {
            Ok(bytes) => assert_eq!(bytes, reserved_bytes(&case["reserved_bytes"]), "{case}"),
            Err(error) => {
                assert!(list(&case["error_one_of"]).contains(&json!(error.to_string())), "{error} {case}");
            }
        }
        equal += 1;
    }
    println!("reserved memory: {equal} equal");
    assert!(!are_our_own() || equal == list(&recorded["reserved_cases"]).len() && equal == 24, "{equal}");
}
