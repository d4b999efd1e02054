//! Limits as files, on machines of each kind.

mod golden;
mod read_back;

use std::path::PathBuf;

use super::*;
use crate::cgroup::control::{Bound, CpuQuota, CpuShare, Limits};
use crate::cgroup::{Facts, Membership, MountFact};

const MIB2: PageSize = PageSize(2 << 20);
const GIB: PageSize = PageSize(1 << 30);

fn layout(v1: &[&str], v2: &[&str]) -> Layout {
    let words = |list: &[&str]| list.iter().map(|&c| c.to_owned()).collect::<Vec<_>>();
    let mount = |point: &str, version, controllers| MountFact {
        root: "/".to_owned(),
        mount_point: PathBuf::from(point),
        version,
        controllers,
        visible: true,
    };
    let mut facts = Facts::default();
    for (at, controller) in v1.iter().enumerate() {
        facts.mounts.push(mount(&format!("/c/{controller}"), Version::V1, words(&[*controller])));
        let id = at as u32 + 1;
        facts.memberships.push(Membership { id, controllers: words(&[*controller]), path: "/".to_owned() });
    }
    if !v2.is_empty() {
        facts.mounts.push(mount("/c/unified", Version::V2, words(v2)));
    }
    Layout::decide(&facts).unwrap()
}

fn v1() -> Interface {
    Interface::new(&layout(&["cpu", "memory", "pids", "cpuset", "hugetlb"], &[]), 4096, vec![MIB2, GIB])
}

fn v2() -> Interface {
    Interface::new(&layout(&[], &["cpu", "memory", "pids", "cpuset", "hugetlb", "io"]), 4096, vec![MIB2, GIB])
}

/// `file text` of each write.
fn texts(interface: &Interface, limits: &Limits, before: &Limits) -> Vec<String> {
    interface.writes(limits, before).into_iter().map(|w| format!("{} {}", w.file, w.text)).collect()
}

fn quota(quota_us: Bound, period_us: u64) -> Option<CpuQuota> {
    Some(CpuQuota { quota_us, period_us })
}

/// What the kubelet sets of a Guaranteed pod.
fn pod() -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(2048)),
        cpu_quota: quota(Bound::At(200_000), 100_000),
        memory_max: Some(Bound::At(1 << 30)),
        pids_max: Some(Bound::At(1000)),
        hugetlb: [(MIB2, Bound::At(4 << 20)), (GIB, Bound::At(0))].into(),
        ..Limits::default()
    }
}

#[test]
fn a_pods_limits_are_written_to_v1_files() {
    assert_eq!(
        texts(&v1(), &pod(), &Limits { cpu_quota: quota(Bound::Max, 100_000), ..Limits::default() }),
        [
            "cpu.shares 2048",
            "cpu.cfs_quota_us 200000",
            "memory.limit_in_bytes 1073741824",
            "pids.max 1000",
            "hugetlb.2MB.limit_in_bytes 4194304",
            "hugetlb.2MB.rsvd.limit_in_bytes 4194304",
            "hugetlb.1GB.limit_in_bytes 0",
            "hugetlb.1GB.rsvd.limit_in_bytes 0",
        ]
    );
}

#[test]
fn a_pods_limits_are_written_to_v2_files() {
    assert_eq!(
        texts(&v2(), &pod(), &Limits::default()),
        [
            "cpu.weight 79",
            "cpu.max 200000 100000",
            "memory.max 1073741824",
            "pids.max 1000",
            "hugetlb.2MB.max 4194304",
            "hugetlb.2MB.rsvd.max 4194304",
            "hugetlb.1GB.max 0",
            "hugetlb.1GB.rsvd.max 0",
        ]
    );
}

