use super::super::fixture::{self, GIB, MIB, Machine, V2};
use super::*;
use nodewarden_manifest::{Quantity, ResourceList};

fn list(entries: &[(&str, &str)]) -> ResourceList {
    entries.iter().map(|(name, q)| ((*name).to_owned(), Quantity::parse(q).expect("a quantity"))).collect()
}

fn pods() -> Vec<Pod> {
    vec![
        fixture::pod("g", "{containers: [{name: a, resources: {limits: {cpu: '1', memory: 4Gi}}}]}"),
        fixture::pod("b", "{containers: [{name: a, resources: {requests: {cpu: 300m, memory: 2Gi}}}]}"),
        fixture::pod("c", "{containers: [{name: a, resources: {requests: {cpu: 1m}}}]}"),
        fixture::pod("e", "{containers: [{name: a}]}"),
    ]
}

#[test]
fn demand_is_the_sum_of_requests() {
    let machine = Machine::new(V2);
    let demand = Demand::of(&pods(), machine.node());
    assert_eq!(demand.burstable_cpu_milli, 301);
    assert_eq!((demand.guaranteed_memory, demand.burstable_memory), (4 * GIB, 2 * GIB));
    // Shares of the sum, not the sum of each pod's shares, which would be 307 + 2.
    assert_eq!(burstable(&demand, machine.node()).cpu, Some(CpuShare::Shares(308)));
    assert_eq!(burstable(&Demand::default(), machine.node()).cpu, Some(CpuShare::Shares(2)));
    assert_eq!(best_effort(&demand, machine.node()).cpu, Some(CpuShare::Shares(2)));
}

#[test]
fn kubepods_is_limited_to_what_is_not_reserved() {
    let mut machine = Machine::new(V2);
    machine.settings.kube_reserved = list(&[("cpu", "500m"), ("memory", "1Gi"), ("pid", "768")]);
    machine.settings.system_reserved = list(&[("memory", "1Gi")]);
    let limits = kubepods(&Demand::default(), machine.node());
    assert_eq!(limits.cpu, Some(CpuShare::Shares(3584)));
    assert_eq!(limits.memory_max, Some(Bound::At(14 * GIB)));
    assert_eq!(limits.pids_max, Some(Bound::At(32_000)));
    assert_eq!(limits.cpuset_cpus.as_deref(), Some("0-3"));
    machine.settings.enforce.clear();
    let limits = kubepods(&Demand::default(), machine.node());
    assert_eq!(limits.memory_max, Some(Bound::At(16 * GIB)), "not enforced");
    assert_eq!(limits.cpu, Some(CpuShare::Shares(4096)));
}

#[test]
fn qos_reserved_limits_the_lower_classes() {
    let mut machine = Machine::new(V2);
    let memory = |machine: &Machine| {
        let demand = Demand::of(&pods(), machine.node());
        let max = |limits: Limits| limits.memory_max.expect("set");
        (max(burstable(&demand, machine.node())), max(best_effort(&demand, machine.node())))
    };
    assert_eq!(memory(&machine), (Bound::Max, Bound::Max));
    for (percent, burstable, best_effort) in [(0, 16, 16), (50, 14, 13), (100, 12, 10)] {
        machine.settings.qos_reserved_memory_percent = Some(percent);
        assert_eq!(memory(&machine), (Bound::At(burstable * GIB), Bound::At(best_effort * GIB)), "{percent}");
    }
    machine.settings.kube_reserved = list(&[("memory", "11Gi")]);
    assert_eq!(memory(&machine), (Bound::At(GIB), Bound::At(0)), "never below 0");
}

#[test]
fn the_second_try_is_at_least_the_usage() {
    assert_eq!(second_try(Bound::At(GIB), 2 * GIB), Bound::At(2 * GIB));
    assert_eq!(second_try(Bound::At(GIB), MIB), Bound::At(GIB));
    assert_eq!(second_try(Bound::Max, MIB), Bound::Max);
}

#[test]
fn parents_protect_the_sum_of_their_children() {
    use nodewarden_config::MemoryReservation::{None, TieredReservation, Unset};
    let mut machine = Machine::new(V2);
    machine.settings.memory_qos = true;
    for (policy, node, class) in [
        (Unset, (6 * GIB, 0), (2 * GIB, 0)),
        (None, (0, 0), (0, 0)),
        (TieredReservation, (4 * GIB, 2 * GIB), (0, 2 * GIB)),
    ] {
        machine.settings.memory_reservation = policy;
        let demand = Demand::of(&pods(), machine.node());
        let of = |limits: Limits| (limits.memory_min.expect("set"), limits.memory_low.expect("set"));
        assert_eq!(of(kubepods(&demand, machine.node())), node, "{policy:?}");
        assert_eq!(of(burstable(&demand, machine.node())), class, "{policy:?}");
        assert_eq!(of(best_effort(&demand, machine.node())), (0, 0), "{policy:?}");
    }
}
