//! The JSON types of `/stats/summary`: `stats/v1alpha1` of k8s.io/kubelet, with the kubelet's keys. Unknown
//! values are left out.

use serde::Serialize;

/// The whole response, for serialising to JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    pub(super) node: NodeStats,
    pub(super) pods: Vec<PodStats>,
}

/// The node as a whole, and the cgroups of the kubelet, the runtime and all pods.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeStats {
    pub(super) node_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) system_containers: Vec<ContainerStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io: Option<IoStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<NetworkStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runtime: Option<RuntimeStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rlimit: Option<RlimitStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap: Option<SwapStats>,
}

/// One pod and its containers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStats {
    pub(super) pod_ref: PodReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_time: Option<Time>,
    pub(super) containers: Vec<ContainerStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io: Option<IoStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap: Option<SwapStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<NetworkStats>,
    /// Its `emptyDir` volumes on disk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) volume: Vec<VolumeStats>,
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub(super) ephemeral_storage: Option<FsStats>,
    #[serde(rename = "process_stats", skip_serializing_if = "Option::is_none")]
    pub(super) process_stats: Option<ProcessStats>,
}

/// Reference to a pod. Name and namespace are empty if the runtime did not report them; the uid is always
/// set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PodReference {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
}

/// One container, or one of the node's system containers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStats {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu: Option<CpuStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<MemoryStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) io: Option<IoStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap: Option<SwapStats>,
    /// Its writable layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rootfs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logs: Option<FsStats>,
}

/// CPU usage: a rate and a total.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CpuStats {
    pub(super) time: Time,
    /// CPU usage in nanoseconds per second; absent without an earlier reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_nano_cores: Option<u64>,
    /// CPU time since the cgroup was created, in nanoseconds.
    pub(super) usage_core_nano_seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<PsiStats>,
}

/// Memory usage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemoryStats {
    pub(super) time: Time,
    /// Limit − working set; left out without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_bytes: Option<u64>,
    pub(super) usage_bytes: u64,
    pub(super) working_set_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rss_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) page_faults: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) major_page_faults: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<PsiStats>,
}

/// Pressure stall information of I/O.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct IoStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) psi: Option<PsiStats>,
}

/// Swap usage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SwapStats {
    pub(super) time: Time,
    /// Swap limit − swap in use; left out without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) swap_available_bytes: Option<u64>,
    pub(super) swap_usage_bytes: u64,
}

/// Pressure stall information of one resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PsiStats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) full: Option<PsiData>,
    pub(super) some: PsiData,
}

/// One line of a PSI file: total in nanoseconds, averages in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct PsiData {
    pub(super) total: u64,
    pub(super) avg10: f64,
    pub(super) avg60: f64,
    pub(super) avg300: f64,
}

/// Network usage. As in the kubelet, the default interface's figures are repeated outside the list; its name
/// is empty if there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct NetworkStats {
    pub(super) time: Time,
    #[serde(flatten)]
    pub(super) default: InterfaceStats,
    pub(super) interfaces: Vec<InterfaceStats>,
}

/// Totals of one network interface.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InterfaceStats {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rx_errors: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tx_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tx_errors: Option<u64>,
}

/// A file system, and what is used of it by whatever the figures are about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FsStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) used_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inodes_free: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inodes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) inodes_used: Option<u64>,
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct VolumeStats {
    #[serde(flatten)]
    pub(super) fs: FsStats,
    pub(super) name: String,
}

/// The file systems of the container runtime.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuntimeStats {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image_fs: Option<FsStats>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container_fs: Option<FsStats>,
}

/// The processes of a pod's containers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) struct ProcessStats {
    pub(super) process_count: u64,
}

/// Process ids: the maximum, and how many are in use.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RlimitStats {
    pub(super) time: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) maxpid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) curproc: Option<u64>,
}

/// A `metav1.Time`: RFC 3339 in UTC, whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) jiff::Timestamp);

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.0}", self.0))
    }
}
