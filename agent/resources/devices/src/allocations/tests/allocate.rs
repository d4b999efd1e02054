use super::super::plugins::Changes;
use super::*;

/// `TestPodContainerDeviceAllocation`: enough of both, too few, and what is left after that.
#[test]
fn devices_are_allocated_while_enough_are_free() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    allocations.register(NIC, 2);
    allocations.devices(NIC, 2, healthy(&["d3", "d4"]));
    give(&mut allocations, &pod("both", &[("c", Regular, &[(GPU, 2), (NIC, 1)])])).unwrap();
    assert_eq!(has(&allocations, "both", "c", GPU), ids(&["d1", "d2"]));
    assert_eq!(has(&allocations, "both", "c", NIC), ids(&["d3"]));
    let response = &allocations.of_pod("both")["c"][GPU].response;
    assert_eq!(response.as_deref(), Some(&b"d1,d2"[..]));

    let refused = allocations.plan(&one("late", GPU, 1)).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 1, free: 0, capacity: 2, unhealthy: 0 };
    assert_eq!(refused, expected);
    give(&mut allocations, &one("late", NIC, 1)).unwrap();
    assert_eq!(has(&allocations, "late", "c", NIC), ids(&["d4"]));
}

#[test]
fn a_pod_gets_all_or_nothing() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2", "d3"]));
    allocations.register(NIC, 1);
    allocations.devices(NIC, 1, healthy(&["n1"]));
    // Each container would fit alone; the reported numbers are the pod's.
    let two = pod("p", &[("a", Regular, &[(GPU, 2)]), ("b", Regular, &[(GPU, 2), (NIC, 1)])]);
    let refused = allocations.plan(&two).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 4, free: 3, capacity: 3, unhealthy: 0 };
    assert_eq!(refused, expected);
    assert_eq!(numbers(&allocations, GPU), (3, 3, 0));
    give(&mut allocations, &one("all", GPU, 3)).unwrap();
}

#[test]
fn refusals_count_what_init_containers_pass_on() {
    let allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    let wanted = |containers: &[ContainerSpec<'_>]| match allocations.plan(&pod("p", containers)) {
        Err(Refusal::Insufficient { wanted, free: 2, .. }) => wanted,
        other => panic!("{other:?}"),
    };
    assert_eq!(wanted(&[("i", Init, &[(GPU, 5)]), ("c", Regular, &[(GPU, 3)])]), 5);
    assert_eq!(wanted(&[("i", Init, &[(GPU, 3)]), ("j", Init, &[(GPU, 4)]), ("c", Regular, &[(GPU, 5)])]), 5);
    assert_eq!(
        wanted(&[("i", Init, &[(GPU, 4)]), ("s", Sidecar, &[(GPU, 3)]), ("c", Regular, &[(GPU, 3)])]),
        6
    );
    assert_eq!(
        wanted(&[("s", Sidecar, &[(GPU, 2)]), ("i", Init, &[(GPU, 2)]), ("c", Regular, &[(GPU, 1)])]),
        4
    );
    assert_eq!(wanted(&[("c", Regular, &[(GPU, usize::MAX)]), ("d", Regular, &[(GPU, 9)])]), usize::MAX);
}

#[test]
fn an_unknown_resource_is_reported_before_a_stopped_plugin_and_too_few_devices() {
    let mut allocations = with_plugin(GPU, healthy(&["d1"]));
    let wants = |wanted: &[(&str, usize)]| pod("p", &[("c", Regular, wanted)]);
    allocations.register("a.b/away", 1);
    let all = allocations.plan(&wants(&[("a.b/away", 1), (GPU, 2), ("z.z/unknown", 1)]));
    assert_eq!(all.unwrap_err(), Refusal::Unknown { resource: "z.z/unknown".into() });
    // Registered, but its list has not come yet.
    let two = allocations.plan(&wants(&[("a.b/away", 1), (GPU, 2)]));
    assert_eq!(two.unwrap_err(), Refusal::NotReady { resource: "a.b/away".into() });
    assert!(matches!(allocations.plan(&wants(&[(GPU, 2)])).unwrap_err(), Refusal::Insufficient { .. }));
    // Asking for none of an unknown resource is no reason to refuse.
    assert!(allocations.plan(&wants(&[("z.z/unknown", 0)])).unwrap().is_empty());
}

