//! nodewarden's systemd driver on a real systemd: values in the files and in `systemctl show` of slices that
//! it created, also after `daemon-reload` and `daemon-reexec`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_machine::cgroup::control::{
    Bound, CgroupName, Cgroupfs, CpuQuota, CpuShare, Driver, Limits, PageSize, Systemd,
};
use nodewarden_machine::cgroup::{Layout, Version};

use crate::fixture::{Slice, Worker, show_unit, systemctl};
use crate::harness::{Capability, Context, Failure, Test};
use crate::page::whole_pages;
use crate::{ensure, ensure_eq};

/// systemd on cgroup v2, and the rights to use it.
pub(super) const NEEDS: &[Capability] = &[Capability::Root, Capability::Systemd, Capability::MemoryV2];

pub const TESTS: &[Test] = &[
    test("systemd_driver_keeps_values", keeps_values),
    test("systemd_driver_grows_and_shrinks", grows_and_shrinks),
    test("systemd_driver_sets_scopes", sets_scopes),
];

/// A test that needs systemd and no agent.
pub(super) const fn test(name: &'static str, run: fn(&Context) -> Result<(), Failure>) -> Test {
    Test::new(name, run).needs(NEEDS).timeout(120).without_agent()
}

const FILES: [&str; 12] = [
    "cpu.weight",
    "cpu.max",
    "cpu.idle",
    "memory.max",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.swap.max",
    "memory.oom.group",
    "pids.max",
    "cpuset.cpus",
    "hugetlb.2MB.max",
];
const PROPERTIES: [&str; 12] = [
    "ActiveState",
    "ControlGroup",
    "CPUWeight",
    "CPUQuotaPerSecUSec",
    "CPUQuotaPeriodUSec",
    "AllowedCPUs",
    "MemoryMin",
    "MemoryLow",
    "MemoryHigh",
    "MemoryMax",
    "MemorySwapMax",
    "TasksMax",
];
const UID: &str = "3f1d9c52-6b0e-4a57-8e21-5d0c7a9b4e66";

/// The driver, and a slice of the test's own in which it creates others.
pub(super) struct Tree {
    pub driver: Arc<Systemd>,
    mount: PathBuf,
    /// Stops the units that are left when dropped.
    pub slice: Slice,
}

/// Values of one cgroup: its files and its unit's properties; a missing one is `-`.
pub(super) type Values = BTreeMap<String, String>;

impl Tree {
    pub fn new(context: &Context) -> Result<Self, Failure> {
        let unified = context.layout.controller("memory").filter(|hierarchy| hierarchy.v2);
        let mount = unified.ok_or_else(|| Failure::Skip("no memory controller on v2".into()))?.mount.clone();
        let layout = Arc::new(Layout::detect()?);
        Ok(Self {
            driver: Arc::new(Systemd::new(Cgroupfs::new(layout), Version::V2)),
            mount,
            slice: Slice::new(context),
        })
    }

    /// The path of a cgroup below the tree's root, by the parts of its abstract name.
    pub fn path(&self, parts: &[&str]) -> String {
        let name = CgroupName::new([self.slice.stem()].iter().chain(parts).copied());
        self.driver.path(&name.expect("parts without a slash"))
    }

