//! What an operator sets of the node's cgroups: the kubelet's keys with the kubelet's defaults
//! (pkg/kubelet/apis/config/v1beta1/defaults.go).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::threshold::Threshold;
use nodewarden_machine::cgroup::control::DriverKind;
use nodewarden_manifest::ResourceList;

/// Settings of the hierarchy.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSettings {
    /// `cgroupRoot`: the cgroup under which everything is made, as an abstract path; `/` is the root.
    pub cgroup_root: String,
    /// `cgroupsPerQOS`.
    pub cgroups_per_qos: bool,
    /// `cgroupDriver`, unless the runtime tells.
    pub cgroup_driver: DriverKind,
    /// `enforceNodeAllocatable`, in the order of [`Enforce`].
    pub enforce: Vec<Enforce>,
    pub kube_reserved: ResourceList,
    pub system_reserved: ResourceList,
    /// Absolute abstract paths.
    pub kube_reserved_cgroup: Option<String>,
    pub system_reserved_cgroup: Option<String>,
    /// `evictionHard` by signal (`memory.available`), without those that are turned off.
    pub eviction_hard: BTreeMap<String, Threshold>,
    /// `podPidsLimit`; none for -1.
    pub pod_pids_limit: Option<u64>,
    /// `cpuCFSQuota`.
    pub cpu_cfs_quota: bool,
    /// `cpuCFSQuotaPeriod`.
    pub cpu_cfs_quota_period: Duration,
    /// `qosReserved`: percent by resource; the kubelet knows `memory`.
    pub qos_reserved_memory_percent: Option<u8>,
    /// Feature gate `MemoryQoS` (KEP-2570).
    pub memory_qos: bool,
    /// `memoryThrottlingFactor`, over 0 to 1.
    pub memory_throttling_factor: f64,
    /// `memoryReservationPolicy`.
    pub memory_reservation: MemoryReservation,
    /// `memorySwap.swapBehavior`.
    pub swap_behavior: SwapBehavior,
    pub fail_swap_on: bool,
    /// `failCgroupV1`: refuse to start where cgroup v2 is not alone.
    pub fail_cgroup_v1: bool,
    /// `singleProcessOOMKill`; none: false on v2, true on v1.
    pub single_process_oom_kill: Option<bool>,
    /// `oomScoreAdj` of the agent itself.
    pub oom_score_adj: i32,
    pub kubelet_cgroups: Option<String>,
    pub system_cgroups: Option<String>,
    /// Not a key of the kubelet's file but its flag `--runtime-cgroups`; `nodewarden.runtimeCgroups` here.
    pub runtime_cgroups: Option<String>,
    /// `staticPodPath`.
    pub static_pod_path: Option<PathBuf>,
    /// `fileCheckFrequency`.
    pub file_check_frequency: Duration,
    /// `maxPods`.
    pub max_pods: u32,
}

/// One word of `enforceNodeAllocatable`; `none` is the empty list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Enforce {
    Pods,
    SystemReserved,
    KubeReserved,
    SystemReservedCompressible,
    KubeReservedCompressible,
}

impl Enforce {
    pub const ALL: [Self; 5] = [
        Self::Pods,
        Self::SystemReserved,
        Self::KubeReserved,
        Self::SystemReservedCompressible,
        Self::KubeReservedCompressible,
    ];

    /// The kubelet's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::SystemReserved => "system-reserved",
            Self::KubeReserved => "kube-reserved",
            Self::SystemReservedCompressible => "system-reserved-compressible",
            Self::KubeReservedCompressible => "kube-reserved-compressible",
        }
    }
}

/// Where MemoryQoS writes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryReservation {
    /// The key is absent: as Kubernetes 1.35 and before, `memory.min` for every request.
    Unset,
    /// No reservation, `memory.high` only.
    None,
    /// `memory.min` for Guaranteed, `memory.low` for Burstable.
    TieredReservation,
}

/// `memorySwap.swapBehavior`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapBehavior {
    NoSwap,
    LimitedSwap,
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            cgroup_root: String::from("/"),
            cgroups_per_qos: true,
            cgroup_driver: DriverKind::Cgroupfs,
            enforce: vec![Enforce::Pods],
            kube_reserved: ResourceList::new(),
            system_reserved: ResourceList::new(),
            kube_reserved_cgroup: None,
            system_reserved_cgroup: None,
            eviction_hard: super::settings::eviction::default_hard(),
            pod_pids_limit: None,
            cpu_cfs_quota: true,
            cpu_cfs_quota_period: Duration::from_millis(100),
            qos_reserved_memory_percent: None,
            memory_qos: false,
            memory_throttling_factor: 0.9,
            memory_reservation: MemoryReservation::Unset,
            swap_behavior: SwapBehavior::NoSwap,
            fail_swap_on: true,
            fail_cgroup_v1: false,
            single_process_oom_kill: None,
            oom_score_adj: -999,
            kubelet_cgroups: None,
            system_cgroups: None,
            runtime_cgroups: None,
            static_pod_path: None,
            file_check_frequency: Duration::from_secs(20),
            max_pods: 110,
        }
    }
}
