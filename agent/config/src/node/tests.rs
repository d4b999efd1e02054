//! Each key: default, what is taken, and what is refused with which words.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use crate::{
    Config, ConfigError, Enforce, MemoryReservation, NodeSettings, Overrides, ResourceManagerSettings,
    SwapBehavior, Threshold, parse,
};
use nodewarden_machine::cgroup::control::DriverKind;
use nodewarden_manifest::Quantity;
use nodewarden_manifest::ResourceList;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// Reads a file. What the agent accepts must be valid by its schema too.
pub fn read(body: &str) -> Result<Config, ConfigError> {
    let text = format!("{HEAD}{body}");
    let config = parse("test.yaml", &text, &Overrides::default());
    if config.is_ok() {
        assert_eq!(crate::schema::tests::faults(&text), [""; 0], "{body}");
    }
    config
}

fn node(body: &str) -> NodeSettings {
    read(body).unwrap_or_else(|e| panic!("{body}: {e}")).node
}

pub fn problems(body: &str) -> Vec<String> {
    match read(body) {
        Err(ConfigError::Invalid { problems, .. }) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("{body}: {other:?}"),
    }
}

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

#[test]
fn the_kubelets_defaults() {
    let config = read("").unwrap();
    assert_eq!(config.node, NodeSettings::default());
    assert_eq!(config.node, node("evictionHard: null\nmaxPods: 0\nfileCheckFrequency: 0s\ncgroupRoot: ''"));
    let hard: Vec<String> = config.node.eviction_hard.iter().map(|(s, v)| format!("{s} {v}")).collect();
    assert_eq!(
        hard,
        ["imagefs.available 15%", "memory.available 100Mi", "nodefs.available 10%", "nodefs.inodesFree 5%"]
    );
    assert!(config.ignored.is_empty());
}

#[test]
fn everything_set() {
    let config = read(
        "cgroupRoot: custom/
cgroupsPerQOS: true
cgroupDriver: systemd
kubeletCgroups: /system.slice/kubelet.service
systemCgroups: /system
enforceNodeAllocatable: [kube-reserved, pods, system-reserved-compressible]
kubeReserved: {cpu: 500m, memory: 1Gi, ephemeral-storage: 10Gi, pid: '1000'}
systemReserved: {cpu: '1'}
kubeReservedCgroup: /kube.slice
systemReservedCgroup: system.slice
evictionHard: {memory.available: 5%}
mergeDefaultEvictionSettings: false
podPidsLimit: 4096
cpuCFSQuota: false
cpuCFSQuotaPeriod: 5ms
qosReserved: {memory: 50%}
memoryThrottlingFactor: 1
memoryReservationPolicy: TieredReservation
memorySwap: {swapBehavior: LimitedSwap}
failSwapOn: false
failCgroupV1: true
singleProcessOOMKill: true
oomScoreAdj: -1000
maxPods: 250
podsPerCore: 10
maxOpenFiles: 5000
staticPodPath: /etc/kubernetes/manifests
fileCheckFrequency: 1m30s
protectKernelDefaults: true
featureGates: {MemoryQoS: true, QOSReserved: true, CustomCPUCFSQuotaPeriod: true}
nodewarden: {mode: manage, runtimeCgroups: /runtime}
",
    )
    .unwrap();
    let list = |pairs: &[(&str, &str)]| -> ResourceList {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), quantity(v))).collect()
    };
    let text = |t: &str| Some(t.to_owned());
    let expected = NodeSettings {
        cgroup_root: "/custom".to_owned(),
        cgroups_per_qos: true,
        cgroup_driver: DriverKind::Systemd,
        enforce: vec![Enforce::Pods, Enforce::KubeReserved, Enforce::SystemReservedCompressible],
        kube_reserved: list(&[
            ("cpu", "500m"),
            ("memory", "1Gi"),
            ("ephemeral-storage", "10Gi"),
            ("pid", "1000"),
        ]),
        system_reserved: list(&[("cpu", "1")]),
        kube_reserved_cgroup: text("/kube.slice"),
        system_reserved_cgroup: text("/system.slice"),
        eviction_hard: BTreeMap::from([(
            "memory.available".to_owned(),
            Threshold::Fraction(f64::from(0.05_f32)),
        )]),
        pod_pids_limit: Some(4096),
        cpu_cfs_quota: false,
        cpu_cfs_quota_period: Duration::from_millis(5),
        qos_reserved_memory_percent: Some(50),
        memory_qos: true,
        memory_throttling_factor: 1.0,
        memory_reservation: MemoryReservation::TieredReservation,
        swap_behavior: SwapBehavior::LimitedSwap,
        fail_swap_on: false,
        fail_cgroup_v1: true,
        single_process_oom_kill: Some(true),
        oom_score_adj: -1000,
        kubelet_cgroups: text("/system.slice/kubelet.service"),
        system_cgroups: text("/system"),
        runtime_cgroups: text("/runtime"),
        static_pod_path: Some("/etc/kubernetes/manifests".into()),
        file_check_frequency: Duration::from_secs(90),
        static_pod_url: crate::StaticPodUrl::default(),
        max_pods: 250,
        pods_per_core: Some(10),
        max_open_files: 5000,
        protect_kernel_defaults: Some(true),
        managers: ResourceManagerSettings::default(),
    };
    assert_eq!(config.node, expected);
    assert!(config.ignored.is_empty(), "{:?}", config.ignored);
    assert_eq!(parse("again", &config.to_yaml(), &Overrides::default()).unwrap(), config);
}

