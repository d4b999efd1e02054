//! Cases of the kubelet's `TestGetTopologyHints` and `TestTopologyAlignedAllocation`.

use std::collections::BTreeMap;
use std::time::Duration;

use nodewarden_manifest::ContainerKind::{Init, Regular};
use nodewarden_model::Health;
use nodewarden_topology::NodeSet;

use crate::allocations::DeviceAllocations;
use crate::types::Device;
use crate::{ContainerDemand, PodDemand};

const GPU: &str = "example.com/gpu";

fn allocations(devices: &[(&str, &[i64])]) -> DeviceAllocations {
    let mut allocations = DeviceAllocations::new(Duration::from_secs(1));
    allocations.register(GPU, 1);
    let list = devices.iter().map(|(id, numa)| Device {
        id: (*id).to_owned(),
        health: Health::Healthy,
        numa: numa.iter().copied().collect(),
    });
    allocations.devices(GPU, 1, list.collect());
    allocations
}

fn demand(uid: &str, containers: &[(&str, nodewarden_manifest::ContainerKind, usize)]) -> PodDemand {
    let containers = containers.iter().map(|(name, kind, wanted)| ContainerDemand {
        name: (*name).to_owned(),
        kind: *kind,
        wanted: [(GPU.to_owned(), *wanted)].into(),
    });
    PodDemand { uid: uid.to_owned(), containers: containers.collect() }
}

fn wanted(count: usize) -> BTreeMap<String, usize> {
    [(GPU.to_owned(), count)].into()
}

fn nodes(list: &str) -> NodeSet {
    NodeSet::parse(list).unwrap()
}

/// Hints as `0*,1*,0-1`.
fn shown(hints: &nodewarden_topology::Hints) -> String {
    match &hints[GPU] {
        None => "any".to_owned(),
        Some(hints) => hints.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    }
}

const FOUR: &[(&str, &[i64])] = &[("a", &[0]), ("b", &[0]), ("c", &[1]), ("d", &[1])];

#[test]
fn hints_are_the_nodes_with_enough_free_devices() {
    for (devices, count, expected) in [
        (FOUR, 1, "0* 1* 0-1"),
        (FOUR, 2, "0* 1* 0-1"),
        (FOUR, 3, "0-1*"),
        (&[("a", &[][..]), ("b", &[][..])], 1, "any"),
        (&[("a", &[0][..]), ("b", &[][..])], 1, "0* 0-1"),
        // A device without a node is in none.
        (&[("a", &[0][..]), ("b", &[][..])], 2, ""),
        (&[("a", &[0, 1][..]), ("b", &[1][..])], 2, "1* 0-1"),
    ] {
        let plan = allocations(devices).plan_by_container(&demand("p", &[("c", Regular, count)])).unwrap();
        assert_eq!(shown(&plan.hints("c", &wanted(count), nodes("0-1"))), expected, "{devices:?} {count}");
        assert_eq!(shown(&plan.pod_hints(&wanted(count), nodes("0-1"))), expected, "{devices:?} {count}");
    }
}

#[test]
fn a_container_gets_the_devices_of_its_nodes() {
    let mut all = allocations(FOUR);
    for (uid, list, count, expected) in [("p", "1", 1, "c"), ("q", "1", 2, "a d"), ("r", "1", 1, "b")] {
        let mut plan = all.plan_by_container(&demand(uid, &[("c", Regular, count)])).unwrap();
        plan.begin("c", Some(nodes(list)));
        let reservation = all.reserve(plan).unwrap();
        let ids: Vec<String> = reservation.requests().into_iter().flat_map(|own| own.devices).collect();
        assert_eq!(ids.join(" "), expected, "{uid}");
        assert!(all.commit(reservation, BTreeMap::new()));
    }
}

#[test]
fn a_plugin_is_asked_only_for_devices_of_the_nodes() {
    let all = allocations(FOUR);
    let mut plan = all.plan_by_container(&demand("p", &[("c", Regular, 1)])).unwrap();
    assert_eq!(plan.question(), None, "the container has not begun");
    plan.begin("c", Some(nodes("1")));
    assert_eq!(plan.question().unwrap().available, ["c", "d"]);
    plan.choose(&["a".to_owned(), "d".to_owned()]);
    let reservation = allocations(FOUR).reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ["d".to_owned()].into());
}

/// The devices of init containers are used again, so that only their nodes can be hints.
#[test]
fn devices_of_init_containers_bind_later_containers_to_their_nodes() {
    let all = allocations(FOUR);
    let mut plan = all.plan_by_container(&demand("p", &[("i", Init, 1), ("c", Regular, 1)])).unwrap();
    plan.begin("i", Some(nodes("1")));
    plan.choose(&[]);
    assert_eq!(shown(&plan.hints("c", &wanted(1), nodes("0-1"))), "1* 0-1");
}

#[test]
fn a_container_that_has_its_devices_keeps_their_nodes() {
    let mut all = allocations(FOUR);
    let own = demand("p", &[("c", Regular, 2)]);
    let mut plan = all.plan_by_container(&own).unwrap();
    plan.begin("c", Some(nodes("0")));
    let reservation = all.reserve(plan).unwrap();
    let answers = reservation.requests().into_iter().map(|r| ((r.container, r.resource), Vec::new()));
    let answers = answers.collect();
    assert!(all.commit(reservation, answers));
    let plan = all.plan_by_container(&own).unwrap();
    assert!(plan.is_empty());
    assert_eq!(shown(&plan.hints("c", &wanted(2), nodes("0-1"))), "0* 0-1");
    assert_eq!(shown(&plan.hints("c", &wanted(1), nodes("0-1"))), "", "another number of them");
}
