//! Every feature gate that is known here, and what it means.

use super::FeatureGates;
use GateMeaning::{Done, NoEffect};

/// A feature gate of the kubelet.
#[derive(Debug)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// What it means here.
    pub meaning: GateMeaning,
}

/// What a feature gate means here.
#[derive(Debug, Clone, Copy)]
pub enum GateMeaning {
    /// It changes what is done: its value, whether `AllAlpha` sets it, and what it does.
    Done { place: fn(&mut FeatureGates) -> &mut bool, alpha: bool, about: &'static str },
    /// It changes nothing, whether on or off; the reason.
    NoEffect(&'static str),
}

const fn gate(name: &'static str, meaning: GateMeaning) -> Gate {
    Gate { name, meaning }
}

const ALWAYS: &str = "always on: what it stands for cannot be turned off";
const BY_KEYS: &str = "always on: the keys of the file decide";
const NOT_BUILT_IN: &str = "never on: pods that need it are refused";

/// All of them, by name.
pub static GATES: &[Gate] = &[
    gate("AllBeta", NoEffect("beta gates that have an effect here are set by their own names")),
    gate(
        "CPUManagerPolicyAlphaOptions",
        Done {
            place: |gates| &mut gates.cpu_manager_policy_alpha_options,
            alpha: true,
            about: "`cpuManagerPolicyOptions` may have options that are alpha",
        },
    ),
    gate(
        "CPUManagerPolicyBetaOptions",
        Done {
            place: |gates| &mut gates.cpu_manager_policy_beta_options,
            alpha: false,
            about: "`cpuManagerPolicyOptions` may have options that are beta",
        },
    ),
    gate("CPUManagerPolicyOptions", NoEffect(BY_KEYS)),
    gate("ContainerCheckpoint", NoEffect("never on: containers cannot be checkpointed")),
    gate(
        "CustomCPUCFSQuotaPeriod",
        Done {
            place: |gates| &mut gates.custom_cpu_cfs_quota_period,
            alpha: true,
            about: "`cpuCFSQuotaPeriod` may be another one than 100ms",
        },
    ),
    gate(
        "DefaultPodSysctls",
        Done {
            place: |gates| &mut gates.default_pod_sysctls,
            alpha: true,
            about: "`defaultPodSysctls` may be set",
        },
    ),
    gate(
        "DisableCPUQuotaWithExclusiveCPUs",
        Done {
            place: |gates| &mut gates.disable_cpu_quota_with_exclusive_cpus,
            alpha: false,
            about: "containers with CPUs for themselves have no CPU quota",
        },
    ),
    gate("DynamicResourceAllocation", NoEffect(NOT_BUILT_IN)),
    gate(
        "EventedPLEG",
        NoEffect("always on where the runtime reports events; the kernel reports what it sees itself"),
    ),
    gate("GracefulNodeShutdown", NoEffect(BY_KEYS)),
    gate("GracefulNodeShutdownBasedOnPodPriority", NoEffect(BY_KEYS)),
    gate(
        "ImageMaximumGCAge",
        Done {
            place: |gates| &mut gates.image_maximum_gc_age,
            alpha: false,
            about: "`imageMaximumGCAge` may be set",
        },
    ),
    gate("InPlacePodVerticalScaling", NoEffect(ALWAYS)),
    gate(
        "KubeletCrashLoopBackOffMax",
        Done {
            place: |gates| &mut gates.crash_loop_back_off_max,
            alpha: false,
            about: "`crashLoopBackOff` may be set",
        },
    ),
    gate("KubeletEnsureSecretPulledImages", NoEffect("imagePullCredentialsVerificationPolicy decides")),
    gate("KubeletTracing", NoEffect("never on: the agent sends no traces")),
    gate("LocalStorageCapacityIsolation", NoEffect("localStorageCapacityIsolation decides")),
    gate("MemoryManager", NoEffect(BY_KEYS)),
    gate(
        "MemoryQoS",
        Done {
            place: |gates| &mut gates.memory_qos,
            alpha: true,
            about: "requests and limits of memory are also written as memory.min, memory.low and memory.high (KEP-2570)",
        },
    ),
    gate("NodeLogQuery", NoEffect("never on: queries of the node's logs are not built in")),
    gate(
        "NodeSwap",
        Done { place: |gates| &mut gates.node_swap, alpha: false, about: "`memorySwap` may be set" },
    ),
    gate(
        "PodLevelResourceManagers",
        Done {
            place: |gates| &mut gates.pod_level_resource_managers,
            alpha: true,
            about: "pods with resources of their own get CPUs and memory as a whole",
        },
    ),
    gate("ProcMountType", NoEffect(NOT_BUILT_IN)),
    gate(
        "QOSReserved",
        Done { place: |gates| &mut gates.qos_reserved, alpha: true, about: "`qosReserved` has an effect" },
    ),
    gate(
        "ReduceDefaultCrashLoopBackOffDecay",
        Done {
            place: |gates| &mut gates.reduce_crash_loop_back_off,
            alpha: true,
            about: "CrashLoopBackOff begins with 1s and ends at 60s",
        },
    ),
    gate("RotateKubeletServerCertificate", NoEffect("always on: serverTLSBootstrap decides")),
    gate("SidecarContainers", NoEffect(ALWAYS)),
    gate("TopologyManagerPolicyAlphaOptions", NoEffect(BY_KEYS)),
    gate("TopologyManagerPolicyBetaOptions", NoEffect(BY_KEYS)),
    gate("TopologyManagerPolicyOptions", NoEffect(BY_KEYS)),
    gate("UserNamespacesSupport", NoEffect(NOT_BUILT_IN)),
];