#[test]
fn no_limit_is_written_as_each_version_demands() {
    let none = Limits {
        cpu_quota: quota(Bound::Max, 100_000),
        memory_max: Some(Bound::Max),
        memsw_max: Some(Bound::Max),
        swap_max: Some(Bound::Max),
        memory_high: Some(Bound::Max),
        pids_max: Some(Bound::Max),
        hugetlb: [(MIB2, Bound::Max)].into(),
        cpuset_cpus: Some(String::new()),
        ..Limits::default()
    };
    let before = Limits { cpu_quota: none.cpu_quota, ..Limits::default() };
    assert_eq!(
        texts(&v1(), &none, &before),
        [
            "cpu.cfs_quota_us -1",
            "memory.limit_in_bytes -1",
            "memory.memsw.limit_in_bytes -1",
            "pids.max max",
            "hugetlb.2MB.limit_in_bytes -1",
            "hugetlb.2MB.rsvd.limit_in_bytes -1",
        ]
    );
    assert_eq!(
        texts(&v2(), &none, &before),
        [
            "cpuset.cpus \n",
            "cpu.max max 100000",
            "memory.high max",
            "memory.max max",
            "memory.swap.max max",
            "pids.max max",
            "hugetlb.2MB.max max",
            "hugetlb.2MB.rsvd.max max",
        ]
    );
    // Only files that every kernel has are required.
    let must: Vec<_> = v2()
        .writes(&none, &before)
        .into_iter()
        .filter(|w| w.absent == Absent::Error)
        .map(|w| w.file)
        .collect();
    assert_eq!(must, ["memory.max"]);
}

#[test]
fn swap_grows_before_memory_and_shrinks_after_it() {
    let limits =
        |memory, memsw| Limits { memory_max: Some(memory), memsw_max: Some(memsw), ..Limits::default() };
    let (at, max) = (Bound::At, Bound::Max);
    for (before, after, memsw_first) in [
        (limits(at(8192), at(8192)), limits(at(16384), at(16384)), true),
        (limits(at(16384), at(16384)), limits(at(8192), at(8192)), false),
        (limits(at(8192), at(8192)), limits(max, max), true),
        (limits(max, max), limits(at(8192), at(8192)), false),
        (limits(at(8192), at(65536)), limits(at(16384), at(16384)), false),
        (limits(at(8192), max), limits(at(16384), max), false),
    ] {
        let files: Vec<_> = v1().writes(&after, &before).into_iter().map(|w| w.file).collect();
        let mut expected = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"];
        if memsw_first {
            expected.reverse();
        }
        assert_eq!(files, expected, "{before:?} to {after:?}");
    }
}

/// Memory never above memory with swap, whatever it was and becomes: else the kernel refuses.
#[test]
fn the_kernel_takes_every_order_of_memory_writes() {
    let values = [Bound::At(4096), Bound::At(8192), Bound::At(1 << 20), Bound::Max];
    let pairs =
        || values.into_iter().flat_map(|m| values.into_iter().map(move |s| (m, s))).filter(|(m, s)| m <= s);
    for (from, to) in pairs().flat_map(|from| pairs().map(move |to| (from, to))) {
        let limits = |(m, s)| Limits { memory_max: Some(m), memsw_max: Some(s), ..Limits::default() };
        let (mut memory, mut memsw) = from;
        for write in v1().writes(&limits(to), &limits(from)) {
            let value = if write.text == "-1" { Bound::Max } else { Bound::At(write.text.parse().unwrap()) };
            if write.file.contains("memsw") {
                memsw = value;
            } else {
                memory = value;
            }
            assert!(memory <= memsw, "{from:?} to {to:?}: {write:?}");
        }
        assert_eq!((memory, memsw), to);
    }
}

#[test]
fn another_period_on_v1_is_written_without_a_quota() {
    let to = Limits { cpu_quota: quota(Bound::At(5_000), 10_000), ..Limits::default() };
    let with = |q| Limits { cpu_quota: q, ..Limits::default() };
    for (before, expected) in [
        (quota(Bound::At(50_000), 10_000), vec!["cpu.cfs_quota_us 5000"]),
        (quota(Bound::Max, 100_000), vec!["cpu.cfs_period_us 10000", "cpu.cfs_quota_us 5000"]),
        (
            quota(Bound::At(50_000), 100_000),
            vec!["cpu.cfs_quota_us -1", "cpu.cfs_period_us 10000", "cpu.cfs_quota_us 5000"],
        ),
    ] {
        assert_eq!(texts(&v1(), &to, &with(before)), expected);
    }
}

#[test]
fn idle_is_off_before_the_weight_and_on_after_it() {
    let limits = |idle| Limits { cpu: Some(CpuShare::Weight(50)), cpu_idle: Some(idle), ..Limits::default() };
    let none = Limits::default();
    assert_eq!(texts(&v2(), &limits(false), &none), ["cpu.idle 0", "cpu.weight 50"]);
    assert_eq!(texts(&v2(), &limits(true), &none), ["cpu.weight 50", "cpu.idle 1"]);
}

