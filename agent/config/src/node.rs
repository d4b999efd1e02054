//! The node and its cgroups: the kubelet's keys, with the kubelet's defaults
//! (pkg/kubelet/apis/config/v1beta1/defaults.go) and its checks
//! (pkg/kubelet/apis/config/validation/validation.go).

mod allocatable;
mod limits;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use crate::eviction::EvictionSettings;
use crate::fields::Fields;
use crate::gates::FeatureGates;
use crate::resource_managers::{self, ResourceManagerSettings};
use crate::show::{Map, pair};
use crate::static_url::StaticPodUrl;
use crate::threshold::Threshold;
use crate::{cgroup_path, duration, eviction, static_url};
use nodewarden_machine::cgroup::control::DriverKind;
use nodewarden_manifest::ResourceList;

/// Settings of the hierarchy.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeSettings {
    /// `cgroupRoot`: the cgroup below which all cgroups are created, as an abstract path; `/` is the root.
    pub cgroup_root: String,
    /// `cgroupsPerQOS`.
    pub cgroups_per_qos: bool,
    /// `cgroupDriver`, used if the runtime does not report its driver.
    pub cgroup_driver: DriverKind,
    /// `enforceNodeAllocatable`, in the order of [`Enforce`].
    pub enforce: Vec<Enforce>,
    /// `kubeReserved`: what the node's Kubernetes daemons get; subtracted from the capacity.
    pub kube_reserved: ResourceList,
    /// `systemReserved`: what the other daemons get; subtracted from the capacity.
    pub system_reserved: ResourceList,
    /// `kubeReservedCgroup`: absolute abstract path; required to enforce `kube-reserved`.
    pub kube_reserved_cgroup: Option<String>,
    /// `systemReservedCgroup`: absolute abstract path; required to enforce `system-reserved`.
    pub system_reserved_cgroup: Option<String>,
    /// `evictionHard` by signal (`memory.available`), without those that are turned off.
    pub eviction_hard: BTreeMap<String, Threshold>,
    /// `podPidsLimit`; `None` for -1.
    pub pod_pids_limit: Option<u64>,
    /// `cpuCFSQuota`.
    pub cpu_cfs_quota: bool,
    /// `cpuCFSQuotaPeriod`.
    pub cpu_cfs_quota_period: Duration,
    /// `qosReserved`: percent by resource; the kubelet knows `memory`.
    pub qos_reserved_memory_percent: Option<u8>,
    /// Feature gate `MemoryQoS` (KEP-2570).
    pub memory_qos: bool,
    /// `memoryThrottlingFactor`, above 0 and at most 1.
    pub memory_throttling_factor: f64,
    /// `memoryReservationPolicy`.
    pub memory_reservation: MemoryReservation,
    /// `memorySwap.swapBehavior`.
    pub swap_behavior: SwapBehavior,
    /// `failSwapOn`: refuse to start while the node uses swap.
    pub fail_swap_on: bool,
    /// `failCgroupV1`: refuse to start unless only cgroup v2 is mounted.
    pub fail_cgroup_v1: bool,
    /// `singleProcessOOMKill`; `None` means false on v2 and true on v1.
    pub single_process_oom_kill: Option<bool>,
    /// `oomScoreAdj` of the agent itself.
    pub oom_score_adj: i32,
    /// `kubeletCgroups`: the cgroup into which the agent moves itself; `None` leaves it where it is.
    pub kubelet_cgroups: Option<String>,
    /// `systemCgroups`: the cgroup for the processes of the root cgroup; `None` leaves them there.
    pub system_cgroups: Option<String>,
    /// Not a key of the kubelet's file but its flag `--runtime-cgroups`; `nodewarden.runtimeCgroups` here.
    pub runtime_cgroups: Option<String>,
    /// `staticPodPath`.
    pub static_pod_path: Option<PathBuf>,
    /// `fileCheckFrequency`.
    pub file_check_frequency: Duration,
    /// `staticPodURL`, `staticPodURLHeader` and `httpCheckFrequency`.
    pub static_pod_url: StaticPodUrl,
    /// `maxPods`. See [`Self::most_pods`].
    pub max_pods: u32,
    /// `podsPerCore`; `None` for 0, no limit by CPUs.
    pub pods_per_core: Option<u32>,
    /// `maxOpenFiles`: the limit of open files of the agent itself.
    pub max_open_files: u64,
    /// `protectKernelDefaults`: true checks the kernel settings that a kubelet wants, false sets them, `None`
    /// does neither.
    pub protect_kernel_defaults: Option<bool>,
    /// The managers of CPUs, memory and topology.
    pub managers: ResourceManagerSettings,
}