    /// The directory of a cgroup path.
    pub fn directory(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// Creates root, node, QoS class and pod, with limits as the kubelet sets them. Returns their paths.
    pub fn make_pod(&self) -> Result<[String; 4], Failure> {
        let all = [
            (self.path(&[]), Limits { cpu: Some(CpuShare::Shares(1024)), ..Limits::default() }),
            (self.path(&["kubepods"]), node()),
            (self.path(&["kubepods", "burstable"]), level(340)),
            (self.path(&["kubepods", "burstable", &format!("pod{UID}")]), pod()),
        ];
        for (path, limits) in &all {
            self.driver.create(path, limits)?;
        }
        Ok(all.map(|(path, _)| path))
    }

    /// The present files and properties of a cgroup.
    pub fn values(&self, path: &str) -> Result<Values, Failure> {
        let mut values = show_unit(unit(path), &PROPERTIES)?;
        for file in FILES {
            let text = std::fs::read_to_string(self.directory(path).join(file));
            values.insert(file.into(), text.map_or("-".into(), |text| text.trim_end().to_owned()));
        }
        Ok(values)
    }

    /// Checks that no value of these cgroups changes by `daemon-reload` and `daemon-reexec`.
    pub fn unchanged_by_reload(&self, context: &Context, paths: &[String]) -> Result<(), Failure> {
        self.unchanged_by(context, &["daemon-reload", "daemon-reexec"], paths)
    }

    /// Checks that no value of these cgroups changes by commands of `systemctl`.
    pub fn unchanged_by(
        &self,
        context: &Context,
        commands: &[&str],
        paths: &[String],
    ) -> Result<(), Failure> {
        let all = || paths.iter().map(|path| self.values(path)).collect::<Result<Vec<_>, _>>();
        let before = all()?;
        for &command in commands {
            systemctl(&[command])?;
            // systemd writes the files after it has answered.
            std::thread::sleep(Duration::from_millis(100) * context.patience);
            for ((path, before), after) in paths.iter().zip(&before).zip(all()?) {
                for (name, before) in before {
                    ensure_eq!(after[name], *before, "{name} of {path} after {command}");
                }
            }
        }
        Ok(())
    }
}

/// The name of the unit of a cgroup path.
pub(super) fn unit(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Checks that each named value is as expected.
pub(super) fn check_values(values: &Values, path: &str, expected: &[(&str, &str)]) -> Result<(), Failure> {
    for (name, expected) in expected {
        ensure_eq!(values.get(*name).map(String::as_str), Some(*expected), "{name} of {path}");
    }
    Ok(())
}

/// What a file shows of a limit in bytes: whole pages.
pub(super) fn pages(bytes: u64) -> String {
    whole_pages(bytes).to_string()
}

const HUGE: PageSize = PageSize(2 << 20);

fn node() -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(2048)),
        memory_max: Some(Bound::At(500_000_001)),
        pids_max: Some(Bound::At(5000)),
        cpuset_cpus: Some("0".into()),
        hugetlb: [(HUGE, Bound::At(1 << 62))].into(),
        ..Limits::default()
    }
}

pub(super) fn level(shares: u64) -> Limits {
    let hugetlb = [(HUGE, Bound::At(1 << 62))].into();
    Limits { cpu: Some(CpuShare::Shares(shares)), hugetlb, ..Limits::default() }
}

pub(super) fn pod() -> Limits {
    Limits {
        cpu: Some(CpuShare::Shares(340)),
        cpu_quota: Some(CpuQuota { quota_us: Bound::At(77_700), period_us: 100_000 }),
        cpu_idle: Some(false),
        memory_max: Some(Bound::At(123_456_789)),
        memory_min: Some(128 << 10),
        memory_low: Some(256 << 10),
        memory_high: Some(Bound::At(100_000_000)),
        swap_max: Some(Bound::At(0)),
        oom_group: Some(false),
        pids_max: Some(Bound::At(1000)),
        hugetlb: [(HUGE, Bound::At(0))].into(),
        ..Limits::default()
    }
}

/// Files and properties of node, QoS class and pod are as set, also after systemd reloaded its units and
/// re-executed itself.
fn keeps_values(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let [root, node, level, pod] = tree.make_pod()?;
    check_values(
        &tree.values(&node)?,
        &node,
        &[
            ("ActiveState", "active"),
            ("ControlGroup", &node),
            ("CPUWeight", "79"),
            ("cpu.weight", "79"),
            ("MemoryMax", "500000001"),
            ("memory.max", &pages(500_000_001)),
            ("TasksMax", "5000"),
            ("pids.max", "5000"),
            ("AllowedCPUs", "0"),
            ("cpuset.cpus", "0"),
            ("hugetlb.2MB.max", "4611686018427387904"),
            ("CPUQuotaPerSecUSec", "infinity"),
        ],
    )?;
    check_values(
        &tree.values(&level)?,
        &level,
        &[
            ("CPUWeight", "13"),
            ("cpu.weight", "13"),
            ("cpu.max", "max 100000"),
            ("memory.max", "max"),
            ("pids.max", "max"),
            ("cpuset.cpus", ""),
            ("hugetlb.2MB.max", "4611686018427387904"),
        ],
    )?;
    check_values(
        &tree.values(&pod)?,
        &pod,
        &[
            ("CPUWeight", "13"),
            ("cpu.weight", "13"),
            ("cpu.idle", "0"),
            ("CPUQuotaPerSecUSec", "780ms"),
            ("CPUQuotaPeriodUSec", "100ms"),
            ("cpu.max", "78000 100000"),
            ("MemoryMax", "123456789"),
            ("memory.max", &pages(123_456_789)),
            ("MemoryMin", "131072"),
            ("memory.min", "131072"),
            ("MemoryLow", "262144"),
            ("memory.low", "262144"),
            ("MemoryHigh", "100000000"),
            ("memory.high", &pages(100_000_000)),
            ("MemorySwapMax", "0"),
            ("memory.swap.max", "0"),
            ("memory.oom.group", "0"),
            ("TasksMax", "1000"),
            ("pids.max", "1000"),
            ("hugetlb.2MB.max", "0"),
            ("cpuset.cpus", ""),
        ],
    )?;
    tree.unchanged_by_reload(context, &[root, node, level, pod])
}