#[test]
fn values_that_mean_none() {
    for body in ["podPidsLimit: -1", "podPidsLimit: -5", "podPidsLimit: 0"] {
        assert_eq!(node(body).pod_pids_limit, None, "{body}");
    }
    for body in ["enforceNodeAllocatable: [none]", "enforceNodeAllocatable: []"] {
        assert_eq!(node(&format!("{body}\ncgroupsPerQOS: false")).enforce, [], "{body}");
    }
    for body in
        ["evictionHard: {}", "evictionHard: {memory.available: 0%}", "evictionHard: {memory.available: 100%}"]
    {
        let body = format!("{body}\nmergeDefaultEvictionSettings: false");
        assert!(node(&body).eviction_hard.is_empty(), "{body}");
    }
    assert_eq!(node("staticPodPath: ''\nsystemCgroups: ''").static_pod_path, None);
}

/// MachineInfo of pkg/kubelet/nodestatus: podsPerCore for each CPU, and maxPods in any case.
#[test]
fn pods_are_bounded_by_the_cpus_too() {
    for (body, cpus, most) in [
        ("", 64, 110),
        ("podsPerCore: 0", 1, 110),
        ("podsPerCore: 10", 4, 40),
        ("podsPerCore: 10", 64, 110),
        ("podsPerCore: 2147483647", u64::MAX, 110),
        ("podsPerCore: 3\nmaxPods: 5", 1, 3),
    ] {
        assert_eq!(node(body).most_pods(cpus), most, "{body} with {cpus} CPUs");
    }
}

#[test]
fn keys_without_effect_are_listed() {
    for (body, ignored) in [
        ("qosReserved: {memory: 50%}", "qosReserved: the feature gate QOSReserved is off"),
        (
            "featureGates: {InPlacePodVerticalScaling: false}",
            "featureGates.InPlacePodVerticalScaling: always on: what it stands for cannot be turned off",
        ),
        (
            "featureGates: {Imagination: true}",
            "featureGates.Imagination: no feature gate that changes what is done here",
        ),
        ("hairpinMode: none", "hairpinMode: the container runtime sets up the network"),
    ] {
        let shown: Vec<String> = read(body).unwrap().ignored.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [ignored], "{body}");
    }
    assert_eq!(node("qosReserved: {memory: 50%}").qos_reserved_memory_percent, None);
}

#[test]
fn reserved_cpus_stand_for_both_reservations() {
    let node =
        node("reservedSystemCPUs: 0-1,4\nkubeReserved: {cpu: 100m, memory: 1Gi}\nsystemReserved: {cpu: 50m}");
    assert_eq!(node.system_reserved, [("cpu".to_owned(), quantity("3"))].into());
    assert_eq!(node.kube_reserved, [("memory".to_owned(), quantity("1Gi"))].into());
    assert_eq!(
        problems("reservedSystemCPUs: '0'\nkubeReservedCgroup: /k"),
        ["kubeReservedCgroup: /k: expected nothing, because reservedSystemCPUs is set"]
    );
}

