use super::*;

/// `TestPodContainerDeviceAllocation`: enough of both, too few, and what is left after that.
#[test]
fn devices_are_given_while_there_are_any() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    ledger.register(NIC, 2);
    ledger.devices(NIC, 2, healthy(&["d3", "d4"]));
    give(&mut ledger, &pod("both", &[("c", Ordinary, &[(GPU, 2), (NIC, 1)])])).unwrap();
    assert_eq!(has(&ledger, "both", "c", GPU), ids(&["d1", "d2"]));
    assert_eq!(has(&ledger, "both", "c", NIC), ids(&["d3"]));
    let response = &ledger.allocations("both")["c"][GPU].response;
    assert_eq!(response.as_deref(), Some(&b"d1,d2"[..]));

    let refused = ledger.plan(&one("late", GPU, 1)).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 1, free: 0, capacity: 2, unhealthy: 0 };
    assert_eq!(refused, expected);
    give(&mut ledger, &one("late", NIC, 1)).unwrap();
    assert_eq!(has(&ledger, "late", "c", NIC), ids(&["d4"]));
}

#[test]
fn a_pod_gets_all_or_nothing() {
    let mut ledger = with(GPU, healthy(&["d1", "d2", "d3"]));
    ledger.register(NIC, 1);
    ledger.devices(NIC, 1, healthy(&["n1"]));
    // Both containers fit alone; the numbers are the pod's.
    let two = pod("p", &[("a", Ordinary, &[(GPU, 2)]), ("b", Ordinary, &[(GPU, 2), (NIC, 1)])]);
    let refused = ledger.plan(&two).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 4, free: 3, capacity: 3, unhealthy: 0 };
    assert_eq!(refused, expected);
    assert_eq!(numbers(&ledger, GPU), (3, 3, 0));
    give(&mut ledger, &one("all", GPU, 3)).unwrap();
}

#[test]
fn refusals_count_what_init_containers_pass_on() {
    let ledger = with(GPU, healthy(&["d1", "d2"]));
    let wanted = |containers: &[Asks<'_>]| match ledger.plan(&pod("p", containers)) {
        Err(Refusal::Insufficient { wanted, free: 2, .. }) => wanted,
        other => panic!("{other:?}"),
    };
    assert_eq!(wanted(&[("i", Init, &[(GPU, 5)]), ("c", Ordinary, &[(GPU, 3)])]), 5);
    assert_eq!(
        wanted(&[("i", Init, &[(GPU, 3)]), ("j", Init, &[(GPU, 4)]), ("c", Ordinary, &[(GPU, 5)])]),
        5
    );
    assert_eq!(
        wanted(&[("i", Init, &[(GPU, 4)]), ("s", Sidecar, &[(GPU, 3)]), ("c", Ordinary, &[(GPU, 3)])]),
        6
    );
    assert_eq!(
        wanted(&[("s", Sidecar, &[(GPU, 2)]), ("i", Init, &[(GPU, 2)]), ("c", Ordinary, &[(GPU, 1)])]),
        4
    );
    assert_eq!(wanted(&[("c", Ordinary, &[(GPU, usize::MAX)]), ("d", Ordinary, &[(GPU, 9)])]), usize::MAX);
}

#[test]
fn unknown_before_away_before_too_few() {
    let mut ledger = with(GPU, healthy(&["d1"]));
    let wants = |wanted: &[(&str, usize)]| pod("p", &[("c", Ordinary, wanted)]);
    ledger.register("a.b/away", 1);
    let all = ledger.plan(&wants(&[("a.b/away", 1), (GPU, 2), ("z.z/unknown", 1)]));
    assert_eq!(all.unwrap_err(), Refusal::Unknown { resource: "z.z/unknown".into() });
    // Registered, and its list is not there yet.
    let two = ledger.plan(&wants(&[("a.b/away", 1), (GPU, 2)]));
    assert_eq!(two.unwrap_err(), Refusal::NotReady { resource: "a.b/away".into() });
    assert!(matches!(ledger.plan(&wants(&[(GPU, 2)])).unwrap_err(), Refusal::Insufficient { .. }));
    // None of an unknown one is no reason.
    assert!(ledger.plan(&wants(&[("z.z/unknown", 0)])).unwrap().is_empty());
}

