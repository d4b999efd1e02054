use proptest::prelude::*;

use super::super::fixture::{self, Machine, V1, V2};
use super::*;
use crate::cpu;
use nodewarden_config::MemoryReservation;
use nodewarden_machine::cgroup::control::{Bound, CpuShare};

fn names(tree: &Tree) -> Vec<String> {
    tree.groups.keys().map(CgroupName::cgroupfs_path).collect()
}

#[test]
fn cgroups_are_created_below_the_cgroup_root() {
    let mut machine = Machine::new(V2);
    machine.settings.cgroup_root = String::from("/a/b");
    let pods = [
        fixture::pod("1", "{containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}"),
        fixture::pod("2", "{containers: [{name: a, resources: {requests: {cpu: 1}}}]}"),
        fixture::pod("3", "{containers: [{name: a}]}"),
    ];
    let tree = tree(&pods, machine.node()).expect("names");
    let wanted = [
        "/a/b/kubepods",
        "/a/b/kubepods/besteffort",
        "/a/b/kubepods/besteffort/pod3",
        "/a/b/kubepods/burstable",
        "/a/b/kubepods/burstable/pod2",
        "/a/b/kubepods/pod1",
    ];
    assert_eq!(names(&tree), wanted);
    assert_eq!(tree.reserved, []);
}

#[test]
fn without_classes_only_a_configured_root_is_limited() {
    let pods = [fixture::pod("3", "{containers: [{name: a}]}")];
    let mut machine = Machine::new(V2);
    machine.settings.cgroups_per_qos = false;
    machine.settings.enforce.clear();
    assert_eq!(names(&tree(&pods, machine.node()).expect("names")), [""; 0]);
    machine.settings.cgroup_root = String::from("/own");
    let tree = tree(&pods, machine.node()).expect("names");
    assert_eq!(names(&tree), ["/own"]);
    let group = &tree.groups.values().next().expect("one");
    assert_eq!(group.role, Role::Node);
    assert_eq!(group.limits.memory_max, Some(Bound::At(machine.capacity.memory_bytes)));
    assert!(group.limits.hugetlb.iter().all(|(_, max)| max == Bound::At(0)), "there are none");
}

#[test]
fn invalid_names_are_errors() {
    let mut machine = Machine::new(V2);
    let mut pod = fixture::pod("1", "{containers: [{name: a}]}");
    pod.uid = String::from("../1");
    assert!(tree([&pod], machine.node()).is_err());
    machine.settings.cgroup_root = String::from("relative");
    assert!(tree([], machine.node()).is_err());
}

#[test]
fn limits_of_classes_are_raised_to_their_usage() {
    let mut machine = Machine::new(V2);
    machine.settings.qos_reserved_memory_percent = Some(100);
    let pods = [fixture::pod("1", "{containers: [{name: a, resources: {limits: {cpu: 1, memory: 15Gi}}}]}")];
    let mut tree = tree(&pods, machine.node()).expect("names");
    let before = tree.clone();
    tree.yield_to(|name| (name.last() == Some("burstable")).then_some(2 * fixture::GIB));
    for (name, group) in &tree.groups {
        let was = &before.groups[name].limits;
        if name.last() == Some("burstable") {
            assert_eq!(was.memory_max, Some(Bound::At(fixture::GIB)));
            assert_eq!(group.limits.memory_max, Some(Bound::At(2 * fixture::GIB)));
        } else {
            assert_eq!(&group.limits, was, "{name}");
        }
    }
}

