use super::super::numa::{Want, pick};
use super::*;

/// Devices by name and nodes.
type Places<'a> = &'a [(&'a str, &'a [i64])];

/// Devices of a resource, all healthy.
fn on(list: Places<'_>) -> Vec<Device> {
    list.iter().map(|(id, numa)| device(id, Health::Healthy, numa)).collect()
}

/// What is picked of the first of these wants, by a container that has so many devices on a node.
fn picked(wants: &[(usize, Places<'_>)], near: &[(i64, usize)]) -> Vec<String> {
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
fn devices_are_picked_by_nodes() {
    let three: Places<'_> = &[("a", &[0]), ("b", &[1]), ("c", &[1]), ("d", &[2]), ("e", &[2]), ("f", &[2])];
    let none: Places<'_> = &[("a", &[]), ("b", &[])];
    let mixed: Places<'_> = &[("a", &[]), ("b", &[0]), ("c", &[1]), ("d", &[])];
    let both: Places<'_> = &[("a", &[0]), ("b", &[0, 1]), ("c", &[1])];
    type Case<'a> = (&'a str, &'a [(usize, Places<'a>)], &'a [(i64, usize)], &'a [&'a str]);
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

/// `TestTopologyAlignedAllocation` without a topology manager: one node by preference, never at the cost of the devices.
#[test]
fn a_container_gets_its_devices_from_one_node() {
    let mut ledger = with(GPU, on(&[("g0", &[0]), ("g1", &[1]), ("g2", &[1]), ("g3", &[1])]));
    ledger.register(NIC, 1);
    ledger.devices(NIC, 1, on(&[("n0", &[0]), ("n1", &[1])]));
    give(&mut ledger, &pod("p", &[("c", Ordinary, &[(GPU, 2), (NIC, 1)])])).unwrap();
    assert_eq!(ledger.allocations("p")["c"][GPU].devices, [(1, ids(&["g1", "g2"]))].into());
    assert_eq!(ledger.allocations("p")["c"][NIC].devices, [(1, ids(&["n1"]))].into());
    give(&mut ledger, &pod("q", &[("c", Ordinary, &[(GPU, 2), (NIC, 1)])])).unwrap();
    assert_eq!(has(&ledger, "q", "c", GPU), ids(&["g0", "g3"]));
}

#[test]
fn nodes_are_written_down_as_the_plugin_names_them() {
    let mut ledger = with(GPU, on(&[("a", &[0, 1]), ("b", &[1]), ("c", &[])]));
    give(&mut ledger, &one("p", GPU, 3)).unwrap();
    let devices = &ledger.allocations("p")["c"][GPU].devices;
    assert_eq!(*devices, [(-1, ids(&["c"])), (0, ids(&["a"])), (1, ids(&["a", "b"]))].into());
}

/// `TestGetPreferredAllocationParameters`.
#[test]
fn a_plugin_is_asked_where_there_is_a_choice() {
    let mut ledger = with(GPU, healthy(&["d1", "d2", "d3", "d4"]));
    give(&mut ledger, &one("old", GPU, 1)).unwrap();
    let demand =
        pod("p", &[("i", Init, &[(GPU, 1)]), ("c", Ordinary, &[(GPU, 2)]), ("e", Ordinary, &[(GPU, 1)])]);
    let mut plan = ledger.plan(&demand).unwrap();
    let question = |container: &str, available: &[&str], must: &[&str], size| {
        let (container, resource) = (container.to_owned(), GPU.to_owned());
        let (available, must_include) = (strings(available), strings(must));
        Some(Question { container, resource, available, must_include, size })
    };
    assert_eq!(plan.question(), question("i", &["d2", "d3", "d4"], &[], 1));
    // What it must not have, and what nobody knows, is passed over; then the first that it may.
    plan.choose(&strings(&["d1", "d9", "d4", "d3"]));
    assert_eq!(plan.question(), question("c", &["d2", "d3", "d4"], &["d4"], 2));
    plan.choose(&[]);
    // One is free and one is wanted: no choice.
    assert_eq!(plan.question(), None);
    plan.choose(&strings(&["d2"]));
    let reservation = ledger.reserve(plan).unwrap();
    let devices: Vec<_> = reservation.requests().into_iter().map(|r| r.devices).collect();
    assert_eq!(devices, [ids(&["d4"]), ids(&["d2", "d4"]), ids(&["d3"])]);
}

#[test]
fn questions_come_by_containers_and_then_by_resource() {
    let mut ledger = with("b.b/b", healthy(&["1", "2", "3", "4"]));
    ledger.register("a.a/a", 1);
    ledger.devices("a.a/a", 1, healthy(&["1", "2", "3", "4"]));
    let both: &[(&str, usize)] = &[("b.b/b", 1), ("a.a/a", 1)];
    let mut plan = ledger.plan(&pod("p", &[("z", Ordinary, both), ("c", Ordinary, both)])).unwrap();
    let mut order = Vec::new();
    while let Some(question) = plan.question() {
        order.push(format!("{} {}", question.container, question.resource));
        plan.choose(&[]);
    }
    assert_eq!(order, ["z a.a/a", "z b.b/b", "c a.a/a", "c b.b/b"]);
}

#[test]
fn what_a_plugin_leaves_open_is_chosen_beside_what_it_prefers() {
    let mut ledger = with(GPU, on(&[("a", &[0]), ("b", &[0]), ("c", &[1]), ("d", &[1]), ("e", &[1])]));
    let mut plan = ledger.plan(&one("p", GPU, 2)).unwrap();
    plan.choose(&strings(&["d"]));
    let reservation = ledger.reserve(plan).unwrap();
    assert_eq!(reservation.requests()[0].devices, ids(&["c", "d"]));
}
