use std::sync::Arc;

use super::super::super::checkpoint::PodDevicesEntry;
use super::*;

/// `TestCheckpoint`: what was allocated is allocated after a restart, byte for byte, and resources are away.
#[test]
fn a_restart_keeps_allocations_and_waits_for_plugins() {
    let start = Instant::now();
    let mut allocations =
        with_plugin(GPU, vec![device("d1", Health::Healthy, &[1]), device("d2", Health::Healthy, &[])]);
    allocations.register(NIC, 1);
    let demand = pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Regular, &[(GPU, 2)])]);
    give(&mut allocations, &demand).unwrap();

    let bytes = allocations.checkpoint().to_bytes();
    let mut after = DeviceAllocations::restore(GRACE, Checkpoint::parse(&bytes).unwrap(), start);
    assert_eq!(after.of_pod("p"), allocations.of_pod("p"));
    assert_eq!(after.checkpoint().to_bytes(), bytes);
    assert_eq!(numbers(&after, GPU), (2, 0, 2));
    assert_eq!(state(&after, GPU).away_since, Some(start));
    assert_eq!(after.health(GPU, "d1"), Health::Unknown);
    // The order in which containers got their devices is kept.
    assert_eq!(state(&after, GPU).devices[0].owner, Some(("p".to_owned(), "c".to_owned())));

    assert!(after.plan(&demand).unwrap().is_empty());
    for resource in [GPU, NIC] {
        let refused = after.plan(&one("q", resource, 1)).unwrap_err();
        assert_eq!(refused, Refusal::NotReady { resource: resource.into() });
    }
    after.register(GPU, 1);
    let changes = after.devices(GPU, 1, healthy(&["d1", "d2", "d3"]));
    assert!(changes.changed);
    give(&mut after, &one("q", GPU, 1)).unwrap();
    assert_eq!(has(&after, "q", "c", GPU), ids(&["d3"]));
    assert_eq!(after.expire(start + GRACE), [NIC]);
}

/// What stays is neither copied nor encoded again: that is most of the time of an allocation.
#[test]
fn checkpoints_share_the_entries_that_stay() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    give(&mut allocations, &one("p", GPU, 1)).unwrap();
    let first = allocations.checkpoint();
    give(&mut allocations, &one("q", GPU, 1)).unwrap();
    let second = allocations.checkpoint();
    assert_eq!((first.entries.len(), second.entries.len()), (1, 2));
    assert!(Arc::ptr_eq(&first.entries[0], &second.entries[0]));
    assert!(Arc::ptr_eq(&first.registered[GPU], &second.registered[GPU]));
}

#[test]
fn a_kubelets_checkpoint_is_taken_over_unchanged() {
    let entry = |uid: &str, container: &str, id: &str| {
        Arc::new(PodDevicesEntry {
            pod_uid: uid.to_owned(),
            container_name: container.to_owned(),
            resource_name: GPU.to_owned(),
            device_ids: [(0, ids(&[id]))].into(),
            alloc_resp: Some(Vec::new()),
        })
    };
    // Two pods share a device: nothing here can decide which one should lose it.
    let entries = vec![entry("q", "c", "d1"), entry("p", "c", "d1"), entry("p", "i", "d2")];
    let registered = [(GPU.to_owned(), strings(&["d1", "d2", "d3"]).into())].into();
    let mut allocations =
        DeviceAllocations::restore(GRACE, Checkpoint { entries, registered }, Instant::now());
    allocations.register(GPU, 1);
    allocations.devices(GPU, 1, healthy(&["d1", "d2", "d3"]));
    assert!(allocations.plan(&one("q", GPU, 1)).unwrap().is_empty());
    assert!(allocations.release("p"));
    // One pod still has it.
    give(&mut allocations, &one("r", GPU, 2)).unwrap();
    assert_eq!(has(&allocations, "r", "c", GPU), ids(&["d2", "d3"]));
    allocations.release("q");
    give(&mut allocations, &one("s", GPU, 1)).unwrap();
}

#[test]
fn allocations_known_to_the_runtime_are_recovered_and_the_plugin_asked_again() {
    let mut allocations = DeviceAllocations::new(GRACE);
    let devices: DevicesPerNuma = [(-1, ids(&["d1"])), (3, ids(&["gone"]))].into();
    allocations.recover("p", "c", GPU, devices.clone());
    allocations.recover("p", "e", GPU, [(0, ids(&[]))].into());
    let expected = Allocation { devices, response: None };
    assert_eq!(allocations.of_pod("p"), [("c".into(), [(GPU.into(), expected)].into())].into());
    assert_eq!(allocations.plan(&one("p", GPU, 2)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });
    assert_eq!(allocations.plan(&one("q", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });

    allocations.register(GPU, 1);
    allocations.devices(
        GPU,
        1,
        vec![device("d1", Health::Unhealthy, &[2]), device("d2", Health::Healthy, &[])],
    );
    let plan = allocations.plan(&one("p", GPU, 2)).unwrap();
    assert!(!plan.is_empty());
    let reservation = allocations.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["d1", "gone"]));
    let responses = answers(&reservation);
    assert!(allocations.commit(reservation, responses));
    // The NUMA node of a device that no plugin lists stays as it was found.
    assert_eq!(allocations.of_pod("p")["c"][GPU].devices, [(2, ids(&["d1"])), (3, ids(&["gone"]))].into());
    // An allocation that is known with an answer is not overwritten.
    allocations.recover("p", "c", GPU, [(-1, ids(&["d2"]))].into());
    assert_eq!(has(&allocations, "p", "c", GPU), ids(&["d1", "gone"]));
}

#[test]
fn a_device_of_a_running_container_voids_reservations_of_it() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    let plan = allocations.plan(&one("p", GPU, 1)).unwrap();
    let reservation = allocations.reserve(plan).unwrap();
    allocations.recover("q", "c", GPU, [(-1, ids(&["d1"]))].into());
    assert!(!allocations.commit(reservation, BTreeMap::new()));
    give(&mut allocations, &one("p", GPU, 1)).unwrap();
    assert_eq!(has(&allocations, "p", "c", GPU), ids(&["d2"]));
    // The same report again voids nothing.
    let plan = allocations.plan(&one("q", GPU, 1)).unwrap();
    let reservation = allocations.reserve(plan).unwrap();
    allocations.recover("q", "c", GPU, [(-1, ids(&["d1"]))].into());
    let responses = answers(&reservation);
    assert!(allocations.commit(reservation, responses));
}