/// `TestDevicesToAllocate…` and the health checks of `devicesToAllocate`.
#[test]
fn unhealthy_devices_stay_with_their_pods_and_are_not_allocated_to_others() {
    let list = |first| vec![device("d1", first, &[]), device("d2", Health::Unhealthy, &[])];
    let mut allocations = with_plugin(GPU, list(Health::Healthy));
    give(&mut allocations, &one("old", GPU, 1)).unwrap();
    let changes = allocations.devices(GPU, 1, list(Health::Unhealthy));
    let owner = Some(("old".to_owned(), "c".to_owned()));
    let (before, after) = (Health::Healthy, Health::Unhealthy);
    let change = HealthChange { resource: GPU.into(), id: "d1".into(), before, after, owner };
    assert_eq!(changes, Changes { changed: true, health: vec![change] });

    assert!(allocations.plan(&one("old", GPU, 1)).unwrap().is_empty());
    assert_eq!(has(&allocations, "old", "c", GPU), ids(&["d1"]));
    let refused = allocations.plan(&one("new", GPU, 1)).unwrap_err();
    let expected =
        Refusal::Insufficient { resource: GPU.into(), wanted: 1, free: 0, capacity: 2, unhealthy: 2 };
    assert_eq!(refused, expected);
}

#[test]
fn devices_that_are_no_longer_listed_stay_with_their_pods() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    give(&mut allocations, &one("old", GPU, 1)).unwrap();
    let changes = allocations.devices(GPU, 1, healthy(&["d2"]));
    assert_eq!(changes.health.len(), 1);
    assert_eq!(changes.health[0].after, Health::Unknown);
    assert_eq!(numbers(&allocations, GPU), (1, 1, 1));
    let shown = &state(&allocations, GPU).devices[0];
    assert_eq!((shown.id.as_str(), shown.health), ("d1", Health::Unknown));
    assert_eq!(shown.owner, Some(("old".to_owned(), "c".to_owned())));
    assert!(allocations.plan(&one("old", GPU, 1)).unwrap().is_empty());

    // It is listed again, and still belongs to the old pod.
    allocations.devices(GPU, 1, healthy(&["d1", "d2"]));
    give(&mut allocations, &one("new", GPU, 1)).unwrap();
    assert_eq!(has(&allocations, "new", "c", GPU), ids(&["d2"]));
    assert!(allocations.release("old"));
    assert!(!allocations.release("old"));
    give(&mut allocations, &one("third", GPU, 1)).unwrap();
    assert_eq!(has(&allocations, "third", "c", GPU), ids(&["d1"]));
}

#[test]
fn a_container_that_has_too_few_gets_the_rest_and_one_that_has_too_many_keeps_them() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2", "d3"]));
    give(&mut allocations, &one("p", GPU, 1)).unwrap();
    give(&mut allocations, &one("q", GPU, 1)).unwrap();
    let plan = allocations.plan(&one("p", GPU, 2)).unwrap();
    let reservation = allocations.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["d1", "d3"]));
    allocations.cancel(reservation);
    give(&mut allocations, &one("p", GPU, 2)).unwrap();
    assert!(allocations.plan(&one("p", GPU, 1)).unwrap().is_empty());
    assert_eq!(has(&allocations, "p", "c", GPU), ids(&["d1", "d3"]));
}

#[test]
fn devices_of_released_pods_are_free() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2", "d3"]));
    for uid in ["a", "b", "c"] {
        give(&mut allocations, &one(uid, GPU, 1)).unwrap();
    }
    assert!(allocations.release("a") && allocations.release("c"));
    assert_eq!(numbers(&allocations, GPU), (3, 3, 1));
    assert_eq!(has(&allocations, "b", "c", GPU), ids(&["d2"]));
    assert!(!allocations.release("a"));
}
