use super::super::numa::{Want, pick};
use super::super::plan::Question;
use super::*;

/// Device ids with their NUMA nodes.
type IdsWithNodes<'a> = &'a [(&'a str, &'a [i64])];

/// Healthy devices with these ids and nodes.
fn on(list: IdsWithNodes<'_>) -> Vec<Device> {
    list.iter().map(|(id, numa)| device(id, Health::Healthy, numa)).collect()
}

/// The devices picked for the first of these wants; `near` is the number of devices that the container has by
/// node.
fn picked(wants: &[(usize, IdsWithNodes<'_>)], near: &[(i64, usize)]) -> Vec<String> {
    let lists: Vec<_> = wants.iter().map(|(need, list)| (*need, on(list))).collect();
    let wants: Vec<_> = lists
        .iter()
        .map(|(need, list)| Want {
            need: *need,
            candidates: list.iter().map(|d| (d.id.as_str(), Some(&d.numa))).collect(),
        })
        .collect();
    pick(&wants, &near.iter().copied().collect()).into_iter().map(str::to_owned).collect()
}

#[test]
fn devices_are_picked_by_numa_node() {
    let three: IdsWithNodes<'_> =
        &[("a", &[0]), ("b", &[1]), ("c", &[1]), ("d", &[2]), ("e", &[2]), ("f", &[2])];
    let none: IdsWithNodes<'_> = &[("a", &[]), ("b", &[])];
    let mixed: IdsWithNodes<'_> = &[("a", &[]), ("b", &[0]), ("c", &[1]), ("d", &[])];
    let both: IdsWithNodes<'_> = &[("a", &[0]), ("b", &[0, 1]), ("c", &[1])];
    type Case<'a> = (&'a str, &'a [(usize, IdsWithNodes<'a>)], &'a [(i64, usize)], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        ("the fullest node that holds one", &[(1, three)], &[], &["a"]),
        ("the fullest node that holds two", &[(2, three)], &[], &["b", "c"]),
        ("the only node that holds three", &[(3, three)], &[], &["d", "e", "f"]),
        ("no node holds four: two do", &[(4, three)], &[], &["d", "e", "f", "a"]),
        ("no node holds five: two do", &[(5, three)], &[], &["d", "e", "f", "b", "c"]),
        ("more than there are", &[(9, three)], &[], &["d", "e", "f", "b", "c", "a"]),
        ("nothing", &[(0, three)], &[], &[]),
        ("near what the container has", &[(1, three)], &[(1, 1), (2, 2)], &["d"]),
        ("near, if it holds all", &[(3, three)], &[(0, 1)], &["d", "e", "f"]),
        ("no nodes: by id", &[(1, none)], &[(0, 1)], &["a"]),
        ("those of no node last", &[(3, mixed)], &[], &["b", "c", "a"]),
        ("one that is on both nodes", &[(2, both)], &[(1, 1)], &["b", "c"]),
        ("where the other resource is", &[(1, three), (1, &[("n", &[2])])], &[], &["d"]),
        (
            "where enough of the other is",
            &[(1, three), (2, &[("n", &[0]), ("m", &[1]), ("o", &[1])])],
            &[],
            &["b"],
        ),
        ("the other is nowhere", &[(1, three), (1, none)], &[], &["a"]),
        ("nothing of the other is wanted", &[(1, three), (0, &[("n", &[2])])], &[], &["a"]),
        ("the other is on no node of ours", &[(1, three), (1, &[("n", &[7])])], &[], &["a"]),
        ("best fit counts both", &[(1, both), (1, &[("n", &[0]), ("m", &[0]), ("o", &[1])])], &[], &["b"]),
    ];
    for (what, wants, near, expected) in cases {
        assert_eq!(picked(wants, near), *expected, "{what}");
    }
}