#[test]
fn alpha_gates_all_at_once() {
    let gates = read("featureGates: {AllAlpha: true, QOSReserved: false}").unwrap().gates;
    assert!(gates.memory_qos && gates.custom_cpu_cfs_quota_period && !gates.qos_reserved && gates.node_swap);
}

#[test]
fn one_problem_each() {
    for (body, expected) in [
        (
            "cpuCFSQuotaPeriod: 5ms",
            "cpuCFSQuotaPeriod: 5ms: expected 100ms, or the feature gate CustomCPUCFSQuotaPeriod",
        ),
        (
            "cpuCFSQuotaPeriod: 999us\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}",
            "cpuCFSQuotaPeriod: 999us: expected a time from 1ms to 1s",
        ),
        (
            "cpuCFSQuotaPeriod: 1001ms\nfeatureGates: {CustomCPUCFSQuotaPeriod: true}",
            "cpuCFSQuotaPeriod: 1001ms: expected a time from 1ms to 1s",
        ),
        ("cpuCFSQuota: 1", "cpuCFSQuota: 1: expected true or false"),
        (
            "kubeReserved: {cpus: '1'}",
            "kubeReserved.cpus: unknown resource: expected one of cpu, memory, ephemeral-storage, pid",
        ),
        (
            "kubeReserved: {memory: 15Ky}",
            "kubeReserved.memory: 15Ky: expected an amount from 0 like 500m or 1Gi",
        ),
        (
            "systemReserved: {memory: -1Gi}",
            "systemReserved.memory: -1Gi: expected an amount from 0 like 500m or 1Gi",
        ),
        ("systemReserved: {cpu: 1}", "systemReserved.cpu: 1: expected a text in quotation marks"),
        ("systemReserved: [cpu]", "systemReserved: a list: expected a mapping"),
        (
            "kubeReservedCgroup: /",
            "kubeReservedCgroup: /: expected a cgroup below the root as an absolute path like /system.slice",
        ),
        (
            "enforceNodeAllocatable: [pods, kube-reserved]",
            "kubeReservedCgroup: missing: expected the cgroup that kube-reserved of enforceNodeAllocatable limits",
        ),
        (
            "enforceNodeAllocatable: [system-reserved-compressible]",
            "systemReservedCgroup: missing: expected the cgroup that system-reserved-compressible of \
             enforceNodeAllocatable limits",
        ),
        (
            "enforceNodeAllocatable: [none, pods]",
            "enforceNodeAllocatable: none: expected none alone, or only other words",
        ),
        ("enforceNodeAllocatable: [pods, pods]", "enforceNodeAllocatable: pods: expected each word once"),
        (
            "enforceNodeAllocatable: [pod]",
            "enforceNodeAllocatable: pod: expected none, pods, system-reserved, kube-reserved, \
             system-reserved-compressible, kube-reserved-compressible",
        ),
        (
            "enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]\nkubeReservedCgroup: /k",
            "enforceNodeAllocatable: kube-reserved-compressible: expected not together with kube-reserved",
        ),
        ("enforceNodeAllocatable: pods", "enforceNodeAllocatable: pods: expected a list of texts"),
        (
            "cgroupsPerQOS: false",
            "cgroupsPerQOS: false: expected true, because enforceNodeAllocatable has pods (none turns it off)",
        ),
        ("cgroupDriver: cgroup", "cgroupDriver: cgroup: expected cgroupfs or systemd"),
        (
            "cgroupRoot: /a/../b",
            "cgroupRoot: /a/../b: expected a cgroup as an absolute path like /system.slice",
        ),
        (
            "systemCgroups: /system",
            "cgroupRoot: missing: expected the cgroup that pods live under, because systemCgroups is set",
        ),
        (
            "systemCgroups: /\ncgroupRoot: /",
            "systemCgroups: /: expected a cgroup below the root as an absolute path like /system.slice",
        ),
        (
            "evictionHard: {memory.available: 101%}",
            "evictionHard.memory.available: 101%: expected an amount over 0 like 100Mi, or 0% to 100%",
        ),
        (
            "evictionSoft: {memory.available: 1Gi}",
            "evictionSoftGracePeriod.memory.available: missing: expected how long the soft threshold may be passed, like 30s",
        ),
        (
            "qosReserved: {memory: '50'}",
            "qosReserved.memory: 50: expected a whole percentage from 0% to 100%",
        ),
        (
            "qosReserved: {memory: 101%}",
            "qosReserved.memory: 101%: expected a whole percentage from 0% to 100%",
        ),
        ("qosReserved: {cpu: 50%}", "qosReserved.cpu: unknown resource: expected memory"),
        ("memoryThrottlingFactor: 0", "memoryThrottlingFactor: 0: expected a number over 0 and at most 1"),
        (
            "memoryThrottlingFactor: 1.01",
            "memoryThrottlingFactor: 1.01: expected a number over 0 and at most 1",
        ),
        (
            "memoryReservationPolicy: TieredReservation",
            "memoryReservationPolicy: TieredReservation: expected None, or the feature gate MemoryQoS",
        ),
        (
            "memoryReservationPolicy: Hard",
            "memoryReservationPolicy: Hard: expected None or TieredReservation",
        ),
        (
            "memorySwap: {swapBehavior: UnlimitedSwap}",
            "memorySwap.swapBehavior: UnlimitedSwap: expected NoSwap or LimitedSwap",
        ),
        (
            "memorySwap: {swapBehavior: NoSwap}\nfeatureGates: {NodeSwap: false}",
            "memorySwap.swapBehavior: NoSwap: expected nothing, because the feature gate NodeSwap is off",
        ),
        ("memorySwap: {behavior: NoSwap}", "memorySwap.behavior: unknown key: expected swapBehavior"),
        ("oomScoreAdj: -1001", "oomScoreAdj: -1001: expected a whole number from -1000 to 1000"),
        ("maxPods: -1", "maxPods: -1: expected a whole number from 0 up"),
        ("maxPods: '110'", "maxPods: 110: expected a whole number from 0 up"),
        ("podPidsLimit: 1.5", "podPidsLimit: 1.5: expected a whole number, -1 for none"),
        ("staticPodPath: manifests", "staticPodPath: manifests: expected an absolute path"),
        ("fileCheckFrequency: 20", "fileCheckFrequency: 20: expected a time like 20s or 1m30s"),
        ("fileCheckFrequency: -20s", "fileCheckFrequency: -20s: expected a time like 20s or 1m30s"),
        ("featureGates: {MemoryQoS: 'yes'}", "featureGates.MemoryQoS: yes: expected true or false"),
        (
            "featureGates: {MemoryQOS: true}",
            "featureGates.MemoryQOS: unknown feature gate: expected a feature gate of the kubelet (did you mean MemoryQoS?)",
        ),
    ] {
        assert_eq!(problems(body), [expected], "{body}");
    }
}

