use super::super::reserve::Conflict;
use super::*;

/// Reserves `wanted` devices for a pod with one container.
fn reserve(allocations: &mut DeviceAllocations, uid: &str, wanted: usize) -> Reservation {
    let plan = allocations.plan(&one(uid, GPU, wanted)).unwrap();
    allocations.reserve(plan).unwrap()
}

#[test]
fn reserved_devices_are_not_free_until_the_reservation_is_cancelled_or_dropped() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    let first = reserve(&mut allocations, "p", 1);
    let request = Request { container: "c".into(), resource: GPU.into(), devices: ids(&["d1"]) };
    assert_eq!(first.requests(), [request]);
    assert!(matches!(
        allocations.plan(&one("q", GPU, 2)).unwrap_err(),
        Refusal::Insufficient { free: 1, .. }
    ));
    // No container has the device yet.
    assert_eq!(numbers(&allocations, GPU), (2, 2, 0));
    assert!(allocations.checkpoint().entries.is_empty());
    allocations.cancel(first);
    let both = reserve(&mut allocations, "q", 2);
    drop(both);
    give(&mut allocations, &one("r", GPU, 2)).unwrap();
}

#[test]
fn of_two_plans_for_one_device_the_second_is_refused_and_reserves_nothing() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    let (first, second) =
        (allocations.plan(&one("p", GPU, 1)).unwrap(), allocations.plan(&one("q", GPU, 2)).unwrap());
    let first = allocations.reserve(first).unwrap();
    let conflict = Conflict::Device { resource: GPU.into(), id: "d1".into() };
    assert_eq!(allocations.reserve(second).unwrap_err(), conflict);
    give(&mut allocations, &one("r", GPU, 1)).unwrap();
    assert_eq!(has(&allocations, "r", "c", GPU), ids(&["d2"]));
    let responses = answers(&first);
    assert!(allocations.commit(first, responses));
    assert_eq!(has(&allocations, "p", "c", GPU), ids(&["d1"]));
}

#[test]
fn a_plan_is_refused_when_its_basis_has_changed() {
    type Change = fn(&mut DeviceAllocations);
    let cases: [(&str, Change, Option<Conflict>); 8] = [
        ("nothing", |_| (), None),
        ("the same again", |l| drop(l.devices(GPU, 1, healthy(&["d1", "d2"]))), None),
        (
            "unhealthy",
            |l| drop(l.devices(GPU, 1, vec![device("d2", Health::Unhealthy, &[])])),
            Some(Conflict::Device { resource: GPU.into(), id: "d2".into() }),
        ),
        (
            "away",
            |l| drop(l.stopped(GPU, 1, Instant::now())),
            Some(Conflict::Plugin { resource: GPU.into() }),
        ),
        ("registered again", |l| l.register(GPU, 2), Some(Conflict::Plugin { resource: GPU.into() })),
        (
            "registered again, the same list",
            |l| {
                l.register(GPU, 2);
                l.devices(GPU, 2, healthy(&["d1", "d2"]));
            },
            None,
        ),
        ("released", |l| assert!(l.release("p")), Some(Conflict::Pod { uid: "p".into() })),
        (
            "found at the runtime",
            |l| l.recover("q", "c", GPU, [(-1, ids(&["d2"]))].into()),
            Some(Conflict::Device { resource: GPU.into(), id: "d2".into() }),
        ),
    ];
    for (what, change, expected) in cases {
        let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
        give(&mut allocations, &pod("p", &[("a", Regular, &[(GPU, 1)])])).unwrap();
        let both = pod("p", &[("a", Regular, &[(GPU, 1)]), ("b", Regular, &[(GPU, 1)])]);
        let plan = allocations.plan(&both).unwrap();
        change(&mut allocations);
        assert_eq!(allocations.reserve(plan).err(), expected, "{what}");
    }
}

#[test]
fn a_pod_has_at_most_one_reservation() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    let other = allocations.plan(&one("p", GPU, 1)).unwrap();
    let first = reserve(&mut allocations, "p", 1);
    assert_eq!(allocations.reserve(other).unwrap_err(), Conflict::Pod { uid: "p".into() });
    drop(first);
    let _again = reserve(&mut allocations, "p", 1);
}

#[test]
fn a_reservation_of_a_released_pod_is_void() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    let reservation = reserve(&mut allocations, "p", 1);
    let other = reserve(&mut allocations, "q", 1);
    assert!(!allocations.release("p"));
    // A dropped reservation in addition changes nothing.
    drop(other);
    let responses = answers(&reservation);
    assert!(!allocations.commit(reservation, responses));
    assert!(allocations.of_pod("p").is_empty());
    give(&mut allocations, &one("r", GPU, 2)).unwrap();
}

#[test]
fn reserved_devices_that_their_pod_loses_are_not_given_to_others() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    let init = pod("p", &[("i", Init, &[(GPU, 1)])]);
    give(&mut allocations, &init).unwrap();
    let demand = pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Regular, &[(GPU, 1)])]);
    let plan = allocations.plan(&demand).unwrap();
    let reservation = allocations.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["d1"]));
    assert!(allocations.release_surplus(&init));
    give(&mut allocations, &one("q", GPU, 1)).unwrap();
    assert_eq!(has(&allocations, "q", "c", GPU), ids(&["d2"]));
    assert!(allocations.commit(reservation, BTreeMap::new()));
    assert_eq!(has(&allocations, "p", "c", GPU), ids(&["d1"]));
}

#[test]
fn a_plugin_that_gave_no_answer_is_asked_again() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2", "d3"]));
    let demand = pod("p", &[("a", Regular, &[(GPU, 1)]), ("b", Regular, &[(GPU, 1)])]);
    let plan = allocations.plan(&demand).unwrap();
    let reservation = allocations.reserve(plan).unwrap();
    let mut responses = answers(&reservation);
    responses.remove(&("b".to_owned(), GPU.to_owned()));
    assert!(allocations.commit(reservation, responses));
    let plan = allocations.plan(&demand).unwrap();
    assert!(!plan.is_empty());
    assert_eq!(plan.question(), None);
    let reservation = allocations.reserve(plan).unwrap();
    assert_eq!(reservation.requests().len(), 1);
    assert_eq!(
        (reservation.requests()[0].container.as_str(), &reservation.requests()[0].devices),
        ("b", &ids(&["d2"]))
    );
}
