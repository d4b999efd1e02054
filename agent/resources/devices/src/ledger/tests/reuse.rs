use super::*;

fn six() -> Ledger {
    with(GPU, healthy(&["d1", "d2", "d3", "d4", "d5", "d6"]))
}

/// `TestInitContainerDeviceAllocation`.
#[test]
fn init_containers_pass_on_what_they_had() {
    let mut ledger = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 1)]),
            ("i2", Init, &[(GPU, 2)]),
            ("c1", Ordinary, &[(GPU, 1)]),
            ("c2", Ordinary, &[(GPU, 1)]),
        ],
    );
    give(&mut ledger, &demand).unwrap();
    let of = |name| has(&ledger, "p", name, GPU);
    assert_eq!(of("i1"), ids(&["d1"]));
    assert_eq!(of("i2"), ids(&["d1", "d2"]));
    assert_eq!(of("c1"), ids(&["d1"]));
    assert_eq!(of("c2"), ids(&["d2"]));
    assert_eq!(numbers(&ledger, GPU), (6, 6, 2));
    // Of the containers that have it the last one is named.
    let owner = |i: usize| state(&ledger, GPU).devices[i].owner.clone().unwrap().1;
    assert_eq!((owner(0), owner(1)), ("c1".to_owned(), "c2".to_owned()));
}

/// `TestRestartableInitContainerDeviceAllocation`: 1 for an init container and a sidecar after it, 2 for another sidecar,
/// 3 for an ordinary one: none is shared among those that run together.
#[test]
fn sidecars_keep_theirs_for_themselves() {
    let mut ledger = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 1)]),
            ("s1", Sidecar, &[(GPU, 1)]),
            ("s2", Sidecar, &[(GPU, 2)]),
            ("c1", Ordinary, &[(GPU, 3)]),
        ],
    );
    give(&mut ledger, &demand).unwrap();
    let of = |name| has(&ledger, "p", name, GPU);
    assert_eq!(of("i1"), ids(&["d1"]));
    assert_eq!(of("s1"), ids(&["d1"]));
    assert_eq!(of("s2"), ids(&["d2", "d3"]));
    assert_eq!(of("c1"), ids(&["d4", "d5", "d6"]));
}

#[test]
fn what_a_sidecar_has_no_later_init_container_uses() {
    let mut ledger = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 3)]),
            ("s", Sidecar, &[(GPU, 1)]),
            ("i2", Init, &[(GPU, 3)]),
            ("c1", Ordinary, &[(GPU, 2)]),
            ("c2", Ordinary, &[(GPU, 2)]),
        ],
    );
    give(&mut ledger, &demand).unwrap();
    let of = |name| has(&ledger, "p", name, GPU);
    assert_eq!(of("s"), ids(&["d1"]));
    assert_eq!(of("i2"), ids(&["d2", "d3", "d4"]));
    assert_eq!(of("c1"), ids(&["d2", "d3"]));
    assert_eq!(of("c2"), ids(&["d4", "d5"]));
}

#[test]
fn resources_are_passed_on_apart() {
    let mut ledger = six();
    ledger.register(NIC, 1);
    ledger.devices(NIC, 1, healthy(&["d1", "d2"]));
    let demand = pod(
        "p",
        &[("i", Init, &[(GPU, 2)]), ("c", Ordinary, &[(GPU, 1), (NIC, 1)]), ("e", Ordinary, &[(NIC, 1)])],
    );
    give(&mut ledger, &demand).unwrap();
    assert_eq!(numbers(&ledger, GPU).2, 2);
    assert_eq!(numbers(&ledger, NIC).2, 2);
}

#[test]
fn the_surplus_of_finished_init_containers_is_free_again() {
    let mut ledger = six();
    let demand = pod(
        "p",
        &[
            ("i1", Init, &[(GPU, 2)]),
            ("i2", Init, &[(GPU, 5)]),
            ("s", Sidecar, &[(GPU, 1)]),
            ("c", Ordinary, &[(GPU, 2)]),
        ],
    );
    give(&mut ledger, &demand).unwrap();
    assert!(ledger.plan(&one("q", GPU, 2)).is_err());
    assert!(ledger.release_surplus(&demand));
    assert!(!ledger.release_surplus(&demand));
    let of = |ledger: &Ledger, name| has(ledger, "p", name, GPU);
    // The first one shares all that it had with those that run.
    assert_eq!(of(&ledger, "i1"), ids(&["d1", "d2"]));
    assert_eq!(of(&ledger, "i2"), ids(&[]));
    assert_eq!(of(&ledger, "s"), ids(&["d1"]));
    assert_eq!(of(&ledger, "c"), ids(&["d2", "d3"]));
    give(&mut ledger, &one("q", GPU, 2)).unwrap();
    assert_eq!(has(&ledger, "q", "c", GPU), ids(&["d4", "d5"]));

    // Started anew, the init container uses what starts after it, and others beside that.
    let refused = ledger.plan(&demand).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 2, free: 1, capacity: 6, unhealthy: 0 };
    assert_eq!(refused, expected);
    ledger.release("q");
    let plan = ledger.plan(&demand).unwrap();
    let reservation = ledger.reserve(plan).unwrap();
    let requests = reservation.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(
        (requests[0].container.as_str(), &requests[0].devices),
        ("i2", &ids(&["d1", "d2", "d3", "d4", "d5"]))
    );
    let responses = answers(&reservation);
    ledger.commit(reservation, responses);
    assert_eq!(state(&ledger, GPU).devices[1].owner, Some(("p".to_owned(), "c".to_owned())));
    assert!(ledger.release_surplus(&demand));
    assert_eq!(numbers(&ledger, GPU).2, 3);
}

#[test]
fn what_an_init_container_borrows_is_not_passed_on_to_others_than_its_owner() {
    let mut ledger = with(GPU, healthy(&["d1", "d2", "d3"]));
    // A runtime that knows of one running container alone.
    ledger.recover("p", "c2", GPU, [(-1, ids(&["d1"]))].into());
    let demand =
        pod("p", &[("i", Init, &[(GPU, 2)]), ("c1", Ordinary, &[(GPU, 1)]), ("c2", Ordinary, &[(GPU, 1)])]);
    give(&mut ledger, &demand).unwrap();
    let of = |name| has(&ledger, "p", name, GPU);
    assert_eq!((of("i"), of("c1"), of("c2")), (ids(&["d1", "d2"]), ids(&["d2"]), ids(&["d1"])));
    // A container outside of the demand is left alone.
    let rest = pod("p", &[("i", Init, &[(GPU, 1)]), ("c3", Ordinary, &[(GPU, 1)])]);
    let plan = ledger.plan(&rest).unwrap();
    let reservation = ledger.reserve(plan).unwrap();
    assert_eq!(reservation.requests().len(), 1);
    assert_eq!(reservation.requests()[0].devices, ids(&["d3"]));
}

#[test]
fn what_has_turned_unhealthy_is_not_passed_on() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    give(&mut ledger, &pod("p", &[("i", Init, &[(GPU, 1)])])).unwrap();
    ledger.devices(GPU, 1, vec![device("d1", Health::Unhealthy, &[]), device("d2", Health::Healthy, &[])]);
    give(&mut ledger, &pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Ordinary, &[(GPU, 1)])])).unwrap();
    assert_eq!(has(&ledger, "p", "i", GPU), ids(&["d1"]));
    assert_eq!(has(&ledger, "p", "c", GPU), ids(&["d2"]));
}
