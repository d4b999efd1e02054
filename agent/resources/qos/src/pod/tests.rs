use super::super::fixture::{self, MIB, Machine, V1, V2};
use super::*;
use nodewarden_machine::cgroup::control::PageSize;

fn of(spec: &str, machine: &Machine) -> Limits {
    limits(&fixture::pod("u", spec), machine.node())
}

const LIMITED: &str =
    "{name: a, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 500m, memory: 128Mi}}}";

fn quota_us(limits: &Limits) -> Bound {
    limits.cpu_quota.expect("a quota").quota_us
}

#[test]
fn every_field_is_set_on_a_machine_with_every_controller() {
    let limits = of("{containers: [{name: a}]}", &Machine::new(V2));
    let wanted = Limits {
        cpu: Some(CpuShare::Shares(2)),
        cpu_quota: Some(CpuQuota { quota_us: Bound::Max, period_us: 100_000 }),
        cpu_idle: Some(false),
        cpuset_cpus: Some(String::new()),
        memory_max: Some(Bound::Max),
        memory_min: Some(0),
        memory_low: Some(0),
        memory_high: Some(Bound::Max),
        swap_max: Some(Bound::Max),
        memsw_max: None,
        oom_group: Some(false),
        pids_max: Some(Bound::Max),
        hugetlb: [(PageSize(2 * MIB), Bound::At(0)), (PageSize(1024 * MIB), Bound::At(0))].into(),
    };
    assert_eq!(limits, wanted);
}

#[test]
fn on_v1_the_fields_of_v1_are_set() {
    let limits = of("{containers: [{name: a}]}", &Machine::new(V1));
    assert_eq!(limits.memsw_max, Some(Bound::Max));
    assert_eq!(limits.cpuset_cpus.as_deref(), Some("0-3"), "a cgroup without CPUs could run nothing");
    assert_eq!((limits.cpu_idle, limits.memory_min, limits.memory_low), (None, None, None));
    assert_eq!((limits.memory_high, limits.swap_max, limits.oom_group), (None, None, None));
}

#[test]
fn fields_of_missing_controllers_are_not_set() {
    let facts = crate::HierarchyFacts {
        pids: false,
        cpuset: false,
        hugetlb: false,
        swap: false,
        cpu_idle: false,
        oom_group: false,
        ..V2
    };
    let limits = of("{containers: [{name: a}]}", &Machine::new(facts));
    assert_eq!((limits.pids_max, limits.cpuset_cpus, limits.swap_max), (None, None, None));
    assert_eq!((limits.cpu_idle, limits.oom_group), (None, None));
    assert!(limits.hugetlb.is_empty());
}

#[test]
fn one_unlimited_container_leaves_the_pod_unlimited() {
    let machine = Machine::new(V2);
    let both = of(&format!("{{containers: [{LIMITED}]}}"), &machine);
    assert_eq!(quota_us(&both), Bound::At(50_000));
    assert_eq!(both.memory_max, Some(Bound::At(128 * MIB)));
    let one = of(&format!("{{containers: [{LIMITED}, {{name: b}}]}}"), &machine);
    assert_eq!(quota_us(&one), Bound::Max);
    assert_eq!(one.memory_max, Some(Bound::Max));
    assert_eq!(one.cpu, Some(CpuShare::Shares(102)));
    let init = of(&format!("{{containers: [{LIMITED}], initContainers: [{{name: i}}]}}"), &machine);
    assert_eq!(quota_us(&init), Bound::Max);
}

/// As in the kubelet: the sum of the sidecars so far is added to each container that follows.
#[test]
fn a_limited_sidecar_makes_later_init_containers_count_as_limited() {
    let machine = Machine::new(V2);
    let sidecar = "{name: s, restartPolicy: Always, resources: {limits: {cpu: 50m}}}";
    let after = format!("{{containers: [{LIMITED}], initContainers: [{sidecar}, {{name: i}}]}}");
    assert_eq!(quota_us(&of(&after, &machine)), Bound::At(55_000));
    assert_eq!(of(&after, &machine).memory_max, Some(Bound::Max));
    let before = format!("{{containers: [{LIMITED}], initContainers: [{{name: i}}, {sidecar}]}}");
    assert_eq!(quota_us(&of(&before, &machine)), Bound::Max);
}

#[test]
fn pod_level_limits_apply_to_unlimited_containers() {
    let limits =
        of("{containers: [{name: a}], resources: {limits: {cpu: '1', memory: 1Gi}}}", &Machine::new(V2));
    assert_eq!(quota_us(&limits), Bound::At(100_000));
    assert_eq!(limits.memory_max, Some(Bound::At(1024 * MIB)));
}

#[test]
fn the_period_and_the_quota_are_configurable() {
    let spec = format!("{{containers: [{LIMITED}]}}");
    let mut machine = Machine::new(V2);
    machine.settings.cpu_cfs_quota_period = std::time::Duration::from_millis(20);
    let period = CpuQuota { quota_us: Bound::At(10_000), period_us: 20_000 };
    assert_eq!(of(&spec, &machine).cpu_quota, Some(period));
    machine.settings.cpu_cfs_quota = false;
    let unbounded = CpuQuota { quota_us: Bound::Max, period_us: 20_000 };
    assert_eq!(of(&spec, &machine).cpu_quota, Some(unbounded));
}

#[test]
fn huge_pages_and_processes_are_limited() {
    let mut machine = Machine::new(V2);
    machine.settings.pod_pids_limit = Some(4096);
    let limits = of(
        "{containers: [{name: a, resources: {requests: {memory: 1Gi, hugepages-2Mi: 64Mi}, limits: {memory: 1Gi, hugepages-2Mi: 64Mi}}}]}",
        &machine,
    );
    assert_eq!(limits.pids_max, Some(Bound::At(4096)));
    assert_eq!(limits.hugetlb.get(PageSize(2 * MIB)), Some(Bound::At(64 * MIB)));
    assert_eq!(limits.hugetlb.get(PageSize(1024 * MIB)), Some(Bound::At(0)));
}

#[test]
fn memory_qos_follows_the_policy() {
    use nodewarden_config::MemoryReservation::{None, TieredReservation, Unset};
    let guaranteed = "{containers: [{name: a, resources: {limits: {cpu: 100m, memory: 64Mi}}}]}";
    let burstable = format!("{{containers: [{LIMITED}]}}");
    let mut machine = Machine::new(V2);
    machine.settings.memory_qos = true;
    let request = 64 * MIB;
    for (policy, of_guaranteed, of_burstable) in [
        (Unset, (request, 0), (request, 0)),
        (None, (0, 0), (0, 0)),
        (TieredReservation, (request, 0), (0, request)),
    ] {
        machine.settings.memory_reservation = policy;
        for (spec, (min, low)) in [(guaranteed, of_guaranteed), (burstable.as_str(), of_burstable)] {
            let limits = of(spec, &machine);
            assert_eq!((limits.memory_min, limits.memory_low), (Some(min), Some(low)), "{policy:?} {spec}");
            assert_eq!(limits.memory_high, Some(Bound::Max), "only containers have it");
        }
    }
    let mut v1 = Machine::new(V1);
    v1.settings.memory_qos = true;
    assert_eq!(of(guaranteed, &v1).memory_min, Option::None);
}