#[test]
fn weights_of_the_linear_formula() {
    for (shares, weight) in [(0, 1), (2, 1), (102, 4), (910, 35), (1024, 39), (2048, 79), (262_144, 10_000)] {
        assert_eq!(linear_weight(shares), weight, "{shares}");
    }
    assert_eq!(linear_weight(u64::MAX), 10_000);
    for weight in 1..=10_000 {
        assert_eq!(linear_weight(linear_shares(weight)), weight);
        assert!(weight == 1 || linear_weight(linear_shares(weight) - 1) < weight);
    }
}

#[test]
fn missing_optional_controllers_have_no_limits() {
    let bare = Interface::new(&layout(&["cpu", "memory"], &[]), 4096, vec![MIB2]);
    let limits = Limits { cpuset_cpus: Some("0".to_owned()), ..pod() };
    let files: Vec<_> = bare.writes(&limits, &Limits::default()).into_iter().map(|w| w.controller).collect();
    assert!(files.iter().all(|c| matches!(c, Controller::Cpu | Controller::Memory)), "{files:?}");
    let settled = bare.settled(&limits);
    assert_eq!((settled.pids_max, settled.cpuset_cpus, settled.hugetlb.is_empty()), (None, None, true));
}

#[test]
fn hybrid_writes_each_controller_in_its_versions_way() {
    let hybrid = Interface::new(&layout(&["cpu", "memory"], &["hugetlb"]), 4096, vec![MIB2]);
    let files: Vec<_> = hybrid
        .writes(&pod(), &Limits::default())
        .into_iter()
        .map(|w| w.file)
        .filter(|f| f.contains("2MB"))
        .collect();
    assert_eq!(files, ["hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"]);
    assert_eq!(hybrid.settled(&pod()).cpu, Some(CpuShare::Shares(2048)));
}

#[test]
fn settled_is_rounded_and_converted() {
    let limits = Limits {
        cpu: Some(CpuShare::Shares(1)),
        cpuset_cpus: Some("1,0".to_owned()),
        memory_max: Some(Bound::At(10_000)),
        memory_min: Some(5000),
        memory_high: Some(Bound::At(u64::MAX)),
        swap_max: Some(Bound::At(4095)),
        memsw_max: Some(Bound::At(4097)),
        oom_group: Some(true),
        pids_max: Some(Bound::At(GREATEST_PIDS + 1)),
        hugetlb: [
            (MIB2, Bound::At((4 << 20) + 1)),
            (GIB, Bound::At(1 << 62)),
            (PageSize(1 << 16), Bound::Max),
        ]
        .into(),
        ..Limits::default()
    };
    let settled = v2().settled(&limits);
    let expected = Limits {
        cpu: Some(CpuShare::Weight(1)),
        cpuset_cpus: Some("0-1".to_owned()),
        memory_max: Some(Bound::At(8192)),
        memory_min: Some(4096),
        memory_high: Some(Bound::Max),
        swap_max: Some(Bound::At(0)),
        oom_group: Some(true),
        pids_max: Some(Bound::Max),
        hugetlb: [(MIB2, Bound::At(4 << 20)), (GIB, Bound::At(1 << 62))].into(),
        ..Limits::default()
    };
    assert_eq!(settled, expected);
    let settled = v1().settled(&limits);
    assert_eq!(settled.cpu, Some(CpuShare::Shares(2)));
    assert_eq!((settled.memory_max, settled.memsw_max), (Some(Bound::At(8192)), Some(Bound::At(4096))));
    assert_eq!((settled.memory_min, settled.oom_group, settled.swap_max), (None, None, None));
}

#[test]
fn text_that_is_no_value_is_an_error() {
    for (controller, file, text) in [
        (Controller::Memory, "memory.max", "much"),
        (Controller::Cpu, "cpu.max", "100000"),
        (Controller::Pids, "pids.max", ""),
        (Controller::Memory, "memory.oom.group", "2"),
    ] {
        let error = v2().read::<NoValue>(|c, f| Ok((c == controller && f == file).then(|| text.to_owned())));
        assert_eq!(error, Err(NoValue { controller, file: file.to_owned(), text: text.to_owned() }));
    }
}

#[test]
fn sizes_of_huge_pages() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["hugepages-2048kB", "hugepages-1048576kB", "hugepages-xkB", "other"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    assert_eq!(huge_pages(dir.path()), [MIB2, GIB]);
    assert!(huge_pages(&dir.path().join("none")).is_empty());
}
