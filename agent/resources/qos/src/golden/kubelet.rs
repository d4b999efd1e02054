//! kubelet-*.json: every level, pod and container of a real kubelet, batch by batch.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::fixture::{GIB, MIB, Machine, V1, V2};
use super::super::{ContainerParameters, HierarchyFacts, Levels, WeightFormula, container, oom, tree};
use super::files::files;
use super::{cri, entries, number, pod};
use nodewarden_machine::cgroup::Version;
use nodewarden_machine::cgroup::control::{Bound, CgroupName, CpuQuota, DriverKind, Limits, PageSize};
use nodewarden_manifest::Pod;
use nodewarden_testing::golden;

/// Entries of the recordings that are not limits.
const NO_LIMITS: [&str; 5] = ["path", "present_in", "cpuset.mems", "cgroup.subtree_control", "systemd"];
/// Limits of containers that the runtime decides, not the kubelet.
const RUNTIMES_OWN: [&str; 4] = ["pids.max", "cpuset.cpus", "hugetlb.2MB.max", "hugetlb.1GB.max"];

/// Where the recorded kubelet is wrong (see the recordings' README): recording, moment, cgroup, file, why.
const FAULTS: [(&str, &str, &str, &str, &str); 4] = [
    ("memqos", "levels_after_removal", "kubepods", "memory.min", "never lowered again when pods go"),
    (
        "memqos",
        "levels_after_removal",
        "kubepods/burstable",
        "memory.min",
        "never lowered again when pods go",
    ),
    (
        "systemd",
        "levels_after_removal",
        "kubepods/burstable",
        "cpuset.cpus",
        "an emptied slice loses the controller",
    ),
    (
        "systemd",
        "levels_after_removal",
        "kubepods/besteffort",
        "cpuset.cpus",
        "an emptied slice loses the controller",
    ),
];

struct Recording {
    /// What distinguishes it: `v1`, `cgroupfs`, `systemd`, `memqos`.
    kind: &'static str,
    all: Value,
    driver: DriverKind,
    machine: Machine,
}

impl Recording {
    fn load(kind: &'static str, file: &str, driver: DriverKind, facts: HierarchyFacts) -> Option<Self> {
        let all = golden::load(file)?;
        let about = all["meta"]["recorded_from"].as_str().expect("a text").to_owned();
        let mut machine = Machine::new(facts);
        let capacity = &mut machine.capacity;
        let cpus = before(&about, "CPUs");
        capacity.cpu_milli = cpus * 1000;
        capacity.cpus = format!("0-{}", cpus - 1);
        capacity.memory_bytes = after(&about, "MemTotal") * 1024;
        capacity.swap_bytes = 0;
        capacity.hugepages = BTreeMap::from([(PageSize(2 * MIB), 0), (PageSize(GIB), 0)]);
        // The recorded kubepods has the machine's capacity as its limit.
        let (_, batch) = entries(&all["batches"]).next().expect("a batch");
        capacity.pids = number(&batch["levels"]["kubepods"]["pids.max"]);
        Some(Self { kind, all, driver, machine })
    }

    fn path(&self, name: &CgroupName) -> String {
        match self.driver {
            DriverKind::Cgroupfs => name.cgroupfs_path(),
            DriverKind::Systemd => name.systemd_path(),
        }
    }

    /// The limits as the driver sets them: systemd rounds a quota up to 10 ms per second.
    fn settled(&self, limits: &Limits) -> Limits {
        let round = |quota: CpuQuota| match quota.quota_us {
            Bound::At(us) => {
                let step = quota.period_us / 100;
                CpuQuota { quota_us: Bound::At(us.div_ceil(step) * step), ..quota }
            }
            Bound::Max => quota,
        };
        match self.driver {
            DriverKind::Cgroupfs => limits.clone(),
            DriverKind::Systemd => Limits { cpu_quota: limits.cpu_quota.map(round), ..limits.clone() },
        }
    }

    fn version(&self) -> Version {
        self.machine.facts.version
    }

    fn check(&self) {
        for (batch, recorded) in entries(&self.all["batches"]) {
            let pods: BTreeMap<&String, Pod> =
                entries(&recorded["pods"]).map(|(name, p)| (name, pod(&p["spec"]))).collect();
            let with_pods: Vec<&Pod> = pods.values().collect();
            self.check_levels(&recorded["levels"], "levels", &with_pods);
            self.check_levels(&recorded["levels_after_removal"], "levels_after_removal", &[]);
            for (name, p) in entries(&recorded["pods"]) {
                self.check_pod(&pods[name], p, &with_pods, &format!("{} {batch} {name}", self.kind));
            }
        }
    }

