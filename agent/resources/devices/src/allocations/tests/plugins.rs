use super::super::plugins::Changes;
use super::*;

/// `TestUpdateCapacityAllocatable`: lists, another resource, the end of a plugin, its grace, and its return.
#[test]
fn capacity_and_allocatable_follow_the_plugin() {
    let start = Instant::now();
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    assert_eq!(numbers(&allocations, GPU), (2, 2, 0));
    let unhealthy = |id| device(id, Health::Unhealthy, &[]);
    allocations.devices(GPU, 1, [healthy(&["d1", "d2"]), vec![unhealthy("d3")]].concat());
    assert_eq!(numbers(&allocations, GPU), (3, 2, 0));
    allocations.devices(GPU, 1, [healthy(&["d3"]), vec![unhealthy("d2")]].concat());
    assert_eq!(numbers(&allocations, GPU), (2, 1, 0));
    allocations.register(NIC, 1);
    assert_eq!(numbers(&allocations, NIC), (0, 0, 0));
    allocations.devices(NIC, 1, healthy(&["n1"]));

    let changes = allocations.stopped(GPU, 1, start);
    let health: Vec<_> = changes.health.iter().map(|c| (c.id.as_str(), c.before, c.after)).collect();
    let expected = [("d2", Health::Unhealthy, Health::Unknown), ("d3", Health::Healthy, Health::Unknown)];
    assert!(changes.changed);
    assert_eq!(health, expected);
    assert_eq!(numbers(&allocations, GPU), (2, 0, 0));
    assert_eq!(state(&allocations, GPU).away_since, Some(start));
    assert_eq!(allocations.plan(&one("p", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });

    assert_eq!(allocations.next_expiry(), Some(start + GRACE));
    assert!(allocations.expire(start + GRACE - Duration::from_nanos(1)).is_empty());
    assert_eq!(allocations.expire(start + GRACE), [GPU]);
    assert_eq!(allocations.next_expiry(), None);
    assert!(allocations.resources().iter().all(|r| r.name != GPU));
    assert_eq!(allocations.plan(&one("p", GPU, 1)).unwrap_err(), Refusal::Unknown { resource: GPU.into() });
    assert_eq!(numbers(&allocations, NIC), (1, 1, 0));

    allocations.register(GPU, 2);
    allocations.devices(GPU, 2, healthy(&["d1"]));
    give(&mut allocations, &one("p", GPU, 1)).unwrap();
}

#[test]
fn pods_keep_their_devices_of_a_dropped_resource() {
    let start = Instant::now();
    let mut allocations = with_plugin(GPU, healthy(&["d1"]));
    give(&mut allocations, &one("p", GPU, 1)).unwrap();
    allocations.stopped(GPU, 1, start);
    assert!(allocations.plan(&one("p", GPU, 1)).unwrap().is_empty());
    allocations.expire(start + GRACE);
    assert!(allocations.plan(&one("p", GPU, 1)).unwrap().is_empty());
    assert_eq!(has(&allocations, "p", "c", GPU), ids(&["d1"]));
    // A resource of which pods have devices is not unknown.
    assert_eq!(allocations.plan(&one("q", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });
    allocations.register(GPU, 2);
    let changes = allocations.devices(GPU, 2, healthy(&["d1"]));
    assert_eq!(changes.health[0].owner, Some(("p".to_owned(), "c".to_owned())));
    assert!(matches!(
        allocations.plan(&one("q", GPU, 1)).unwrap_err(),
        Refusal::Insufficient { free: 0, .. }
    ));
}

#[test]
fn a_new_registration_keeps_the_devices_and_older_ones_are_ignored() {
    let start = Instant::now();
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    give(&mut allocations, &one("p", GPU, 1)).unwrap();
    allocations.register(GPU, 3);
    assert_eq!(numbers(&allocations, GPU), (2, 2, 1));
    assert_eq!(allocations.health(GPU, "d1"), Health::Healthy);
    // Nothing is allocated from the list of the earlier registration.
    assert_eq!(allocations.plan(&one("q", GPU, 1)).unwrap_err(), Refusal::NotReady { resource: GPU.into() });

    for old in [1, 2] {
        assert_eq!(allocations.devices(GPU, old, healthy(&["x"])), Changes::default());
        assert_eq!(allocations.stopped(GPU, old, start), Changes::default());
        allocations.register(GPU, old);
    }
    assert_eq!(numbers(&allocations, GPU), (2, 2, 1));
    let changes = allocations.devices(GPU, 3, healthy(&["d1", "d2"]));
    assert_eq!(changes, Changes { changed: true, health: Vec::new() });
    assert!(allocations.plan(&one("q", GPU, 1)).is_ok());

    // A registration that has ended cannot send lists or end again.
    allocations.stopped(GPU, 3, start);
    assert_eq!(allocations.devices(GPU, 3, healthy(&["x"])), Changes::default());
    assert_eq!(allocations.stopped(GPU, 3, start + GRACE), Changes::default());
    allocations.register(GPU, 3);
    assert_eq!(state(&allocations, GPU).away_since, Some(start));
    // Registered again without a list yet: the same as while it was stopped.
    allocations.register(GPU, 4);
    assert_eq!((state(&allocations, GPU).away_since, allocations.health(GPU, "d1")), (None, Health::Unknown));
    assert_eq!(numbers(&allocations, GPU), (2, 0, 1));
    assert_eq!(allocations.devices(GPU, 4, healthy(&["d1"])).health.len(), 1);
}

#[test]
fn the_same_list_changes_nothing() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2"]));
    assert_eq!(allocations.devices(GPU, 1, healthy(&["d2", "d1"])), Changes::default());
    assert!(allocations.devices(GPU, 1, vec![device("d1", Health::Healthy, &[1])]).changed);
}

#[test]
fn a_device_listed_twice_counts_once_with_the_worse_health() {
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
    let mut allocations = with_plugin(GPU, list);
    assert_eq!(numbers(&allocations, GPU), (3, 1, 0));
    assert_eq!(state(&allocations, GPU).devices[0].numa, [0, 1].into());
    assert!(allocations.plan(&one("p", GPU, 2)).is_err());
    give(&mut allocations, &one("p", GPU, 1)).unwrap();
    assert_eq!(allocations.health(GPU, "d2"), bad);
    assert_eq!(allocations.health(GPU, ""), Health::Unknown);
    assert_eq!(allocations.health(NIC, "d1"), Health::Unknown);
}

#[test]
fn events_of_an_unregistered_resource_are_ignored() {
    let mut allocations = DeviceAllocations::new(GRACE);
    assert_eq!(allocations.devices(GPU, 1, healthy(&["d1"])), Changes::default());
    assert_eq!(allocations.stopped(GPU, 1, Instant::now()), Changes::default());
    assert!(allocations.resources().is_empty());
}

#[test]
fn usable_counts_devices_of_these_pods_and_free_ones() {
    let mut allocations = with_plugin(GPU, healthy(&["g0", "g1", "g2", "g3"]));
    for uid in ["ours", "theirs"] {
        give(&mut allocations, &one(uid, GPU, 1)).unwrap();
    }
    let usable = |allocations: &DeviceAllocations| allocations.usable(GPU, |uid| uid == "ours");
    assert_eq!(usable(&allocations), Some(3), "the two that are free, and its own");
    let all_unhealthy = ["g0", "g1", "g2", "g3"].map(|id| device(id, Health::Unhealthy, &[])).to_vec();
    assert!(allocations.devices(GPU, 1, all_unhealthy).changed);
    assert_eq!(usable(&allocations), Some(1), "its own stays its own");
    assert!(allocations.stopped(GPU, 1, Instant::now()).changed);
    assert_eq!(usable(&allocations), None, "its plugin is away");
    assert_eq!(allocations.usable(NIC, |_| true), None);
}