/// `TestTopologyAlignedAllocation` without a topology manager: one node is preferred, but never at the cost
/// of the number of devices.
#[test]
fn a_container_gets_its_devices_from_one_node() {
    let mut allocations = with_plugin(GPU, on(&[("g0", &[0]), ("g1", &[1]), ("g2", &[1]), ("g3", &[1])]));
    allocations.register(NIC, 1);
    allocations.devices(NIC, 1, on(&[("n0", &[0]), ("n1", &[1])]));
    give(&mut allocations, &pod("p", &[("c", Regular, &[(GPU, 2), (NIC, 1)])])).unwrap();
    assert_eq!(allocations.of_pod("p")["c"][GPU].devices, [(1, ids(&["g1", "g2"]))].into());
    assert_eq!(allocations.of_pod("p")["c"][NIC].devices, [(1, ids(&["n1"]))].into());
    give(&mut allocations, &pod("q", &[("c", Regular, &[(GPU, 2), (NIC, 1)])])).unwrap();
    assert_eq!(has(&allocations, "q", "c", GPU), ids(&["g0", "g3"]));
}

#[test]
fn allocations_record_the_nodes_that_the_plugin_lists() {
    let mut allocations = with_plugin(GPU, on(&[("a", &[0, 1]), ("b", &[1]), ("c", &[])]));
    give(&mut allocations, &one("p", GPU, 3)).unwrap();
    let devices = &allocations.of_pod("p")["c"][GPU].devices;
    assert_eq!(*devices, [(-1, ids(&["c"])), (0, ids(&["a"])), (1, ids(&["a", "b"]))].into());
}

/// `TestGetPreferredAllocationParameters`.
#[test]
fn a_plugin_is_asked_only_if_there_is_a_choice() {
    let mut allocations = with_plugin(GPU, healthy(&["d1", "d2", "d3", "d4"]));
    give(&mut allocations, &one("old", GPU, 1)).unwrap();
    let demand =
        pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Regular, &[(GPU, 2)]), ("e", Regular, &[(GPU, 1)])]);
    let mut plan = allocations.plan(&demand).unwrap();
    let question = |container: &str, available: &[&str], must: &[&str], size| {
        let (container, resource) = (container.to_owned(), GPU.to_owned());
        let (available, must_include) = (strings(available), strings(must));
        Some(Question { container, resource, available, must_include, size })
    };
    assert_eq!(plan.question(), question("i", &["d2", "d3", "d4"], &[], 1));
    // Preferred devices that are not available or not known are ignored; the first available ones are taken.
    plan.choose(&strings(&["d1", "d9", "d4", "d3"]));
    assert_eq!(plan.question(), question("c", &["d2", "d3", "d4"], &["d4"], 2));
    plan.choose(&[]);
    // One device is free and one is wanted: there is no choice.
    assert_eq!(plan.question(), None);
    plan.choose(&strings(&["d2"]));
    let reservation = allocations.reserve(plan).unwrap();
    let devices: Vec<_> = reservation.requests().into_iter().map(|r| r.devices).collect();
    assert_eq!(devices, [ids(&["d4"]), ids(&["d2", "d4"]), ids(&["d3"])]);
}

#[test]
fn questions_come_by_container_and_then_by_resource() {
    let mut allocations = with_plugin("b.b/b", healthy(&["1", "2", "3", "4"]));
    allocations.register("a.a/a", 1);
    allocations.devices("a.a/a", 1, healthy(&["1", "2", "3", "4"]));
    let both: &[(&str, usize)] = &[("b.b/b", 1), ("a.a/a", 1)];
    let mut plan = allocations.plan(&pod("p", &[("z", Regular, both), ("c", Regular, both)])).unwrap();
    let mut order = Vec::new();
    while let Some(question) = plan.question() {
        order.push(format!("{} {}", question.container, question.resource));
        plan.choose(&[]);
    }
    assert_eq!(order, ["z a.a/a", "z b.b/b", "c a.a/a", "c b.b/b"]);
}

#[test]
fn devices_that_a_plugin_does_not_prefer_fill_what_is_missing() {
    let mut allocations =
        with_plugin(GPU, on(&[("a", &[0]), ("b", &[0]), ("c", &[1]), ("d", &[1]), ("e", &[1])]));
    let mut plan = allocations.plan(&one("p", GPU, 2)).unwrap();
    plan.choose(&strings(&["d"]));
    let reservation = allocations.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["c", "d"]));
}
