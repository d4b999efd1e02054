use super::*;

/// A reservation of `wanted` for a pod of one container.
fn reserve(ledger: &mut Ledger, uid: &str, wanted: usize) -> Reservation {
    let plan = ledger.plan(&one(uid, GPU, wanted)).unwrap();
    ledger.reserve(plan).unwrap()
}

#[test]
fn reserved_devices_are_taken_until_it_is_cancelled_or_dropped() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    let first = reserve(&mut ledger, "p", 1);
    let request = Request { container: "c".into(), resource: GPU.into(), devices: ids(&["d1"]) };
    assert_eq!(first.requests(), [request]);
    assert!(matches!(ledger.plan(&one("q", GPU, 2)).unwrap_err(), Refusal::Insufficient { free: 1, .. }));
    // No container has it yet.
    assert_eq!(numbers(&ledger, GPU), (2, 2, 0));
    assert!(ledger.checkpoint().entries.is_empty());
    ledger.cancel(first);
    let both = reserve(&mut ledger, "q", 2);
    drop(both);
    give(&mut ledger, &one("r", GPU, 2)).unwrap();
}

#[test]
fn of_two_plans_for_one_device_the_second_is_refused_and_marks_nothing() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    let (first, second) = (ledger.plan(&one("p", GPU, 1)).unwrap(), ledger.plan(&one("q", GPU, 2)).unwrap());
    let first = ledger.reserve(first).unwrap();
    let conflict = Conflict::Device { resource: GPU.into(), id: "d1".into() };
    assert_eq!(ledger.reserve(second).unwrap_err(), conflict);
    give(&mut ledger, &one("r", GPU, 1)).unwrap();
    assert_eq!(has(&ledger, "r", "c", GPU), ids(&["d2"]));
    let responses = answers(&first);
    assert!(ledger.commit(first, responses));
    assert_eq!(has(&ledger, "p", "c", GPU), ids(&["d1"]));
}

#[test]
fn a_plan_stands_only_as_long_as_what_it_stands_on() {
    type Change = fn(&mut Ledger);
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
        ("registered anew", |l| l.register(GPU, 2), Some(Conflict::Plugin { resource: GPU.into() })),
        (
            "registered anew, the same list",
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
        let mut ledger = with(GPU, healthy(&["d1", "d2"]));
        give(&mut ledger, &pod("p", &[("a", Ordinary, &[(GPU, 1)])])).unwrap();
        let both = pod("p", &[("a", Ordinary, &[(GPU, 1)]), ("b", Ordinary, &[(GPU, 1)])]);
        let plan = ledger.plan(&both).unwrap();
        change(&mut ledger);
        assert_eq!(ledger.reserve(plan).err(), expected, "{what}");
    }
}

#[test]
fn one_reservation_a_pod() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    let other = ledger.plan(&one("p", GPU, 1)).unwrap();
    let first = reserve(&mut ledger, "p", 1);
    assert_eq!(ledger.reserve(other).unwrap_err(), Conflict::Pod { uid: "p".into() });
    drop(first);
    let _again = reserve(&mut ledger, "p", 1);
}

#[test]
fn a_reservation_of_a_released_pod_is_void() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    let reservation = reserve(&mut ledger, "p", 1);
    let other = reserve(&mut ledger, "q", 1);
    assert!(!ledger.release("p"));
    // One that was dropped beside it makes it no less void.
    drop(other);
    let responses = answers(&reservation);
    assert!(!ledger.commit(reservation, responses));
    assert!(ledger.allocations("p").is_empty());
    give(&mut ledger, &one("r", GPU, 2)).unwrap();
}

#[test]
fn retain_leaves_reservations_to_those_who_made_them() {
    let mut ledger = with(GPU, healthy(&["d1"]));
    let reservation = reserve(&mut ledger, "p", 1);
    assert!(ledger.retain(|_| false).is_empty());
    assert!(ledger.plan(&one("q", GPU, 1)).is_err());
    assert!(ledger.commit(reservation, BTreeMap::new()));
    assert_eq!(ledger.retain(|_| false), ["p"]);
}

#[test]
fn what_a_pod_loses_while_it_is_reserved_nobody_else_gets() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    let init = pod("p", &[("i", Init, &[(GPU, 1)])]);
    give(&mut ledger, &init).unwrap();
    let demand = pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Ordinary, &[(GPU, 1)])]);
    let plan = ledger.plan(&demand).unwrap();
    let reservation = ledger.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["d1"]));
    assert!(ledger.release_surplus(&init));
    give(&mut ledger, &one("q", GPU, 1)).unwrap();
    assert_eq!(has(&ledger, "q", "c", GPU), ids(&["d2"]));
    assert!(ledger.commit(reservation, BTreeMap::new()));
    assert_eq!(has(&ledger, "p", "c", GPU), ids(&["d1"]));
}

#[test]
fn a_plugin_that_gave_no_answer_is_asked_again() {
    let mut ledger = with(GPU, healthy(&["d1", "d2", "d3"]));
    let demand = pod("p", &[("a", Ordinary, &[(GPU, 1)]), ("b", Ordinary, &[(GPU, 1)])]);
    let plan = ledger.plan(&demand).unwrap();
    let reservation = ledger.reserve(plan).unwrap();
    let mut responses = answers(&reservation);
    responses.remove(&("b".to_owned(), GPU.to_owned()));
    assert!(ledger.commit(reservation, responses));
    let plan = ledger.plan(&demand).unwrap();
    assert!(!plan.is_empty());
    assert_eq!(plan.question(), None);
    let reservation = ledger.reserve(plan).unwrap();
    assert_eq!(reservation.requests().len(), 1);
    assert_eq!(
        (reservation.requests()[0].container.as_str(), &reservation.requests()[0].devices),
        ("b", &ids(&["d2"]))
    );
}