#[test]
fn every_problem_at_once() {
    let all = problems(
        "maxPods: -1\nkubeReserved: {cpu: x, disk: '1'}\nevictionHard: {memory.available: x, mem: 1%}\n\
         enforceNodeAllocatable: [kube-reserved, what]\nnodewarden: {mode: x, runtimeCgroups: /..}",
    );
    assert_eq!(all.len(), 9, "{all:#?}");
}

proptest! {
    /// Whatever is taken is shown so that it is taken again as the same.
    #[test]
    fn what_is_shown_reads_back_the_same(
        (percent, milli, bytes) in (0.001f32..100.0, 0..9_999_999u32, 1..u64::MAX >> 12),
        (period, score, pods) in (1..=1000u64, -1000..=1000i32, 0..500u32),
        (factor, flags) in (0.0001f64..=1.0, any::<[bool; 4]>()),
    ) {
        let body = format!(
            "evictionHard: {{memory.available: {percent}%, pid.available: '{bytes}'}}\n\
             kubeReserved: {{cpu: {milli}m, memory: '{bytes}'}}\nmaxPods: {pods}\noomScoreAdj: {score}\n\
             cpuCFSQuotaPeriod: {period}ms\nfeatureGates: {{CustomCPUCFSQuotaPeriod: true, NodeSwap: {}}}\n\
             memoryThrottlingFactor: {factor:?}\nfailSwapOn: {}\nsingleProcessOOMKill: {}\n\
             mergeDefaultEvictionSettings: {}\n",
            flags[0], flags[1], flags[2], flags[3],
        );
        let config = read(&body).unwrap();
        let again = parse("again", &config.to_yaml(), &Overrides::default()).unwrap();
        prop_assert_eq!(again, config);
    }
}
