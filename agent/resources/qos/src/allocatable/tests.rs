use std::collections::BTreeMap;

use super::*;

const GIB: u64 = 1 << 30;

fn capacity() -> Capacity {
    Capacity {
        cpu_milli: 4000,
        memory_bytes: 16 * GIB,
        hugepages: BTreeMap::from([(PageSize(2 << 20), GIB), (PageSize(GIB), 0)]),
        pids: 32_768,
        ephemeral_storage_bytes: Some(100 * GIB),
        ..Capacity::default()
    }
}

fn list(entries: &[(&str, &str)]) -> ResourceList {
    entries.iter().map(|(name, q)| ((*name).to_owned(), Quantity::parse(q).expect("a quantity"))).collect()
}

fn settings(kube: &[(&str, &str)], system: &[(&str, &str)]) -> NodeSettings {
    NodeSettings {
        kube_reserved: list(kube),
        system_reserved: list(system),
        eviction_hard: BTreeMap::new(),
        ..NodeSettings::default()
    }
}

#[test]
fn without_reservations_everything_is_left() {
    let settings = settings(&[], &[]);
    assert_eq!(unreserved(&capacity(), &settings), whole(&capacity()));
    assert_eq!(check(&capacity(), &settings), Ok(()));
    // Preallocated huge pages cannot be requested as memory.
    assert_eq!(allocatable(&capacity(), &settings).memory_bytes, 15 * GIB);
}

#[test]
fn reservations_and_thresholds_are_subtracted() {
    let mut settings = settings(
        &[("cpu", "500m"), ("memory", "1Gi"), ("pid", "1000"), ("ephemeral-storage", "10Gi")],
        &[("cpu", "250m"), ("memory", "512Mi")],
    );
    settings.eviction_hard = BTreeMap::from([
        (
            String::from("memory.available"),
            Threshold::Quantity(Quantity::parse("100Mi").expect("a quantity")),
        ),
        (String::from("nodefs.available"), Threshold::Fraction(0.1)),
        (String::from("pid.available"), Threshold::Fraction(0.5)),
    ]);
    let unreserved = unreserved(&capacity(), &settings);
    assert_eq!(unreserved.cpu_milli, 3250);
    assert_eq!(unreserved.memory_bytes, 16 * GIB - GIB - GIB / 2);
    assert_eq!(unreserved.pids, 31_768);
    assert_eq!(unreserved.ephemeral_storage_bytes, Some(90 * GIB));
    let allocatable = allocatable(&capacity(), &settings);
    assert_eq!(allocatable.memory_bytes, 16 * GIB - GIB - GIB / 2 - (100 << 20) - GIB);
    assert_eq!(allocatable.pids, 31_768, "a threshold on pids reserves nothing");
    // A tenth as a 32-bit float is a little more than a tenth.
    let tenth = ((100 * GIB) as f64 * f64::from(0.1f32)) as u64;
    assert_eq!(allocatable.ephemeral_storage_bytes, Some(90 * GIB - tenth));
    assert_eq!(check(&capacity(), &settings), Ok(()));
}

#[test]
fn fractions_are_rounded_after_subtracting() {
    let settings = settings(&[("memory", "1500m")], &[]);
    assert_eq!(unreserved(&capacity(), &settings).memory_bytes, 16 * GIB - 1);
}

#[test]
fn too_much_is_an_error_for_each_resource_and_never_negative() {
    let settings = settings(&[("cpu", "3"), ("memory", "16Gi")], &[("cpu", "1001m"), ("pid", "40000")]);
    let problems = check(&capacity(), &settings).expect_err("too much");
    let resources: Vec<_> = problems.iter().map(|p| p.resource).collect();
    assert_eq!(resources, ["cpu", "pid"], "reserving exactly the whole memory is allowed");
    assert_eq!(
        problems[0].to_string(),
        "cpu: kubeReserved, systemReserved and evictionHard set 4001m aside, but the machine has 4"
    );
    let left = unreserved(&capacity(), &settings);
    assert_eq!((left.cpu_milli, left.memory_bytes, left.pids), (0, 0, 0));
}

#[test]
fn unknown_storage_stays_unknown() {
    let capacity = Capacity { ephemeral_storage_bytes: None, ..capacity() };
    let settings = settings(&[("ephemeral-storage", "1Gi")], &[]);
    assert_eq!(unreserved(&capacity, &settings).ephemeral_storage_bytes, None);
    assert_eq!(check(&capacity, &settings), Ok(()), "nothing to compare with");
}
