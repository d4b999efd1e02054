//! What `/stats/summary` shows of a pod's processes beside the values of its cgroups.

use super::Interface;

/// Processes and network of one pod. What is not known is `None` or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workload {
    /// Number of processes in its containers, without its sandbox.
    pub processes: Option<u64>,
    /// The interfaces of its network namespace, by /proc/PID/net/dev of one of its processes. A pod on the
    /// host's network has those of the host.
    pub interfaces: Vec<Interface>,
}
