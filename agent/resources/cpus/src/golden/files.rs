//! Compares what comes of state files with what a kubelet 1.36 made of them (`restore_cases`).

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_model::fnv::fnv32a;
use nodewarden_testing::golden::are_our_own;
use nodewarden_topology::fixture::{list, load, text, texts, topology};

use super::{FILE, assignments, pod_level};
use crate::{CpuManager, Finding, Options, Settings, StateFile};

/// Files that a kubelet reads are read with the same result; damaged ones are errors. Unlike the kubelet,
/// ours also reads the third format without the feature gate, and starts with another policy, other CPUs, and
/// CPUs that two pods have.
#[test]
fn state_files_are_read_as_by_the_kubelet() {
    let Some(recorded) = load(FILE) else { return };
    let (mut equal, mut damaged, mut adapted) = (0, 0, Vec::new());
    for case in list(&recorded["restore_cases"]) {
        let topology = topology(&recorded["topologies"][text(&case["topology"])]);
        let reserved = CpuSet::parse(text(&case["reserved_cpus"])).unwrap();
        let settings =
            Settings::fixed(&topology, Options::default(), reserved.len(), &reserved, false).unwrap();
        let settings = Settings { pod_level: pod_level(case), ..settings };
        let ids = texts(&case["known_container_ids"]);
        let container_of = |id: &str| {
            let (pod, container) = ids.get(id)?.split_once('/')?;
            Some((pod.to_owned(), container.to_owned()))
        };
        let name = text(&case["case"]);
        let file = StateFile::read(text(&case["state_file"]), container_of);
        let fails = case["start_error"]["at"].as_str();
        let file = match (file, fails) {
            (Ok(file), _) => file,
            (Err(_), Some("state")) => {
                damaged += 1;
                continue;
            }
            (Err(error), _) => panic!("{name}: {error}"),
        };
        let (manager, findings) = CpuManager::restore(topology.clone(), settings, &file.assignments);
        assert!(
            !manager.shared().is_empty() && manager.assignments().all().is_subset(topology.all()),
            "{name}"
        );
        if fails.is_some() || !list(&case["kubelet_faults"]).is_empty() {
            adapted.push((name, findings));
            continue;
        }
        assert!(findings.is_empty(), "{name}: {findings:?}");
        assert_eq!(*manager.assignments(), assignments(case), "{name}");
        assert_eq!(manager.shared().to_string(), text(&case["default_cpus"]), "{name}");
        equal += 1;
    }
    println!("files: {equal} equal, {damaged} damaged, {} adapted to: {adapted:?}", adapted.len());
    assert!(!are_our_own() || (equal, damaged, adapted.len()) == (7, 6, 9), "{equal} {damaged} {adapted:?}");
    let of = |name: &str| adapted.iter().find(|case| case.0 == name).map(|case| case.1.as_slice());
    let offline = of("a CPU too many").is_none_or(|found| matches!(found, [Finding::Offline { .. }]));
    let taken = of("same CPU in two containers").is_none_or(|found| matches!(found, [Finding::Taken { .. }]));
    let reserved = of("reserved CPU not in the default set")
        .is_none_or(|found| matches!(found, [Finding::Reserved { .. }]));
    assert!(offline && taken && reserved, "{adapted:?}");
}

/// Every recorded file is read and written byte for byte, and its checksum is that of the recorded text.
#[test]
fn recorded_state_files_are_written_byte_for_byte() {
    let Some(recorded) = load(FILE) else { return };
    let mut files = 0;
    for sequence in list(&recorded["sequences"]) {
        for step in list(&sequence["steps"]).iter().filter(|step| step["state_file"].is_string()) {
            let file = StateFile::read(text(&step["state_file"]), |_| None).unwrap();
            assert_eq!(file.write(pod_level(sequence)), text(&step["state_file"]));
            assert_eq!(file.checksum(pod_level(sequence)), fnv32a(text(&step["state_file_checksum_input"])));
            assert_eq!(file.assignments, assignments(step));
            files += 1;
        }
    }
    println!("state files: {files} equal");
    assert!(!are_our_own() || files == 52, "{files}");
}
