use super::*;

/// `TestUpdateCapacityAllocatable`: lists, another resource, the end of a plugin, its grace, and its return.
#[test]
fn capacity_and_allocatable_follow_the_plugin() {
    let start = Instant::now();
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    assert_eq!(numbers(&ledger, GPU), (2, 2, 0));
    let ill = |id| device(id, Health::Unhealthy, &[]);
    ledger.devices(GPU, 1, [healthy(&["d1", "d2"]), vec![ill("d3")]].concat());
    assert_eq!(numbers(&ledger, GPU), (3, 2, 0));
    ledger.devices(GPU, 1, [healthy(&["d3"]), vec![ill("d2")]].concat());
    assert_eq!(numbers(&ledger, GPU), (2, 1, 0));
    ledger.register(NIC, 1);
    assert_eq!(numbers(&ledger, NIC), (0, 0, 0));
    ledger.devices(NIC, 1, healthy(&["n1"]));

    let changes = ledger.stopped(GPU, 1, start);
    let health: Vec<_> = changes.health.iter().map(|c| (c.id.as_str(), c.before, c.after)).collect();
    let expected = [("d2", Health::Unhealthy, Health::Unknown), ("d3", Health::Healthy, Health::Unknown)];
    assert!(changes.changed);
    assert_eq!(health, expected);
    assert_eq!(numbers(&ledger, GPU), (2, 0, 0));
    assert_eq!(state(&ledger, GPU).away_since, Some(start));
    assert_eq!(ledger.plan(&one("p", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });

    assert_eq!(ledger.next_expiry(), Some(start + GRACE));
    assert!(ledger.expire(start + GRACE - Duration::from_nanos(1)).is_empty());
    assert_eq!(ledger.expire(start + GRACE), [GPU]);
    assert_eq!(ledger.next_expiry(), None);
    assert!(ledger.resources().iter().all(|r| r.name != GPU));
    assert_eq!(ledger.plan(&one("p", GPU, 1)).unwrap_err(), Refusal::Unknown { resource: GPU.into() });
    assert_eq!(numbers(&ledger, NIC), (1, 1, 0));

    ledger.register(GPU, 2);
    ledger.devices(GPU, 2, healthy(&["d1"]));
    give(&mut ledger, &one("p", GPU, 1)).unwrap();
}

#[test]
fn pods_keep_their_devices_of_a_dropped_resource() {
    let start = Instant::now();
    let mut ledger = with(GPU, healthy(&["d1"]));
    give(&mut ledger, &one("p", GPU, 1)).unwrap();
    ledger.stopped(GPU, 1, start);
    assert!(ledger.plan(&one("p", GPU, 1)).unwrap().is_empty());
    ledger.expire(start + GRACE);
    assert!(ledger.plan(&one("p", GPU, 1)).unwrap().is_empty());
    assert_eq!(has(&ledger, "p", "c", GPU), ids(&["d1"]));
    // A resource that pods have devices of is no unknown one.
    assert_eq!(ledger.plan(&one("q", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });
    ledger.register(GPU, 2);
    let changes = ledger.devices(GPU, 2, healthy(&["d1"]));
    assert_eq!(changes.health[0].owner, Some(("p".to_owned(), "c".to_owned())));
    assert!(matches!(ledger.plan(&one("q", GPU, 1)).unwrap_err(), Refusal::Insufficient { free: 0, .. }));
}

#[test]
fn a_new_registration_leaves_no_gap_and_older_ones_are_passed_over() {
    let start = Instant::now();
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    give(&mut ledger, &one("p", GPU, 1)).unwrap();
    ledger.register(GPU, 3);
    assert_eq!(numbers(&ledger, GPU), (2, 2, 1));
    assert_eq!(ledger.health(GPU, "d1"), Health::Healthy);
    // Nothing is given by the list of the one before.
    assert_eq!(ledger.plan(&one("q", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });

    for old in [1, 2] {
        assert_eq!(ledger.devices(GPU, old, healthy(&["x"])), Changes::default());
        assert_eq!(ledger.stopped(GPU, old, start), Changes::default());
        ledger.register(GPU, old);
    }
    assert_eq!(numbers(&ledger, GPU), (2, 2, 1));
    let changes = ledger.devices(GPU, 3, healthy(&["d1", "d2"]));
    assert_eq!(changes, Changes { changed: true, health: Vec::new() });
    assert!(ledger.plan(&one("q", GPU, 1)).is_ok());

    // What has ended says nothing more, and cannot end again.
    ledger.stopped(GPU, 3, start);
    assert_eq!(ledger.devices(GPU, 3, healthy(&["x"])), Changes::default());
    assert_eq!(ledger.stopped(GPU, 3, start + GRACE), Changes::default());
    ledger.register(GPU, 3);
    assert_eq!(state(&ledger, GPU).away_since, Some(start));
    // Back, and silent yet: as it was while it was away.
    ledger.register(GPU, 4);
    assert_eq!((state(&ledger, GPU).away_since, ledger.health(GPU, "d1")), (None, Health::Unknown));
    assert_eq!(numbers(&ledger, GPU), (2, 0, 1));
    assert_eq!(ledger.devices(GPU, 4, healthy(&["d1"])).health.len(), 1);
}

#[test]
fn the_same_list_changes_nothing() {
    let mut ledger = with(GPU, healthy(&["d1", "d2"]));
    assert_eq!(ledger.devices(GPU, 1, healthy(&["d2", "d1"])), Changes::default());
    assert!(ledger.devices(GPU, 1, vec![device("d1", Health::Healthy, &[1])]).changed);
}

#[test]
fn lists_that_lie_count_each_device_once_and_as_the_worse_one() {
    let (good, bad) = (Health::Healthy, Health::Unhealthy);
    let list = vec![
        device("d1", good, &[0]),
        device("", good, &[]),
        device("d1", good, &[1]),
        device("d2", good, &[]),
        device("d2", bad, &[]),
        device("d3", bad, &[]),
        device("d3", good, &[]),
    ];
    let mut ledger = with(GPU, list);
    assert_eq!(numbers(&ledger, GPU), (3, 1, 0));
    assert_eq!(state(&ledger, GPU).devices[0].numa, [0, 1].into());
    assert!(ledger.plan(&one("p", GPU, 2)).is_err());
    give(&mut ledger, &one("p", GPU, 1)).unwrap();
    assert_eq!(ledger.health(GPU, "d2"), bad);
    assert_eq!(ledger.health(GPU, ""), Health::Unknown);
    assert_eq!(ledger.health(NIC, "d1"), Health::Unknown);
}

#[test]
fn what_nobody_registered_has_no_devices() {
    let mut ledger = Ledger::new(GRACE);
    assert_eq!(ledger.devices(GPU, 1, healthy(&["d1"])), Changes::default());
    assert_eq!(ledger.stopped(GPU, 1, Instant::now()), Changes::default());
    assert!(ledger.resources().is_empty());
}

#[test]
fn what_admitted_pods_can_have_together() {
    let mut ledger = with(GPU, healthy(&["g0", "g1", "g2", "g3"]));
    for uid in ["ours", "theirs"] {
        give(&mut ledger, &one(uid, GPU, 1)).unwrap();
    }
    let usable = |ledger: &Ledger| ledger.usable(GPU, |uid| uid == "ours");
    assert_eq!(usable(&ledger), Some(3), "the two that are free, and its own");
    let sick = ["g0", "g1", "g2", "g3"].map(|id| device(id, Health::Unhealthy, &[])).to_vec();
    assert!(ledger.devices(GPU, 1, sick).changed);
    assert_eq!(usable(&ledger), Some(1), "its own stays its own");
    assert!(ledger.stopped(GPU, 1, Instant::now()).changed);
    assert_eq!(usable(&ledger), None, "its plugin is away");
    assert_eq!(ledger.usable(NIC, |_| true), None);
}
