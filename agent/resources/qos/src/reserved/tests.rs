use super::super::fixture::{GIB, MIB, Machine, V2};
use super::*;
use nodewarden_machine::cgroup::control::PageSize;
use nodewarden_manifest::Quantity;

fn machine(enforce: &[Enforce]) -> Machine {
    let entries = [("cpu", "500m"), ("memory", "1Gi"), ("pid", "1000"), ("ephemeral-storage", "1Gi")];
    let parse = |(name, q): (&str, &str)| (name.to_owned(), Quantity::parse(q).expect("a quantity"));
    let mut machine = Machine::new(V2);
    machine.settings.enforce = enforce.to_vec();
    machine.settings.kube_reserved = entries.map(parse).into();
    machine.settings.system_reserved = [parse(("cpu", "1"))].into();
    machine.settings.kube_reserved_cgroup = Some(String::from("/runtime.slice"));
    machine.settings.system_reserved_cgroup = Some(String::from("/system.slice"));
    machine
}

#[test]
fn only_enforced_cgroups_are_limited() {
    assert_eq!(reserved(machine(&[Enforce::Pods]).node()), []);
    let all = reserved(machine(&[Enforce::Pods, Enforce::SystemReserved, Enforce::KubeReserved]).node());
    let cgroups: Vec<_> = all.iter().map(|r| r.cgroup.as_str()).collect();
    assert_eq!(cgroups, ["/system.slice", "/runtime.slice"]);
}

#[test]
fn only_reserved_resources_are_limited() {
    let all = reserved(machine(&[Enforce::SystemReserved, Enforce::KubeReserved]).node());
    let sizes = [PageSize(2 * MIB), PageSize(GIB)];
    let cpu_alone = Limits {
        cpu: Some(CpuShare::Shares(1024)),
        cpuset_cpus: Some(String::from("0-3")),
        hugetlb: sizes.map(|size| (size, Bound::At(0))).into(),
        ..Limits::default()
    };
    assert_eq!(all[0].limits, cpu_alone);
    let everything = Limits {
        cpu: Some(CpuShare::Shares(512)),
        memory_max: Some(Bound::At(GIB)),
        pids_max: Some(Bound::At(1000)),
        ..cpu_alone
    };
    assert_eq!(all[1].limits, everything);
}

#[test]
fn only_the_cpu_is_compressible() {
    let all = reserved(machine(&[Enforce::KubeReservedCompressible]).node());
    let wanted = Limits {
        cpu: Some(CpuShare::Shares(512)),
        cpuset_cpus: Some(String::from("0-3")),
        ..Limits::default()
    };
    assert_eq!(all[0].limits, wanted);
}

#[test]
fn memory_qos_protects_what_is_reserved() {
    let mut machine = machine(&[Enforce::SystemReserved, Enforce::KubeReserved]);
    machine.settings.memory_qos = true;
    let all = reserved(machine.node());
    assert_eq!((all[0].limits.memory_min, all[1].limits.memory_min), (None, Some(GIB)));
}

#[test]
fn names_are_read_as_the_driver_writes_them() {
    let all = reserved(machine(&[Enforce::SystemReserved]).node());
    let name = |driver| all[0].name(driver).expect("a name");
    assert_eq!(name(DriverKind::Cgroupfs).parts(), ["system.slice"]);
    assert_eq!(name(DriverKind::Systemd).parts(), ["system"]);
}
