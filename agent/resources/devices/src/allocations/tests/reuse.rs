use super::*;

fn six() -> DeviceAllocations {
    with_plugin(GPU, healthy(&["d1", "d2", "d3", "d4", "d5", "d6"]))
}

/// `TestInitContainerDeviceAllocation`.
#[test]
fn init_containers_pass_their_devices_on() {
    let mut allocations = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 1)]),
            ("i2", Init, &[(GPU, 2)]),
            ("c1", Regular, &[(GPU, 1)]),
            ("c2", Regular, &[(GPU, 1)]),
        ],
    );
    give(&mut allocations, &demand).unwrap();
    let of = |name| has(&allocations, "p", name, GPU);
    assert_eq!(of("i1"), ids(&["d1"]));
    assert_eq!(of("i2"), ids(&["d1", "d2"]));
    assert_eq!(of("c1"), ids(&["d1"]));
    assert_eq!(of("c2"), ids(&["d2"]));
    assert_eq!(numbers(&allocations, GPU), (6, 6, 2));
    // The last of the containers that have it is named.
    let owner = |i: usize| state(&allocations, GPU).devices[i].owner.clone().unwrap().1;
    assert_eq!((owner(0), owner(1)), ("c1".to_owned(), "c2".to_owned()));
}

/// `TestRestartableInitContainerDeviceAllocation`: 1 device for an init container and a sidecar after it, 2
/// for another sidecar, 3 for a regular container: containers that run together share none.
#[test]
fn sidecars_do_not_pass_their_devices_on() {
    let mut allocations = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 1)]),
            ("s1", Sidecar, &[(GPU, 1)]),
            ("s2", Sidecar, &[(GPU, 2)]),
            ("c1", Regular, &[(GPU, 3)]),
        ],
    );
    give(&mut allocations, &demand).unwrap();
    let of = |name| has(&allocations, "p", name, GPU);
    assert_eq!(of("i1"), ids(&["d1"]));
    assert_eq!(of("s1"), ids(&["d1"]));
    assert_eq!(of("s2"), ids(&["d2", "d3"]));
    assert_eq!(of("c1"), ids(&["d4", "d5", "d6"]));
}

#[test]
fn later_init_containers_do_not_use_a_sidecars_devices() {
    let mut allocations = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 3)]),
            ("s", Sidecar, &[(GPU, 1)]),
            ("i2", Init, &[(GPU, 3)]),
            ("c1", Regular, &[(GPU, 2)]),
            ("c2", Regular, &[(GPU, 2)]),
        ],
    );
    give(&mut allocations, &demand).unwrap();
    let of = |name| has(&allocations, "p", name, GPU);
    assert_eq!(of("s"), ids(&["d1"]));
    assert_eq!(of("i2"), ids(&["d2", "d3", "d4"]));
    assert_eq!(of("c1"), ids(&["d2", "d3"]));
    assert_eq!(of("c2"), ids(&["d4", "d5"]));
}

#[test]
fn resources_are_passed_on_independently() {
    let mut allocations = six();
    allocations.register(NIC, 1);
    allocations.devices(NIC, 1, healthy(&["d1", "d2"]));
    let demand = pod(
        "p",
        &[("i", Init, &[(GPU, 2)]), ("c", Regular, &[(GPU, 1), (NIC, 1)]), ("e", Regular, &[(NIC, 1)])],
    );
    give(&mut allocations, &demand).unwrap();
    assert_eq!(numbers(&allocations, GPU).2, 2);
    assert_eq!(numbers(&allocations, NIC).2, 2);
}

#[test]
fn devices_that_only_finished_init_containers_had_are_free() {
    let mut allocations = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 2)]),
            ("i2", Init, &[(GPU, 5)]),
            ("s", Sidecar, &[(GPU, 1)]),
            ("c", Regular, &[(GPU, 2)]),
        ],
    );
    give(&mut allocations, &demand).unwrap();
    assert!(allocations.plan(&one("q", GPU, 2)).is_err());
    assert!(allocations.release_surplus(&demand));
    assert!(!allocations.release_surplus(&demand));
    let of = |allocations: &DeviceAllocations, name| has(allocations, "p", name, GPU);
    // The first one shares all its devices with running containers.
    assert_eq!(of(&allocations, "i1"), ids(&["d1", "d2"]));
    assert_eq!(of(&allocations, "i2"), ids(&[]));
    assert_eq!(of(&allocations, "s"), ids(&["d1"]));
    assert_eq!(of(&allocations, "c"), ids(&["d2", "d3"]));
    give(&mut allocations, &one("q", GPU, 2)).unwrap();
    assert_eq!(has(&allocations, "q", "c", GPU), ids(&["d4", "d5"]));

    // After a restart the init container uses devices of the containers that start after it, and others in
    // addition.
    let refused = allocations.plan(&demand).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 2, free: 1, capacity: 6, unhealthy: 0 };
    assert_eq!(refused, expected);
    allocations.release("q");
    let plan = allocations.plan(&demand).unwrap();
    let reservation = allocations.reserve(plan).unwrap();
    let requests = reservation.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].container.as_str(), &requests[0].devices),
        ("i2", &ids(&["d1", "d2", "d3", "d4", "d5"]))
    );
    let responses = answers(&reservation);
    allocations.commit(reservation, responses);
    assert_eq!(state(&allocations, GPU).devices[1].owner, Some(("p".to_owned(), "c".to_owned())));
    assert!(allocations.release_surplus(&demand));
    assert_eq!(numbers(&allocations, GPU).2, 3);
}

#[test]
fn devices_borrowed_by_an_init_container_return_to_their_container() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2", "d3"]));
    // A runtime that knows only one running container.
    allocations.recover("p", "c2", GPU, [(-1, ids(&["d1"]))].into());
    let demand =
        pod("p", &[("i", Init, &[(GPU, 2)]), ("c1", Regular, &[(GPU, 1)]), ("c2", Regular, &[(GPU, 1)])]);
    give(&mut allocations, &demand).unwrap();
    let of = |name| has(&allocations, "p", name, GPU);
    assert_eq!((of("i"), of("c1"), of("c2")), (ids(&["d1", "d2"]), ids(&["d2"]), ids(&["d1"])));
    // The devices of a container outside of the demand are not touched.
    let rest = pod("p", &[("i", Init, &[(GPU, 1)]), ("c3", Regular, &[(GPU, 1)])]);
    let plan = allocations.plan(&rest).unwrap();
    let reservation = allocations.reserve(plan).unwrap();
    assert_eq!(reservation.requests().len(), 1);
    assert_eq!(reservation.requests()[0].devices, ids(&["d3"]));
}

#[test]
fn unhealthy_devices_are_not_passed_on() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    give(&mut allocations, &pod("p", &[("i", Init, &[(GPU, 1)])])).unwrap();
    allocations.devices(
        GPU,
        1,
        vec![device("d1", Health::Unhealthy, &[]), device("d2", Health::Healthy, &[])],
    );
    give(&mut allocations, &pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Regular, &[(GPU, 1)])])).unwrap();
    assert_eq!(has(&allocations, "p", "i", GPU), ids(&["d1"]));
    assert_eq!(has(&allocations, "p", "c", GPU), ids(&["d2"]));
}
