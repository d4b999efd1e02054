use super::super::super::{CpuQuota, CpuShare};
use super::*;

const V2: Dialect = Dialect { cgroups: Version::V2, systemd: 252 };
const V1: Dialect = Dialect { cgroups: Version::V1, systemd: 252 };

fn set(limits: &Limits, dialect: Dialect) -> Vec<(&'static str, Value)> {
    properties(limits, dialect).unwrap().into_iter().map(|p| (p.name, p.value)).collect()
}

fn numbers(limits: &Limits, dialect: Dialect) -> Vec<(&'static str, u64)> {
    let number = |(name, value)| match value {
        Value::Number(number) => (name, number),
        other => panic!("{name}: {other:?}"),
    };
    set(limits, dialect).into_iter().map(number).collect()
}

fn quota(quota_us: Bound, period_us: u64) -> Limits {
    Limits { cpu_quota: Some(CpuQuota { quota_us, period_us }), ..Limits::default() }
}

#[test]
fn no_limits_set_no_properties() {
    assert_eq!(set(&Limits::default(), V2), vec![]);
    assert_eq!(set(&Limits::default(), V1), vec![]);
}

#[test]
fn every_limit_that_v2_has_a_property_for() {
    let limits = Limits {
        cpu: Some(CpuShare::Shares(1024)),
        cpu_quota: Some(CpuQuota { quota_us: Bound::At(77_700), period_us: 100_000 }),
        cpu_idle: Some(false),
        cpuset_cpus: Some("0-3,8".into()),
        memory_max: Some(Bound::At(123_456_789)),
        memory_min: Some(4096),
        memory_low: Some(8192),
        memory_high: Some(Bound::Max),
        swap_max: Some(Bound::At(0)),
        memsw_max: Some(Bound::At(1)),
        oom_group: Some(true),
        pids_max: Some(Bound::Max),
        hugetlb: [(super::super::super::PageSize(2 << 20), Bound::At(0))].into(),
    };
    let n = Value::Number;
    let wanted = vec![
        ("CPUWeight", n(39)),
        ("MemoryMax", n(123_456_789)),
        ("MemoryMin", n(4096)),
        ("MemoryLow", n(8192)),
        ("MemoryHigh", n(u64::MAX)),
        ("MemorySwapMax", n(0)),
        ("AllowedCPUs", Value::Bytes(vec![0x0f, 1])),
        ("CPUQuotaPeriodUSec", n(100_000)),
        ("CPUQuotaPerSecUSec", n(780_000)),
        ("TasksMax", n(u64::MAX)),
    ];
    assert_eq!(set(&limits, V2), wanted);
    let wanted = vec![
        ("CPUShares", n(1024)),
        ("MemoryLimit", n(123_456_789)),
        ("CPUQuotaPeriodUSec", n(100_000)),
        ("CPUQuotaPerSecUSec", n(780_000)),
        ("TasksMax", n(u64::MAX)),
    ];
    assert_eq!(set(&limits, V1), wanted);
}

#[test]
fn a_quota_that_systemd_refuses_becomes_the_nearest_that_it_accepts() {
    for (limits, dialect, wanted) in [
        (Limits { memory_max: Some(Bound::At(0)), ..Limits::default() }, V2, ("MemoryMax", 1)),
        (Limits { memory_max: Some(Bound::At(0)), ..Limits::default() }, V1, ("MemoryLimit", 1)),
        (Limits { memory_high: Some(Bound::At(0)), ..Limits::default() }, V2, ("MemoryHigh", 1)),
        (Limits { pids_max: Some(Bound::At(0)), ..Limits::default() }, V2, ("TasksMax", 1)),
        (Limits { cpu: Some(CpuShare::Shares(0)), ..Limits::default() }, V2, ("CPUWeight", 1)),
        (Limits { cpu: Some(CpuShare::Shares(0)), ..Limits::default() }, V1, ("CPUShares", 2)),
        (Limits { cpu: Some(CpuShare::Shares(1 << 30)), ..Limits::default() }, V2, ("CPUWeight", 10_000)),
        (Limits { cpu: Some(CpuShare::Weight(20_000)), ..Limits::default() }, V2, ("CPUWeight", 10_000)),
        (Limits { cpu: Some(CpuShare::Weight(10_000)), ..Limits::default() }, V1, ("CPUShares", 262_144)),
    ] {
        assert_eq!(numbers(&limits, dialect), [wanted], "{limits:?}");
    }
}