/// `TestDevicesToAllocate…` and the health checks of `devicesToAllocate`.
#[test]
fn unhealthy_devices_are_given_to_nobody_new_and_stay_with_those_who_have_them() {
    let list = |first| vec![device("d1", first, &[]), device("d2", Health::Unhealthy, &[])];
    let mut ledger = with(GPU, list(Health::Healthy));
    give(&mut ledger, &one("old", GPU, 1)).unwrap();
    let changes = ledger.devices(GPU, 1, list(Health::Unhealthy));
    let owner = Some(("old".to_owned(), "c".to_owned()));
    let (before, after) = (Health::Healthy, Health::Unhealthy);
    let change = HealthChange { resource: GPU.into(), id: "d1".into(), before, after, owner };
    assert_eq!(changes, Changes { changed: true, health: vec![change] });

    assert!(ledger.plan(&one("old", GPU, 1)).unwrap().is_empty());
    assert_eq!(has(&ledger, "old", "c", GPU), ids(&["d1"]));
    let refused = ledger.plan(&one("new", GPU, 1)).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 1, free: 0, capacity: 2, unhealthy: 2 };
    assert_eq!(refused, expected);
}

#[test]
fn what_is_no_longer_listed_is_nobodys_but_its_owners() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    give(&mut ledger, &one("old", GPU, 1)).unwrap();
    let changes = ledger.devices(GPU, 1, healthy(&["d2"]));
    assert_eq!(changes.health.len(), 1);
    assert_eq!(changes.health[0].after, Health::Unknown);
    assert_eq!(numbers(&ledger, GPU), (1, 1, 1));
    let shown = &state(&ledger, GPU).devices[0];
    assert_eq!((shown.id.as_str(), shown.health), ("d1", Health::Unknown));
    assert_eq!(shown.owner, Some(("old".to_owned(), "c".to_owned())));
    assert!(ledger.plan(&one("old", GPU, 1)).unwrap().is_empty());

    // It comes back, and is still the old one's.
    ledger.devices(GPU, 1, healthy(&["d1", "d2"]));
    give(&mut ledger, &one("new", GPU, 1)).unwrap();
    assert_eq!(has(&ledger, "new", "c", GPU), ids(&["d2"]));
    assert!(ledger.release("old"));
    assert!(!ledger.release("old"));
    give(&mut ledger, &one("third", GPU, 1)).unwrap();
    assert_eq!(has(&ledger, "third", "c", GPU), ids(&["d1"]));
}

#[test]
fn a_container_that_has_too_few_gets_the_rest_and_one_that_has_too_many_keeps_them() {
    let mut ledger = with(GPU, healthy(&["d1", "d2", "d3"]));
    give(&mut ledger, &one("p", GPU, 1)).unwrap();
    give(&mut ledger, &one("q", GPU, 1)).unwrap();
    let plan = ledger.plan(&one("p", GPU, 2)).unwrap();
    let reservation = ledger.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["d1", "d3"]));
    ledger.cancel(reservation);
    give(&mut ledger, &one("p", GPU, 2)).unwrap();
    assert!(ledger.plan(&one("p", GPU, 1)).unwrap().is_empty());
    assert_eq!(has(&ledger, "p", "c", GPU), ids(&["d1", "d3"]));
}

#[test]
fn devices_of_pods_that_no_longer_exist_are_freed() {
    let mut ledger = with(GPU, healthy(&["d1", "d2", "d3"]));
    for uid in ["a", "b", "c"] {
        give(&mut ledger, &one(uid, GPU, 1)).unwrap();
    }
    assert_eq!(ledger.retain(|uid| uid == "b"), ["a", "c"]);
    assert_eq!(numbers(&ledger, GPU), (3, 3, 1));
    assert_eq!(has(&ledger, "b", "c", GPU), ids(&["d2"]));
    assert!(ledger.retain(|uid| uid == "b").is_empty());
}