impl NodeSettings {
    /// The largest number of pods on a machine with this many CPUs: `maxPods`, and no more than `podsPerCore`
    /// for each CPU (pkg/kubelet/nodestatus `MachineInfo`).
    pub fn most_pods(&self, cpus: u64) -> u32 {
        let by_cpus = self.pods_per_core.map(|each| u64::from(each).saturating_mul(cpus));
        let by_cpus = by_cpus.map_or(u32::MAX, |pods| u32::try_from(pods).unwrap_or(u32::MAX));
        self.max_pods.min(by_cpus)
    }
}

/// A value of `enforceNodeAllocatable`; `none` is the empty list.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Enforce {
    /// The limits of the cgroup of all pods: the node's allocatable resources.
    Pods,
    /// All of `systemReserved` as limits of `systemReservedCgroup`.
    SystemReserved,
    /// All of `kubeReserved` as limits of `kubeReservedCgroup`.
    KubeReserved,
    /// Of `systemReserved` only the CPU share.
    SystemReservedCompressible,
    /// Of `kubeReserved` only the CPU share.
    KubeReservedCompressible,
}

impl Enforce {
    /// The kubelet's name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Where MemoryQoS writes requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum MemoryReservation {
    /// The key is absent: as Kubernetes 1.35 and before, `memory.min` for every request.
    #[strum(disabled)]
    Unset,
    /// No reservation, `memory.high` only.
    None,
    /// `memory.min` for Guaranteed, `memory.low` for Burstable.
    TieredReservation,
}

/// `memorySwap.swapBehavior`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum SwapBehavior {
    /// Pods use no swap; the default.
    NoSwap,
    /// Burstable pods use swap in proportion to their memory request (KEP-2400).
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
            eviction_hard: eviction::default_hard(),
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
            static_pod_url: StaticPodUrl::default(),
            max_pods: 110,
            pods_per_core: None,
            max_open_files: 1_000_000,
            protect_kernel_defaults: None,
            managers: ResourceManagerSettings::default(),
        }
    }
}

/// Reads the kubelet's keys about the node and its cgroups.
pub(crate) fn take(top: &mut Fields<'_>, gates: FeatureGates) -> (NodeSettings, EvictionSettings) {
    let mut settings = NodeSettings::default();
    places(top, &mut settings);
    let reserved_cpus = allocatable::take(top, &mut settings);
    settings.managers = resource_managers::take(top, gates, reserved_cpus);
    let (hard, eviction) = eviction::take(top, settings.enforce.contains(&Enforce::Pods));
    settings.eviction_hard = hard;
    limits::take(top, gates, &mut settings);
    let up = |first| first..=i64::from(i32::MAX);
    settings.oom_score_adj = top
        .integer("oomScoreAdj", "a whole number from -1000 to 1000", &(-1000..=1000))
        .map_or(settings.oom_score_adj, |n| n as i32);
    settings.max_pods = top
        .integer("maxPods", "a whole number from 0 up", &up(0))
        .filter(|n| *n > 0)
        .map_or(settings.max_pods, |n| n as u32);
    let number = "a whole number from 0 up";
    settings.pods_per_core =
        top.integer("podsPerCore", number, &up(0)).and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
    settings.max_open_files = top
        .integer("maxOpenFiles", number, &(0..=i64::MAX))
        .and_then(|n| u64::try_from(n).ok())
        .filter(|n| *n > 0)
        .unwrap_or(settings.max_open_files);
    settings.static_pod_path = top
        .text("staticPodPath", "an absolute path", |t| match t {
            "" => Some(None),
            t => (t.starts_with('/') && !t.contains('\0')).then(|| Some(PathBuf::from(t))),
        })
        .flatten();
    settings.file_check_frequency = top
        .duration("fileCheckFrequency")
        .filter(|time| !time.is_zero())
        .unwrap_or(settings.file_check_frequency);
    settings.static_pod_url = static_url::take(top);
    settings.protect_kernel_defaults = top.optional_flag("protectKernelDefaults");
    (settings, eviction)
}

