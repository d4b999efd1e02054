use super::*;

/// `TestCheckpoint`: what was allocated is allocated after a restart, byte for byte, and resources are away.
#[test]
fn a_restart_keeps_allocations_and_waits_for_plugins() {
    let start = Instant::now();
    let mut ledger = with(GPU, vec![device("d1", Health::Healthy, &[1]), device("d2", Health::Healthy, &[])]);
    ledger.register(NIC, 1);
    let demand = pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Ordinary, &[(GPU, 2)])]);
    give(&mut ledger, &demand).unwrap();

    let bytes = ledger.checkpoint().to_bytes();
    let mut after = Ledger::restore(GRACE, Checkpoint::parse(&bytes).unwrap(), start);
    assert_eq!(after.allocations("p"), ledger.allocations("p"));
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

#[test]
fn a_kubelets_checkpoint_is_taken_as_it_is() {
    let entry = |uid: &str, container: &str, id: &str| super::super::super::checkpoint::PodDevicesEntry {
        pod_uid: uid.to_owned(),
        container_name: container.to_owned(),
        resource_name: GPU.to_owned(),
        device_ids: [(0, ids(&[id]))].into(),
        alloc_resp: Some(Vec::new()),
    };
    // Two pods that share a device: nothing here can tell which one is to lose it.
    let entries = vec![entry("q", "c", "d1"), entry("p", "c", "d1"), entry("p", "i", "d2")];
    let registered = [(GPU.to_owned(), strings(&["d1", "d2", "d3"]))].into();
    let mut ledger = Ledger::restore(GRACE, Checkpoint { entries, registered }, Instant::now());
    ledger.register(GPU, 1);
    ledger.devices(GPU, 1, healthy(&["d1", "d2", "d3"]));
    assert!(ledger.plan(&one("q", GPU, 1)).unwrap().is_empty());
    assert!(ledger.release("p"));
    // One has it still.
    give(&mut ledger, &one("r", GPU, 2)).unwrap();
    assert_eq!(has(&ledger, "r", "c", GPU), ids(&["d2", "d3"]));
    ledger.release("q");
    give(&mut ledger, &one("s", GPU, 1)).unwrap();
}

#[test]
fn what_the_runtime_knows_is_recovered_and_its_plugin_asked_again() {
    let mut ledger = Ledger::new(GRACE);
    let devices: DevicesPerNuma = [(-1, ids(&["d1"])), (3, ids(&["gone"]))].into();
    ledger.recover("p", "c", GPU, devices.clone());
    ledger.recover("p", "e", GPU, [(0, ids(&[]))].into());
    let expected = Allocation { devices, response: None };
    assert_eq!(ledger.allocations("p"), [("c".into(), [(GPU.into(), expected)].into())].into());
    assert_eq!(ledger.plan(&one("p", GPU, 2)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });
    assert_eq!(ledger.plan(&one("q", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });

    ledger.register(GPU, 1);
    ledger.devices(GPU, 1, vec![device("d1", Health::Unhealthy, &[2]), device("d2", Health::Healthy, &[])]);
    let plan = ledger.plan(&one("p", GPU, 2)).unwrap();
    assert!(!plan.is_empty());
    let reservation = ledger.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["d1", "gone"]));
    let responses = answers(&reservation);
    assert!(ledger.commit(reservation, responses));
    // The node of the one that nobody lists stays as it was found.
    assert_eq!(ledger.allocations("p")["c"][GPU].devices, [(2, ids(&["d1"])), (3, ids(&["gone"]))].into());
    // What is known with an answer is not overwritten.
    ledger.recover("p", "c", GPU, [(-1, ids(&["d2"]))].into());
    assert_eq!(has(&ledger, "p", "c", GPU), ids(&["d1", "gone"]));
}

#[test]
fn what_runs_with_a_device_has_it_and_who_reserved_it_has_not() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    let plan = ledger.plan(&one("p", GPU, 1)).unwrap();
    let reservation = ledger.reserve(plan).unwrap();
    ledger.recover("q", "c", GPU, [(-1, ids(&["d1"]))].into());
    assert!(!ledger.commit(reservation, BTreeMap::new()));
    give(&mut ledger, &one("p", GPU, 1)).unwrap();
    assert_eq!(has(&ledger, "p", "c", GPU), ids(&["d2"]));
    // The same word again voids nothing.
    let plan = ledger.plan(&one("q", GPU, 1)).unwrap();
    let reservation = ledger.reserve(plan).unwrap();
    ledger.recover("q", "c", GPU, [(-1, ids(&["d1"]))].into());
    let responses = answers(&reservation);
    assert!(ledger.commit(reservation, responses));
}
