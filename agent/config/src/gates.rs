//! Feature gates: those of the kubelet's that change what is done here.

use crate::fields::Fields;
use crate::kubelet::meant;

/// The kubelet's feature gates that are known here, with its defaults (pkg/features/kube_features.go, 1.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    /// `CPUManagerPolicyAlphaOptions`: options of the CPU manager that are alpha may be set.
    pub cpu_manager_policy_alpha_options: bool,
    /// `CPUManagerPolicyBetaOptions`: options of the CPU manager that are beta may be set.
    pub cpu_manager_policy_beta_options: bool,
    /// `CustomCPUCFSQuotaPeriod`: `cpuCFSQuotaPeriod` may be set.
    pub custom_cpu_cfs_quota_period: bool,
    /// `DisableCPUQuotaWithExclusiveCPUs`: containers with CPUs of their own have no CPU quota.
    pub disable_cpu_quota_with_exclusive_cpus: bool,
    /// `KubeletCrashLoopBackOffMax` (KEP-4603): `crashLoopBackOff` may be set.
    pub crash_loop_back_off_max: bool,
    /// `ImageMaximumGCAge` (KEP-4210): `imageMaximumGCAge` may be set.
    pub image_maximum_gc_age: bool,
    /// `MemoryQoS` (KEP-2570).
    pub memory_qos: bool,
    /// `NodeSwap` (KEP-2400): `memorySwap` may be set.
    pub node_swap: bool,
    /// `PodLevelResourceManagers` (KEP-5526): pods with resources of their own get CPUs and memory as a whole.
    pub pod_level_resource_managers: bool,
    /// `QOSReserved`: `qosReserved` is acted on.
    pub qos_reserved: bool,
    /// `ReduceDefaultCrashLoopBackOffDecay` (KEP-4603): 1 s to 1 min instead of 10 s to 5 min.
    pub reduce_crash_loop_back_off: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            cpu_manager_policy_alpha_options: false,
            cpu_manager_policy_beta_options: true,
            custom_cpu_cfs_quota_period: false,
            disable_cpu_quota_with_exclusive_cpus: true,
            crash_loop_back_off_max: true,
            image_maximum_gc_age: true,
            memory_qos: false,
            node_swap: true,
            pod_level_resource_managers: false,
            qos_reserved: false,
            reduce_crash_loop_back_off: false,
        }
    }
}

/// Name that sets all alpha gates that are not set individually.
const ALL_ALPHA: &str = "AllAlpha";

const NAMES: [&str; 12] = [
    ALL_ALPHA,
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
    "CustomCPUCFSQuotaPeriod",
    "DisableCPUQuotaWithExclusiveCPUs",
    "KubeletCrashLoopBackOffMax",
    "ImageMaximumGCAge",
    "MemoryQoS",
    "NodeSwap",
    "PodLevelResourceManagers",
    "QOSReserved",
    "ReduceDefaultCrashLoopBackOffDecay",
];

impl FeatureGates {
    /// Name and state of each gate.
    pub fn list(self) -> [(&'static str, bool); 11] {
        [
            ("CPUManagerPolicyAlphaOptions", self.cpu_manager_policy_alpha_options),
            ("CPUManagerPolicyBetaOptions", self.cpu_manager_policy_beta_options),
            ("CustomCPUCFSQuotaPeriod", self.custom_cpu_cfs_quota_period),
            ("DisableCPUQuotaWithExclusiveCPUs", self.disable_cpu_quota_with_exclusive_cpus),
            ("KubeletCrashLoopBackOffMax", self.crash_loop_back_off_max),
            ("ImageMaximumGCAge", self.image_maximum_gc_age),
            ("MemoryQoS", self.memory_qos),
            ("NodeSwap", self.node_swap),
            ("PodLevelResourceManagers", self.pod_level_resource_managers),
            ("QOSReserved", self.qos_reserved),
            ("ReduceDefaultCrashLoopBackOffDecay", self.reduce_crash_loop_back_off),
        ]
    }

    /// Reads `featureGates`; gates without effect here are added to `ignored`.
    pub fn take(top: &mut Fields<'_>, ignored: &mut Vec<String>) -> Self {
        let mut gates = Self::default();
        let given = top.switches("featureGates");
        if let Some(&alpha) = given.get(ALL_ALPHA) {
            gates.cpu_manager_policy_alpha_options = alpha;
            gates.pod_level_resource_managers = alpha;
            gates.custom_cpu_cfs_quota_period = alpha;
            gates.memory_qos = alpha;
            gates.qos_reserved = alpha;
            gates.reduce_crash_loop_back_off = alpha;
        }
        for (name, on) in given {
            match name.as_str() {
                ALL_ALPHA => {}
                "CPUManagerPolicyAlphaOptions" => gates.cpu_manager_policy_alpha_options = on,
                "CPUManagerPolicyBetaOptions" => gates.cpu_manager_policy_beta_options = on,
                "DisableCPUQuotaWithExclusiveCPUs" => gates.disable_cpu_quota_with_exclusive_cpus = on,
                "PodLevelResourceManagers" => gates.pod_level_resource_managers = on,
                "CustomCPUCFSQuotaPeriod" => gates.custom_cpu_cfs_quota_period = on,
                "KubeletCrashLoopBackOffMax" => gates.crash_loop_back_off_max = on,
                "ReduceDefaultCrashLoopBackOffDecay" => gates.reduce_crash_loop_back_off = on,
                "ImageMaximumGCAge" => gates.image_maximum_gc_age = on,
                "MemoryQoS" => gates.memory_qos = on,
                "NodeSwap" => gates.node_swap = on,
                "QOSReserved" => gates.qos_reserved = on,
                other => match meant(other, NAMES) {
                    Some(near) => top.refuse(
                        &format!("featureGates.{other}"),
                        "unknown feature gate",
                        &format!("a feature gate of the kubelet (did you mean {near}?)"),
                    ),
                    None => ignored.push(format!("featureGates.{other}")),
                },
            }
        }
        gates
    }
}