/// Reads where cgroups are created, and by which driver.
fn places(top: &mut Fields<'_>, settings: &mut NodeSettings) {
    let root = cgroup_path::take(top, "cgroupRoot");
    settings.cgroups_per_qos = top.flag("cgroupsPerQOS", settings.cgroups_per_qos);
    settings.cgroup_driver =
        top.choice("cgroupDriver", &["cgroupfs", "systemd"], true).unwrap_or(settings.cgroup_driver);
    settings.kubelet_cgroups = cgroup_path::take(top, "kubeletCgroups");
    settings.system_cgroups = cgroup_path::take_below_root(top, "systemCgroups");
    if settings.system_cgroups.is_some() && root.is_none() && !top.has_problem("cgroupRoot") {
        top.refuse("cgroupRoot", "", "the cgroup that pods live under, because systemCgroups is set");
    }
    settings.cgroup_root = root.unwrap_or_else(|| "/".to_owned());
}
/// Writes the kubelet's keys.
pub(crate) fn show(top: &mut Map, node: &NodeSettings) {
    top.put("cgroupRoot", &*node.cgroup_root);
    top.put("cgroupsPerQOS", node.cgroups_per_qos);
    top.put("cgroupDriver", node.cgroup_driver.to_string());
    top.put_some("kubeletCgroups", node.kubelet_cgroups.clone());
    top.put_some("systemCgroups", node.system_cgroups.clone());
    let words: Vec<Value> = node.enforce.iter().map(|e| e.name().into()).collect();
    top.put("enforceNodeAllocatable", if words.is_empty() { vec!["none".into()] } else { words });
    top.put("kubeReserved", amounts(&node.kube_reserved));
    top.put("systemReserved", amounts(&node.system_reserved));
    top.put_some("kubeReservedCgroup", node.kube_reserved_cgroup.clone());
    top.put_some("systemReservedCgroup", node.system_reserved_cgroup.clone());
    top.put("podPidsLimit", node.pod_pids_limit.map_or(Value::from(-1), Value::from));
    top.put("cpuCFSQuota", node.cpu_cfs_quota);
    top.put("cpuCFSQuotaPeriod", duration::show(node.cpu_cfs_quota_period));
    let reserved =
        node.qos_reserved_memory_percent.map(|p| Mapping::from_iter([pair("memory", format!("{p}%"))]));
    top.put_some("qosReserved", reserved);
    top.put("memoryThrottlingFactor", node.memory_throttling_factor);
    let policy = match node.memory_reservation {
        MemoryReservation::Unset => None,
        MemoryReservation::None => Some("None"),
        MemoryReservation::TieredReservation => Some("TieredReservation"),
    };
    top.put_some("memoryReservationPolicy", policy);
    // NoSwap is the default, and without the feature gate the key is not allowed.
    let swap = match node.swap_behavior {
        SwapBehavior::NoSwap => None,
        SwapBehavior::LimitedSwap => Some(Mapping::from_iter([pair("swapBehavior", "LimitedSwap")])),
    };
    top.put_some("memorySwap", swap);
    top.put("failSwapOn", node.fail_swap_on);
    top.put("failCgroupV1", node.fail_cgroup_v1);
    top.put_some("singleProcessOOMKill", node.single_process_oom_kill);
    top.put("oomScoreAdj", node.oom_score_adj);
    top.put("maxPods", node.max_pods);
    top.put("podsPerCore", node.pods_per_core.unwrap_or(0));
    top.put("maxOpenFiles", node.max_open_files);
    top.put_some("staticPodPath", node.static_pod_path.as_ref().map(|p| p.to_string_lossy().into_owned()));
    top.put("fileCheckFrequency", duration::show(node.file_check_frequency));
    static_url::show(top, &node.static_pod_url);
    top.put_some("protectKernelDefaults", node.protect_kernel_defaults);
    resource_managers::show(top, &node.managers);
}

fn amounts(list: &ResourceList) -> Mapping {
    list.iter().map(|(name, quantity)| pair(name, quantity.to_string())).collect()
}
