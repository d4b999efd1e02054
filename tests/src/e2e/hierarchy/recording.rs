//! Recordings of a kubelet's values, from `shared/golden`. Values that depend on the node are replaced by
//! this node's.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::fixture::Driver;
use crate::harness::{Failure, golden};

/// One recording file.
pub struct Recording {
    pub batches: Vec<Batch>,
}

/// Pods that ran together.
pub struct Batch {
    pub name: String,
    /// Files of `kubepods`, `kubepods/burstable` and `kubepods/besteffort` while the pods ran.
    pub levels: BTreeMap<String, Files>,
    /// The same after the pods' removal.
    pub levels_after: BTreeMap<String, Files>,
    pub pods: Vec<Pod>,
}

/// Values by file name.
pub type Files = BTreeMap<String, String>;

/// One recorded pod.
pub struct Pod {
    pub name: String,
    pub manifest: Value,
    /// The path of its cgroup below the kubelet's root.
    pub path: String,
    pub files: Files,
    /// The request to the runtime by container, with `<sandbox>` as one of them.
    pub requests: BTreeMap<String, Value>,
    /// On v1: the hierarchies that its directory was in.
    pub present_in: Vec<String>,
    /// Properties of its systemd unit.
    pub unit: BTreeMap<String, String>,
}

impl Recording {
    /// # Errors
    /// The file is missing (which skips the test) or is no recording.
    /// Reads the recording `file` of the golden values.
    ///
    pub fn load(file: &str) -> Result<Self, Failure> {
        let path = golden(file).ok_or_else(|| Failure::Skip(format!("no golden {file}")))?;
        let value: Value =
            serde_json::from_str(&std::fs::read_to_string(&path).map_err(Failure::file(&path))?)
                .map_err(|e| broken(file, &e.to_string()))?;
        let batches = value["batches"].as_object().ok_or_else(|| broken(file, "no batches"))?;
        let node = Node::read(&value)?;
        let batches = batches
            .iter()
            .map(|(name, batch)| Batch::read(file, name, batch, &node))
            .collect::<Result<_, _>>()?;
        Ok(Self { batches })
    }
}

/// The failure for a file with wrong content.
fn broken(file: &str, what: &str) -> Failure {
    Failure::Unexpected(format!("{file}: {what}"))
}

impl Batch {
    fn read(file: &str, name: &str, batch: &Value, node: &Node) -> Result<Self, Failure> {
        let levels = |key: &str| -> BTreeMap<String, Files> {
            let all = batch[key].as_object().cloned().unwrap_or_default();
            all.into_iter()
                .filter(|(level, _)| level.starts_with("kubepods"))
                .map(|(level, values)| {
                    let values = node.translate(&level, files(&values));
                    (level, values)
                })
                .collect()
        };
        let pods = batch["pods"].as_object().ok_or_else(|| broken(file, "no pods"))?;
        let pods = pods.iter().map(|(name, pod)| Pod::read(name, pod, node)).collect();
        Ok(Self {
            name: name.to_owned(),
            levels: levels("levels"),
            levels_after: levels("levels_after_removal"),
            pods,
        })
    }
}

impl Pod {
    fn read(name: &str, pod: &Value, node: &Node) -> Self {
        let containers = pod["containers"].as_object().cloned().unwrap_or_default();
        let list = |v: &Value| v.as_array().into_iter().flatten().map(text).collect();
        Self {
            name: name.to_owned(),
            manifest: pod["spec"].clone(),
            path: text(&pod["pod_cgroup"]),
            files: node.translate("pod", files(&pod["pod"])),
            requests: containers.into_iter().map(|(name, c)| (name, c["cri_request"].clone())).collect(),
            present_in: list(&pod["pod"]["present_in"]),
            unit: pod["pod"]["systemd"]
                .as_object()
                .cloned()
                .unwrap_or_default()
                .iter()
                .map(|(k, v)| (k.clone(), text(v)))
                .collect(),
        }
    }
}

/// The entries that are files with a single value.
fn files(values: &Value) -> Files {
    let none = Map::new();
    let is_file = |name: &&String| name.contains('.') && *name != "cgroup.subtree_control";
    let values = values.as_object().unwrap_or(&none);
    values.iter().filter(|(name, _)| is_file(name)).map(|(name, value)| (name.clone(), text(value))).collect()
}

/// A JSON value as text, strings without quotes.
pub fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Memory, CPUs and pids of the recorded node and of this one.
struct Node {
    recorded_memory: u64,
    recorded_cpus: u64,
    memory: u64,
    cpus: u64,
    pids: u64,
}

impl Node {
    fn read(recording: &Value) -> Result<Self, Failure> {
        let from = text(&recording["meta"]["recorded_from"]);
        let number_before =
            |unit: &str| -> Option<u64> { from.split(unit).next()?.rsplit(' ').next()?.parse().ok() };
        let number = |path: &str| -> Result<u64, Failure> {
            std::fs::read_to_string(path)
                .map_err(Failure::file(path))?
                .trim()
                .parse()
                .map_err(|_| broken(path, "no number"))
        };
        let meminfo = std::fs::read_to_string("/proc/meminfo").map_err(Failure::file("/proc/meminfo"))?;
        let total = meminfo
            .lines()
            .find_map(|l| l.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(Self {
            recorded_memory: number_before(" kB").ok_or_else(|| broken("meta", "no MemTotal"))? * 1024,
            recorded_cpus: number_before(" CPUs").ok_or_else(|| broken("meta", "no CPUs"))?,
            memory: total.ok_or_else(|| broken("/proc/meminfo", "no MemTotal"))? * 1024,
            cpus: nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten().unwrap_or(1)
                as u64,
            pids: number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?),
        })
    }

    /// Replaces values that depend on the node by this node's: limits of the level `kubepods`, and CPU lists
    /// of all.
    fn translate(&self, level: &str, mut files: Files) -> Files {
        let mut set = |name: &str, value: String| {
            files.entry(name.to_owned()).and_modify(|v| *v = value);
        };
        if self.cpus != self.recorded_cpus {
            set("cpuset.cpus", if self.cpus == 1 { "0".into() } else { format!("0-{}", self.cpus - 1) });
        }
        if level != "kubepods" {
            return files;
        }
        set("pids.max", self.pids.to_string());
        if self.cpus != self.recorded_cpus {
            let shares = self.cpus * 1024;
            set("cpu.shares", shares.to_string());
            set("cpu.weight", (1 + (shares - 2) * 9999 / 262_142).to_string());
        }
        for name in ["memory.max", "memory.limit_in_bytes"] {
            if files.get(name) == Some(&self.recorded_memory.to_string()) {
                files.insert(name.to_owned(), self.memory.to_string());
            }
        }
        files
    }
}

/// The name of the recording for this cgroup version and driver.
pub fn file_for(v2: bool, driver: Driver) -> &'static str {
    match (v2, driver) {
        (false, _) => "kubelet-v1.json",
        (true, Driver::Cgroupfs) => "kubelet-v2-cgroupfs.json",
        (true, Driver::Systemd) => "kubelet-v2-systemd.json",
    }
}
