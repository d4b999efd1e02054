use super::super::fixture::{self, GIB, MIB, Machine, V1, V2};
use super::*;
use crate::HierarchyFacts;

fn parameters_of(spec: &str, machine: &Machine) -> ContainerParameters {
    let pod = fixture::pod("u", spec);
    parameters(&pod, fixture::container(&pod, "a"), machine.node())
}

fn unified<'a>(parameters: &'a ContainerParameters, file: &str) -> Option<&'a str> {
    parameters.unified.get(file).map(String::as_str)
}

#[test]
fn a_container_without_a_limit_gets_its_pods() {
    let spec = "{containers: [{name: a, resources: {limits: {memory: 64Mi}}}, {name: b}], \
                resources: {limits: {cpu: 300m, memory: 1Gi}}}";
    let machine = Machine::new(V2);
    let a = parameters_of(spec, &machine);
    assert_eq!((a.cpu_quota, a.memory_limit_in_bytes), (Some(30_000), Some(64 * MIB)));
    assert_eq!(a.cpu_shares, 307, "no request: shares of its limit");
    let pod = fixture::pod("u", spec);
    let b = parameters(&pod, fixture::container(&pod, "b"), machine.node());
    assert_eq!(b.memory_limit_in_bytes, Some(GIB));
}

#[test]
fn the_quota_and_its_period_are_configurable() {
    let spec = "{containers: [{name: a, resources: {limits: {cpu: 300m}}}]}";
    let mut machine = Machine::new(V2);
    machine.settings.cpu_cfs_quota_period = std::time::Duration::from_millis(10);
    assert_eq!(
        (parameters_of(spec, &machine).cpu_quota, parameters_of(spec, &machine).cpu_period),
        (Some(3_000), Some(10_000))
    );
    machine.settings.cpu_cfs_quota = false;
    assert_eq!(
        (parameters_of(spec, &machine).cpu_quota, parameters_of(spec, &machine).cpu_period),
        (None, None)
    );
}

#[test]
fn single_process_oom_kill_disables_the_group() {
    let spec = "{containers: [{name: a}]}";
    for (facts, configured, group) in [
        (V2, None, Some("1")),
        (V2, Some(false), Some("1")),
        (V2, Some(true), None),
        (V1, None, None),
        (V1, Some(false), None),
    ] {
        let mut machine = Machine::new(facts);
        machine.settings.single_process_oom_kill = configured;
        assert_eq!(
            unified(&parameters_of(spec, &machine), OOM_GROUP),
            group,
            "{:?} {configured:?}",
            facts.version
        );
    }
}

#[test]
fn swap_follows_the_configured_behaviour() {
    let burstable = "{containers: [{name: a, resources: {requests: {memory: 4Gi}, limits: {memory: 8Gi}}}]}";
    let mut machine = Machine::new(V2);
    assert_eq!(unified(&parameters_of(burstable, &machine), SWAP_MAX), Some("0"), "NoSwap");
    machine.settings.swap_behavior = SwapBehavior::LimitedSwap;
    let quarter = GIB.to_string();
    let critical = "{priority: 2000000000, priorityClassName: system-cluster-critical, containers: [{name: a, resources: {requests: {memory: 4Gi}}}]}";
    for (spec, bytes) in [
        (burstable, quarter.as_str()),
        ("{containers: [{name: a, resources: {requests: {memory: 4Gi}}}]}", quarter.as_str()),
        ("{containers: [{name: a, resources: {requests: {memory: 100}}}]}", "25"),
        // Its request equals its limit.
        ("{containers: [{name: a, resources: {limits: {memory: 4Gi}}}]}", "0"),
        ("{containers: [{name: a, resources: {requests: {cpu: 1}}}]}", "0"),
        ("{containers: [{name: a}]}", "0"),
        ("{containers: [{name: a, resources: {limits: {cpu: 1, memory: 4Gi}}}]}", "0"),
        // More than the machine has.
        ("{containers: [{name: a, resources: {requests: {memory: 17Gi}}}]}", "0"),
        (critical, "0"),
    ] {
        assert_eq!(unified(&parameters_of(spec, &machine), SWAP_MAX), Some(bytes), "{spec}");
    }
    machine.facts.swap = false;
    assert_eq!(unified(&parameters_of(burstable, &machine), SWAP_MAX), None, "nothing to set");
}

#[test]
fn on_v1_swap_is_unlimited_or_none() {
    let limited = "{containers: [{name: a, resources: {requests: {memory: 4Gi}, limits: {memory: 8Gi}}}]}";
    let mut machine = Machine::new(V1);
    machine.settings.swap_behavior = SwapBehavior::LimitedSwap;
    assert_eq!(parameters_of(limited, &machine).memory_swap_limit_in_bytes, Some(8 * GIB));
    assert_eq!(parameters_of("{containers: [{name: a}]}", &machine).memory_swap_limit_in_bytes, None);
    machine.facts.swap = false;
    assert_eq!(parameters_of(limited, &machine).memory_swap_limit_in_bytes, None);
}