/// Raised and lowered values are in the files at once, and systemd keeps them over a reload.
fn grows_and_shrinks(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let [_, node, _, pod_path] = tree.make_pod()?;
    let quota = |quota_us| Some(CpuQuota { quota_us, period_us: 100_000 });
    let set = |limits: Limits, expected: &[(&str, &str)]| {
        tree.driver.set(&pod_path, &limits)?;
        // Read at once: the driver returns only when the files have the values.
        check_values(&tree.values(&pod_path)?, &pod_path, expected)
    };
    for round in 0..2 {
        set(
            Limits {
                cpu: Some(CpuShare::Shares(4096)),
                cpu_quota: quota(Bound::At(250_000)),
                memory_max: Some(Bound::At(256 << 20)),
                memory_high: Some(Bound::Max),
                pids_max: Some(Bound::Max),
                ..Limits::default()
            },
            &[
                ("cpu.weight", "157"),
                ("cpu.max", "250000 100000"),
                ("memory.max", "268435456"),
                ("memory.high", "max"),
                ("pids.max", "max"),
                ("memory.min", "131072"),
            ],
        )?;
        set(
            Limits {
                cpu: Some(CpuShare::Shares(2)),
                cpu_quota: quota(Bound::Max),
                memory_max: Some(Bound::At(32 << 20)),
                memory_high: Some(Bound::At(16 << 20)),
                pids_max: Some(Bound::At(0)),
                ..Limits::default()
            },
            &[
                ("cpu.weight", "1"),
                ("cpu.max", "max 100000"),
                ("memory.max", "33554432"),
                ("memory.high", "16777216"),
                ("pids.max", "1"),
                ("hugetlb.2MB.max", "0"),
            ],
        )?;
        if round == 0 {
            tree.unchanged_by_reload(context, std::slice::from_ref(&pod_path))?;
        }
    }
    // systemd must replace a CPU list, not add the new one to the old one.
    for list in ["0-1", "1", "", "0"] {
        let limits = Limits { cpuset_cpus: Some(list.into()), ..Limits::default() };
        tree.driver.set(&node, &limits)?;
        check_values(&tree.values(&node)?, &node, &[("cpuset.cpus", list), ("AllowedCPUs", list)])?;
        tree.unchanged_by(context, &["daemon-reload"], std::slice::from_ref(&node))?;
    }
    // `cpu.idle` on and off again.
    set(
        Limits { cpu: Some(CpuShare::Shares(340)), cpu_idle: Some(true), ..Limits::default() },
        &[("cpu.idle", "1"), ("CPUWeight", "idle")],
    )?;
    set(
        Limits { cpu: Some(CpuShare::Shares(340)), cpu_idle: Some(false), ..Limits::default() },
        &[("cpu.idle", "0"), ("CPUWeight", "13"), ("cpu.weight", "13")],
    )?;
    tree.unchanged_by_reload(context, &[node, pod_path])
}

/// A container's scope, as a runtime creates it, gets limits too, with `OOMPolicy=kill` `memory.oom.group` as
/// well; a scope without a process cannot be created.
fn sets_scopes(context: &Context) -> Result<(), Failure> {
    let tree = Tree::new(context)?;
    let [_, _, _, pod] = tree.make_pod()?;
    let scope = format!("cri-containerd-{}.scope", "c0".repeat(32));
    let path = format!("{pod}/{scope}");
    let absent = tree.driver.create(&path, &Limits::default());
    ensure!(absent.is_err(), "a scope without a process was made");
    let properties = ["Delegate=yes", "OOMPolicy=kill"];
    let command = tree.slice.scope(unit(&pod), &scope, &properties);
    let worker = Worker::spawn_through(context, command, &["spin", "1"])?;
    let limits = Limits {
        cpu: Some(CpuShare::Weight(17)),
        cpu_quota: Some(CpuQuota { quota_us: Bound::At(77_700), period_us: 100_000 }),
        memory_max: Some(Bound::At(64 << 20)),
        swap_max: Some(Bound::At(0)),
        oom_group: Some(true),
        pids_max: Some(Bound::At(99)),
        ..Limits::default()
    };
    tree.driver.set(&path, &limits)?;
    check_values(
        &tree.values(&path)?,
        &path,
        &[
            ("ControlGroup", &path),
            ("cpu.weight", "17"),
            ("cpu.max", "78000 100000"),
            ("memory.max", "67108864"),
            ("MemorySwapMax", "0"),
            ("memory.oom.group", "1"),
            ("pids.max", "99"),
        ],
    )?;
    tree.unchanged_by_reload(context, &[pod, path])?;
    worker.finish(context.patiently(5))?;
    Ok(())
}