/// One container's requests and limits: millicores and MiB, 0 for none.
fn container() -> impl Strategy<Value = serde_json::Value> {
    let amount = prop_oneof![Just(0u64), 1..5000u64];
    (amount.clone(), amount.clone(), amount.clone(), amount).prop_map(
        |(cpu, memory, more_cpu, more_memory)| {
            let mut resources = serde_json::json!({ "requests": {}, "limits": {} });
            let mut set = |list: &str, name: &str, amount: u64, unit: &str| {
                if amount > 0 {
                    resources[list][name] = format!("{amount}{unit}").into();
                }
            };
            set("requests", "cpu", cpu, "m");
            set("requests", "memory", memory, "Mi");
            // A limit is not below its request; every other one equals it.
            set("limits", "cpu", if more_cpu % 2 == 0 { cpu } else { cpu + more_cpu }, "m");
            set("limits", "memory", if more_memory % 2 == 0 { memory } else { memory + more_memory }, "Mi");
            resources
        },
    )
}

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let pod = prop::collection::vec(container(), 1..4);
    prop::collection::vec(pod, 0..8).prop_map(|pods| {
        let of = |(i, resources): (usize, Vec<serde_json::Value>)| {
            let containers: Vec<_> = resources
                .into_iter()
                .enumerate()
                .map(|(c, resources)| serde_json::json!({ "name": format!("c{c}"), "resources": resources }))
                .collect();
            fixture::pod(&format!("u{i}"), &serde_json::json!({ "containers": containers }).to_string())
        };
        pods.into_iter().enumerate().map(of).collect()
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    let policy = prop_oneof![
        Just(MemoryReservation::Unset),
        Just(MemoryReservation::None),
        Just(MemoryReservation::TieredReservation)
    ];
    (any::<bool>(), any::<bool>(), policy, prop::option::of(0..=100u8)).prop_map(
        |(v2, memory_qos, policy, percent)| {
            let mut machine = Machine::new(if v2 { V2 } else { V1 });
            machine.settings.memory_qos = memory_qos;
            machine.settings.memory_reservation = policy;
            machine.settings.qos_reserved_memory_percent = percent;
            machine
        },
    )
}

proptest! {
    #[test]
    fn the_tree_has_the_levels_and_every_pod(pods in pods(), machine in machine()) {
        let tree = tree(&pods, machine.node()).expect("names");
        prop_assert_eq!(tree.groups.len(), 3 + pods.len());
        for pod in &pods {
            let levels = Levels::below("/").expect("names");
            let group = &tree.groups[&levels.pod(pod.qos, &pod.uid).expect("a name")];
            prop_assert_eq!(&group.role, &Role::Pod { uid: pod.uid.clone() });
        }
        for name in tree.groups.keys() {
            let parent = name.parent().expect("none is the root");
            prop_assert!(parent.is_root() || tree.groups.contains_key(&parent), "{} has a parent", name);
        }
    }

    #[test]
    fn burstable_has_the_shares_of_its_pods(pods in pods(), machine in machine()) {
        let tree = tree(&pods, machine.node()).expect("names");
        let burstable = pods.iter().filter(|p| p.qos == QosClass::Burstable);
        let milli: i64 = burstable.map(|p| p.requests().get("cpu").map_or(0, |q| q.milli_value())).sum();
        let shares = cpu::shares_from_milli(milli as u64);
        let group = &tree.groups[&Levels::below("/").expect("names").burstable];
        prop_assert_eq!(group.limits.cpu, Some(CpuShare::Shares(shares)));
    }

    #[test]
    fn parents_cover_their_children(pods in pods(), machine in machine()) {
        let tree = tree(&pods, machine.node()).expect("names");
        for (name, group) in &tree.groups {
            let children = || tree.groups.iter().filter(|(n, _)| n.parent().as_ref() == Some(name));
            let sum = |of: fn(&Limits) -> Option<u64>| children().filter_map(|(_, g)| of(&g.limits)).sum::<u64>();
            prop_assert!(group.limits.memory_min.unwrap_or(0) >= sum(|l| l.memory_min), "{}", name);
            prop_assert!(group.limits.memory_low.unwrap_or(0) >= sum(|l| l.memory_low), "{}", name);
        }
    }

    #[test]
    fn the_order_of_pods_does_not_matter_and_no_limit_outlives_them(pods in pods(), machine in machine()) {
        let all = tree(&pods, machine.node()).expect("names");
        prop_assert_eq!(&tree(pods.iter().rev(), machine.node()).expect("names"), &all);
        let empty = tree([], machine.node()).expect("names");
        let percent = machine.settings.qos_reserved_memory_percent;
        for (name, group) in &empty.groups {
            prop_assert_eq!(group.limits.memory_min.unwrap_or(0), 0, "{}", name);
            prop_assert_eq!(group.limits.memory_low.unwrap_or(0), 0, "{}", name);
            if matches!(group.role, Role::Class(_)) {
                prop_assert_eq!(group.limits.cpu, Some(CpuShare::Shares(cpu::MIN_SHARES)));
                prop_assert!(percent.is_some() || group.limits.memory_max == Some(Bound::Max));
            } else {
                // The node's limits do not depend on its pods.
                let with_pods = &all.groups[name].limits;
                prop_assert_eq!(&group.limits.cpu, &with_pods.cpu);
                prop_assert_eq!(&group.limits.memory_max, &with_pods.memory_max);
            }
        }
    }
}

/// What the pods request counts in it.
#[test]
fn the_tree_above_is_that_without_the_pods() {
    let machine = Machine::new(V2);
    let pods = [
        fixture::pod("1", "{containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}"),
        fixture::pod("2", "{containers: [{name: a, resources: {requests: {cpu: 1}}}]}"),
    ];
    let mut whole = tree(&pods, machine.node()).expect("names");
    for pod in &pods {
        let name = Levels::below(&machine.settings.cgroup_root).and_then(|own| own.pod(pod.qos, &pod.uid));
        let group = whole.groups.remove(&name.expect("a name")).expect("a pod's");
        assert_eq!(group.limits, pod::limits(pod, machine.node()));
    }
    assert_eq!(tree_above(&pods, machine.node()), Ok(whole));
}