#[test]
fn idle_is_a_weight_of_zero() {
    let limits = Limits { cpu: Some(CpuShare::Weight(7)), cpu_idle: Some(true), ..Limits::default() };
    assert_eq!(numbers(&limits, V2), [("CPUWeight", 0)]);
    assert_eq!(numbers(&limits, Dialect { systemd: 251, ..V2 }), [("CPUWeight", 7)]);
}

#[test]
fn an_older_systemd_gets_what_it_knows() {
    let limits = Limits { cpuset_cpus: Some("1".into()), ..quota(Bound::At(50_000), 100_000) };
    let names = |systemd| set(&limits, Dialect { systemd, ..V2 }).into_iter().map(|(name, _)| name);
    assert_eq!(names(244).collect::<Vec<_>>(), ["AllowedCPUs", "CPUQuotaPeriodUSec", "CPUQuotaPerSecUSec"]);
    assert_eq!(names(243).collect::<Vec<_>>(), ["CPUQuotaPeriodUSec", "CPUQuotaPerSecUSec"]);
    assert_eq!(names(241).collect::<Vec<_>>(), ["CPUQuotaPerSecUSec"]);
}

#[test]
fn quotas() {
    for (asked, wanted) in [
        (quota(Bound::Max, 100_000), (100_000, u64::MAX)),
        (quota(Bound::At(1_000), 100_000), (100_000, 10_000)),
        (quota(Bound::At(1_001), 100_000), (100_000, 20_000)),
        (quota(Bound::At(250_000), 100_000), (100_000, 2_500_000)),
        (quota(Bound::At(5_000), 10_000), (10_000, 500_000)),
        (quota(Bound::At(1_000), 30_000), (30_000, 40_000)),
    ] {
        let (period, per_second) = wanted;
        assert_eq!(
            numbers(&asked, V2),
            [("CPUQuotaPeriodUSec", period), ("CPUQuotaPerSecUSec", per_second)],
            "{asked:?}"
        );
    }
}

#[test]
fn an_empty_cpu_list_removes_the_list() {
    let limits = Limits { cpuset_cpus: Some(String::new()), ..Limits::default() };
    assert_eq!(set(&limits, V2), [("AllowedCPUs", Value::Bytes(vec![]))]);
    let limits = Limits { cpuset_cpus: Some("x".into()), ..Limits::default() };
    assert!(properties(&limits, V2).is_err());
}

#[test]
fn slices_are_made_with_accounting() {
    let unit = Unit::of_path("/a.slice/a-b.slice").unwrap();
    let names = |dialect| of_slice(&unit, &[3], dialect).into_iter().map(|p| p.name).collect::<Vec<_>>();
    let all = [
        "Description",
        "CPUAccounting",
        "MemoryAccounting",
        "TasksAccounting",
        "IOAccounting",
        "DefaultDependencies",
        "Wants",
        "StartupAllowedCPUs",
    ];
    assert_eq!(names(V2), all);
    assert_eq!(names(Dialect { systemd: 251, ..V2 }), all[..7]);
    assert_eq!(names(V1)[4..], ["BlockIOAccounting", "DefaultDependencies", "Wants"]);
    assert!(
        of_slice(&unit, &[3], V2)
            .contains(&Property { name: "Wants", value: Value::Texts(vec!["a.slice".into()]) })
    );
}