    fn check_levels(&self, recorded: &Value, moment: &str, pods: &[&Pod]) {
        if recorded.is_null() {
            return;
        }
        let tree = tree(pods.iter().copied(), self.machine.node()).expect("names");
        for level in ["kubepods", "kubepods/burstable", "kubepods/besteffort"] {
            let name = CgroupName::from_cgroupfs_path(&format!("/{level}")).expect("a name");
            let limits = self.settled(&tree.groups[&name].limits);
            let faulty = |file: &str| {
                FAULTS.iter().any(|(kind, when, cgroup, of, _)| {
                    (*kind, *when, *cgroup, *of) == (self.kind, moment, level, file)
                })
            };
            self.compare(&limits, &recorded[level], faulty, &format!("{} {moment} {level}", self.kind));
            self.check_path(&name, &recorded[level]["path"]);
        }
    }

    fn check_pod(&self, pod: &Pod, recorded: &Value, all: &[&Pod], what: &str) {
        let node = self.machine.node();
        let name = Levels::below("/").and_then(|l| l.pod(pod.qos, &pod.uid)).expect("a name");
        self.check_path(&name, &recorded["pod"]["path"]);
        assert_eq!(recorded["pod_cgroup"], self.path(&name), "{what}");
        let tree = tree(all.iter().copied(), node).expect("names");
        self.compare(&self.settled(&tree.groups[&name].limits), &recorded["pod"], |_| false, what);
        for (name, recorded) in entries(&recorded["containers"]) {
            let what = format!("{what} {name}");
            if name == "<sandbox>" {
                self.check_container(&container::sandbox(pod, node), recorded, oom::SANDBOX, &what);
                let limits = container::sandbox_limits(node);
                self.compare_container(&limits, &recorded["values"], &what);
                continue;
            }
            let mut containers = pod.init_containers.iter().chain(&pod.containers);
            let of_pod = containers.find(|c| c.name == *name).expect("the container");
            let given = container::parameters(pod, of_pod, node);
            self.check_container(&given, recorded, given.oom_score_adj.expect("set"), &what);
            // runc 1.1.5.
            let limits = container::container_limits(&given, Some(WeightFormula::Linear), node);
            self.compare_container(&limits, &recorded["values"], &what);
        }
    }

    fn check_container(&self, given: &ContainerParameters, recorded: &Value, adjust: i32, what: &str) {
        assert_eq!(cri::json(given), recorded["cri_request"], "{what}");
        for read in recorded["oom_score_adj"].as_array().into_iter().flatten() {
            assert_eq!(read.as_i64(), Some(adjust.into()), "{what}");
        }
    }

    /// `values` is null if the container had already ended.
    fn compare_container(&self, limits: &Limits, values: &Value, what: &str) {
        if !values.is_null() {
            self.compare(limits, values, |file| RUNTIMES_OWN.contains(&file), what);
        }
    }

    /// The computed files and values are exactly the recorded ones, except for the listed exceptions.
    fn compare(&self, limits: &Limits, recorded: &Value, excepted: impl Fn(&str) -> bool, what: &str) {
        let ours = files(limits, self.version());
        let theirs: BTreeMap<&String, &Value> =
            entries(recorded).filter(|(file, _)| !NO_LIMITS.contains(&file.as_str())).collect();
        for file in ours.keys().chain(theirs.keys().copied()).filter(|file| !excepted(file)) {
            assert_eq!(ours.get(file), theirs.get(file).copied(), "{what} {file}: ours, and recorded");
        }
    }

    fn check_path(&self, name: &CgroupName, recorded: &Value) {
        // v1's recording has no paths of levels.
        if let Some(path) = recorded.as_str() {
            assert_eq!(path, format!("/sys/fs/cgroup{}", self.path(name)));
        }
    }
}

/// The number after `word`.
fn after(text: &str, word: &str) -> u64 {
    let mut words = text.split([' ', ',']).skip_while(|w| *w != word);
    words.nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{word} in {text}"))
}

/// The number before `word`.
fn before(text: &str, word: &str) -> u64 {
    let words: Vec<_> = text.split([' ', ',']).collect();
    let at = words.iter().position(|w| *w == word).expect("the word");
    words[at - 1].parse().expect("a number")
}

#[test]
fn v1() {
    // The machine mounts no hugetlb.
    let facts = HierarchyFacts { hugetlb: false, ..V1 };
    let Some(recording) = Recording::load("v1", "kubelet-v1.json", DriverKind::Cgroupfs, facts) else {
        return;
    };
    recording.check();
}

#[test]
fn v2_cgroupfs() {
    let file = "kubelet-v2-cgroupfs.json";
    let Some(recording) = Recording::load("cgroupfs", file, DriverKind::Cgroupfs, V2) else { return };
    recording.check();
}

#[test]
fn v2_systemd() {
    let file = "kubelet-v2-systemd.json";
    let Some(recording) = Recording::load("systemd", file, DriverKind::Systemd, V2) else { return };
    recording.check();
}

#[test]
fn v2_memory_qos() {
    let file = "kubelet-v2-memqos.json";
    let Some(mut recording) = Recording::load("memqos", file, DriverKind::Cgroupfs, V2) else { return };
    recording.machine.settings.memory_qos = true;
    recording.check();
}
