//! Which files of cgroups kubelet and runtime write, and which are written here: two lists that never meet.
//!
//! The sources of the kubelet (1.20 to 1.36: `pkg/kubelet/cm`) and of runc (`libcontainer/cgroups`), and
//! recordings of real kubelets, which a test compares. An end-to-end test
//! (`tests/src/e2e/cluster/written.rs`) compares what the kernel sees a real kubelet and its runtime write.
//! What is on neither list is not written either.

use crate::wanted::Level;

/// Who writes a file that is not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// When it makes pods, resizes them and, for the QoS classes, every minute.
    Kubelet,
    /// When it makes containers and when the kubelet has them updated.
    Runtime,
}

/// A file that another program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// Whose file.
    pub level: Level,
    /// Its name; a `*` at the end stands for anything.
    pub file: &'static str,
    /// Who writes it.
    pub writer: Writer,
}

const fn kubelet(level: Level, file: &'static str) -> Foreign {
    Foreign { level, file, writer: Writer::Kubelet }
}

const fn runtime(file: &'static str) -> Foreign {
    Foreign { level: Level::Container, file, writer: Writer::Runtime }
}

/// The files of cgroups that kubelet and runtime write.
pub static FOREIGN: &[Foreign] = &[
    // A kubelet does not start when a level refuses its weight, as one with cpu.idle does: nothing of a level
    // is touched.
    kubelet(Level::Qos, "*"),
    kubelet(Level::Pod, "cgroup.*"),
    kubelet(Level::Pod, "cpu.cfs_period_us"),
    kubelet(Level::Pod, "cpu.cfs_quota_us"),
    kubelet(Level::Pod, "cpu.max"),
    kubelet(Level::Pod, "cpu.shares"),
    kubelet(Level::Pod, "cpu.weight"),
    kubelet(Level::Pod, "cpu.weight.nice"),
    kubelet(Level::Pod, "cpuset.*"),
    kubelet(Level::Pod, "devices.*"),
    kubelet(Level::Pod, "hugetlb.*"),
    kubelet(Level::Pod, "memory.kmem.*"),
    kubelet(Level::Pod, "memory.limit_in_bytes"),
    kubelet(Level::Pod, "memory.low"),
    kubelet(Level::Pod, "memory.max"),
    kubelet(Level::Pod, "memory.memsw.limit_in_bytes"),
    kubelet(Level::Pod, "memory.min"),
    kubelet(Level::Pod, "memory.oom.group"),
    kubelet(Level::Pod, "memory.swap.max"),
    kubelet(Level::Pod, "pids.max"),
    runtime("blkio.*"),
    runtime("cgroup.*"),
    runtime("cpu.cfs_period_us"),
    runtime("cpu.cfs_quota_us"),
    runtime("cpu.idle"),
    runtime("cpu.max"),
    runtime("cpu.rt_*"),
    runtime("cpu.shares"),
    runtime("cpu.weight"),
    runtime("cpu.weight.nice"),
    runtime("cpuset.*"),
    runtime("devices.*"),
    runtime("freezer.*"),
    runtime("hugetlb.*"),
    runtime("io.*"),
    runtime("memory.*"),
    runtime("net_*"),
    runtime("oom_score_adj"),
    runtime("pids.max"),
    runtime("rdma.*"),
];

/// The files that are written here, and nothing else.
pub static OWN: &[(Level, &str)] = &[
    (Level::Pod, "cpu.cfs_burst_us"),
    (Level::Pod, "cpu.idle"),
    (Level::Pod, "cpu.max.burst"),
    (Level::Pod, "memory.high"),
    (Level::Container, "cpu.cfs_burst_us"),
    (Level::Container, "cpu.max.burst"),
    (Level::Daemon, "memory.min"),
    (Level::Process, "oom_score_adj"),
];

/// Files into which the agent writes what it wants to be woken by (v1 notifications, PSI triggers). That is
/// no setting: the kernel keeps it for the agent's file descriptor, and forgets it with that.
pub static NOTIFIERS: &[&str] = &["cgroup.event_control", "memory.pressure"];

/// Begins the names of processes in a daemon's cgroup whose `oom_score_adj` the runtime writes.
pub static FOREIGN_PROCESSES: &[&str] = &["containerd-shim", "conmon", "crun", "runc"];

/// Why a file is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another program writes it.
    #[error("{} writes it", match .0 { Writer::Kubelet => "the kubelet", Writer::Runtime => "the container runtime" })]
    Foreign(Writer),
    /// It is not known that no other program does.
    #[error("it is not among the files that are written here")]
    Unknown,
}

/// Whether this file may be written.
///
/// # Errors
/// Why not.
pub fn permit(level: Level, file: &str) -> Result<(), Refusal> {
    if let Some(writer) = writer(level, file) {
        return Err(Refusal::Foreign(writer));
    }
    if OWN.contains(&(level, file)) { Ok(()) } else { Err(Refusal::Unknown) }
}

/// Which other program writes this file, if one does.
pub fn writer(level: Level, file: &str) -> Option<Writer> {
    let foreign = FOREIGN.iter().find(|foreign| foreign.level == level && matches(foreign.file, file));
    foreign.map(|foreign| foreign.writer)
}

fn matches(pattern: &str, file: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => file.starts_with(beginning),
        None => file == pattern,
    }
}

#[cfg(test)]
mod tests;