#[test]
fn huge_pages_are_limited_for_every_size() {
    let spec = "{containers: [{name: a, resources: {requests: {memory: 1Gi, hugepages-2Mi: 64Mi}, limits: {memory: 1Gi, hugepages-2Mi: 64Mi}}}]}";
    let limits = parameters_of(spec, &Machine::new(V2)).hugepage_limits;
    assert_eq!(limits, [(PageSize(2 * MIB), 64 * MIB), (PageSize(GIB), 0)].into());
}

#[test]
fn memory_qos_follows_the_policy() {
    use MemoryReservation::{None, TieredReservation, Unset};
    let guaranteed = "{containers: [{name: a, resources: {limits: {cpu: 100m, memory: 64Mi}}}]}";
    let burstable =
        "{containers: [{name: a, resources: {requests: {memory: 32Mi}, limits: {memory: 64Mi}}}]}";
    let best_effort = "{containers: [{name: a}]}";
    let (mib32, mib64) = ((32 * MIB).to_string(), (64 * MIB).to_string());
    // 32 MiB + 0.9 × 32 MiB, and 0.9 × 16 GiB, both rounded down to a page.
    let (of_limit, of_node) = ("63750144", "15461879808");
    let mut machine = Machine::new(V2);
    machine.settings.memory_qos = true;
    for (policy, spec, min, low, high) in [
        (Unset, guaranteed, Some(mib64.as_str()), Option::None, Option::None),
        (Unset, burstable, Some(mib32.as_str()), Option::None, Some(of_limit)),
        (Unset, best_effort, Option::None, Option::None, Option::None),
        (None, guaranteed, Some("0"), Some("0"), Option::None),
        (None, burstable, Some("0"), Some("0"), Some(of_limit)),
        (None, best_effort, Some("0"), Some("0"), Some(of_node)),
        (TieredReservation, guaranteed, Some(mib64.as_str()), Some("0"), Option::None),
        (TieredReservation, burstable, Some("0"), Some(mib32.as_str()), Some(of_limit)),
        (TieredReservation, best_effort, Some("0"), Some("0"), Some(of_node)),
    ] {
        machine.settings.memory_reservation = policy;
        let parameters = parameters_of(spec, &machine);
        let found = [MEMORY_MIN, MEMORY_LOW, MEMORY_HIGH].map(|file| unified(&parameters, file));
        assert_eq!(found, [min, low, high], "{policy:?} {spec}");
    }
}

#[test]
fn the_overhead_is_separate_from_the_sandboxs_resources() {
    let machine = Machine::new(V2);
    let spec = "{overhead: {cpu: 50m, memory: 20Mi}, containers: [{name: a, resources: {limits: {cpu: 100m, memory: 64Mi}}}]}";
    let pod = fixture::pod("u", spec);
    let sandbox = sandbox(&pod, machine.node());
    assert_eq!((sandbox.cpu_quota, sandbox.memory_limit_in_bytes), (Some(10_000), Some(64 * MIB)));
    let overhead = overhead(&pod, machine.node()).expect("overhead");
    assert_eq!((overhead.cpu_shares, overhead.cpu_quota), (51, Some(5_000)));
    assert_eq!(overhead.memory_limit_in_bytes, Some(20 * MIB));
    assert_eq!(super::overhead(&fixture::pod("v", "{containers: [{name: a}]}"), machine.node()), None);
}

#[test]
fn container_limits_are_the_content_of_its_files() {
    let spec = "{containers: [{name: a, resources: {requests: {cpu: 100m, memory: 32Mi}, limits: {cpu: 500m, memory: 64Mi}}}]}";
    let mut machine = Machine::new(V2);
    machine.settings.memory_qos = true;
    let parameters = parameters_of(spec, &machine);
    let limits = container_limits(&parameters, Some(WeightFormula::Quadratic), machine.node());
    let wanted = Limits {
        cpu: Some(CpuShare::Weight(17)),
        cpu_quota: Some(CpuQuota { quota_us: Bound::At(50_000), period_us: 100_000 }),
        cpu_idle: Some(false),
        memory_max: Some(Bound::At(64 * MIB)),
        memory_min: Some(32 * MIB),
        memory_low: Some(0),
        memory_high: Some(Bound::At(63_750_144)),
        swap_max: Some(Bound::At(0)),
        oom_group: Some(true),
        ..Limits::default()
    };
    assert_eq!(limits, wanted);
    let linear = container_limits(&parameters, Some(WeightFormula::Linear), machine.node());
    assert_eq!(linear.cpu, Some(CpuShare::Weight(4)));
    assert_eq!(
        container_limits(&parameters, None, machine.node()).cpu,
        None,
        "the weight of either formula would be correct"
    );
}

#[test]
fn container_limits_are_the_content_of_its_files_on_v1() {
    let machine = Machine::new(V1);
    let parameters =
        parameters_of("{containers: [{name: a, resources: {limits: {cpu: 500m, memory: 64Mi}}}]}", &machine);
    let limits = container_limits(&parameters, None, machine.node());
    assert_eq!(limits.cpu, Some(CpuShare::Shares(512)));
    assert_eq!(limits.memsw_max, Some(Bound::At(64 * MIB)));
    assert_eq!((limits.swap_max, limits.oom_group, limits.memory_high), (None, None, None));
    let unaccounted = HierarchyFacts { swap: false, ..V1 };
    let machine = Machine::new(unaccounted);
    assert_eq!(container_limits(&parameters, None, machine.node()).memsw_max, None);
}
