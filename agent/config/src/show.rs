//! The effective configuration as a file that would give the same one.

use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use super::eviction::EvictionSettings;
use super::node::{Enforce, MemoryReservation, NodeSettings, SwapBehavior};
use super::{
    Config, DeviceSettings, FeatureGates, FeedbackSettings, GcSettings, LogRotation, PodSettings,
    ProbeSettings, duration, kubelet, threshold,
};
use nodewarden_manifest::{Quantity, ResourceList};

impl Config {
    /// YAML with every setting spelled out; keys that would say "none" are left out.
    pub fn to_yaml(&self) -> String {
        let mut top = Map::default();
        top.put("apiVersion", kubelet::API_VERSION);
        top.put("kind", kubelet::KIND);
        node(&mut top, &self.node);
        pods(&mut top, &self.pods, self.gates);
        images(&mut top, &self.gc);
        evicting(&mut top, &self.node, &self.eviction);
        top.put(
            "featureGates",
            self.gates.list().into_iter().map(|(n, on)| pair(n, on)).collect::<Mapping>(),
        );
        top.put("nodewarden", self.section());
        let text = serde_yaml_ng::to_string(&top.0).unwrap_or_default();
        if self.ignored.is_empty() {
            return text;
        }
        format!("# The kubelet's keys that do nothing here: {}\n{text}", self.ignored.join(", "))
    }

    fn section(&self) -> Mapping {
        let mut map = Map::default();
        map.put("mode", self.mode.name());
        map.put("socket", &*self.socket.to_string_lossy());
        map.put("httpAddress", self.http_address.to_string());
        map.put("httpAllowRemote", self.http_allow_remote);
        map.put("stateDir", &*self.state_dir.to_string_lossy());
        map.put_some("runtimeEndpoint", self.runtime_endpoint.as_ref().map(ToString::to_string));
        map.put_some("runtimeCgroups", self.node.runtime_cgroups.clone());
        map.put("maxCgroups", self.max_cgroups);
        map.put("ringBytes", self.ring_bytes);
        map.put("retentionSeconds", self.retention.as_secs());
        map.put("sampleSeconds", self.sample.as_secs());
        map.put("reconcileSeconds", self.reconcile.as_secs());
        // Parts of a second come from maxContainerRestartPeriod alone.
        let initial = Some(self.pods.backoff_initial).filter(|time| time.subsec_nanos() == 0);
        map.put_some("crashLoopBackOffInitialSeconds", initial.map(|time| time.as_secs()));
        map.put("crashLoopBackOffResetSeconds", self.pods.backoff_reset.as_secs());
        map.put("housekeepingSeconds", self.pods.housekeeping.as_secs());
        map.put_some("nodeName", self.node_name.clone());
        map.put("programStats", self.program_stats.name());
        map.put_some("benchEmptyPrograms", self.bench_empty_programs.then_some(true));
        let mut journal = Map::default();
        journal.put("memoryEvents", self.journal.memory_events as u64);
        journal.put("memoryBytes", self.journal.memory_bytes as u64);
        journal.put("fileBytes", self.journal.file_bytes);
        journal.put("files", self.journal.files);
        map.put("journal", journal.0);
        map.put("devices", devices(&self.devices));
        map.put("probes", probes(&self.probes));
        map.put("gc", gc(&self.gc));
        map.put("eviction", eviction(&self.eviction));
        map.put("feedback", feedback(&self.feedback));
        map.0
    }
}

fn devices(devices: &DeviceSettings) -> Mapping {
    let mut map = Map::default();
    map.put("kubeletDir", &*devices.kubelet_dir.to_string_lossy());
    map.put("pluginTimeoutSeconds", devices.plugin_timeout.as_secs());
    map.put("graceSeconds", devices.grace.as_secs());
    map.put("enforcement", devices.enforcement.name());
    map.put("privilegedEnforcement", devices.privileged_enforcement.name());
    map.put("cutUnhealthy", devices.cut_unhealthy);
    let extra = devices.extra.iter().map(|(resource, paths)| pair(resource, paths.clone()));
    map.put("extra", extra.collect::<Mapping>());
    map.0
}

fn probes(probes: &ProbeSettings) -> Mapping {
    let mut map = Map::default();
    map.put("maxExec", probes.max_exec as u64);
    map.put("maxHttpGet", probes.max_http_get as u64);
    map.put("maxTcpSocket", probes.max_tcp_socket as u64);
    map.put("maxGrpc", probes.max_grpc as u64);
    map.0
}

fn gc(gc: &GcSettings) -> Mapping {
    let bound = |most: Option<u32>| most.map_or(Value::from(-1), Value::from);
    let mut map = Map::default();
    map.put("periodSeconds", gc.period.as_secs());
    map.put("maxPerPodContainer", bound(gc.max_per_pod_container));
    map.put("maxContainers", bound(gc.max_containers));
    map.put("minAgeSeconds", gc.min_container_age.as_secs());
    map.0
}

fn eviction(eviction: &EvictionSettings) -> Mapping {
    let mut map = Map::default();
    map.put("comeBack", eviction.come_back);
    map.put("backOffSeconds", eviction.back_off.as_secs());
    map.put("maxBackOffSeconds", eviction.max_back_off.as_secs());
    map.put("manifestPodsCritical", eviction.manifests_critical);
    map.put("maxIntervalMilliseconds", eviction.max_interval.as_millis() as u64);
    map.put("minIntervalMilliseconds", eviction.min_interval.as_millis() as u64);
    map.0
}

fn feedback(feedback: &FeedbackSettings) -> Mapping {
    let FeedbackSettings { period, hold, max_hold, cpu, memory } = feedback;
    let (mut map, mut of_cpu, mut of_memory) = (Map::default(), Map::default(), Map::default());
    map.put("periodMilliseconds", period.as_millis() as u64);
    map.put("holdSeconds", hold.as_secs());
    map.put("maxHoldSeconds", max_hold.as_secs());
    of_cpu.put("enabled", cpu.enabled);
    of_cpu.put("waitMilliseconds", cpu.wait.as_millis() as u64);
    of_cpu.put("leastMilliCPU", cpu.least_milli);
    map.put("cpu", of_cpu.0);
    of_memory.put("enabled", memory.enabled);
    of_memory.put("distance", memory.distance);
    of_memory.put("least", memory.least);
    map.put("memory", of_memory.0);
    map.0
}

/// The kubelet's keys.
fn node(top: &mut Map, node: &NodeSettings) {
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
    // NoSwap is the default, and with the feature gate off nothing may be said.
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
    top.put_some("staticPodPath", node.static_pod_path.as_ref().map(|p| p.to_string_lossy().into_owned()));
    top.put("fileCheckFrequency", duration::show(node.file_check_frequency));
}

/// The kubelet's keys about running pods.
fn pods(top: &mut Map, pods: &PodSettings, gates: FeatureGates) {
    top.put("podLogsDir", &*pods.logs_dir.to_string_lossy());
    let LogRotation { max_size, max_files, interval } = pods.rotation;
    let size = max_size.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1);
    top.put("containerLogMaxSize", Quantity::from_bytes(size).to_string());
    top.put("containerLogMaxFiles", max_files);
    top.put("containerLogMonitorInterval", duration::show(interval));
    // Without the gate nothing may be said.
    let back_off = Mapping::from_iter([pair("maxContainerRestartPeriod", duration::show(pods.backoff_max))]);
    top.put_some("crashLoopBackOff", gates.crash_loop_back_off_max.then_some(back_off));
    let dns: Vec<Value> = pods.cluster_dns.iter().map(|ip| ip.to_string().into()).collect();
    top.put("clusterDNS", dns);
    top.put("clusterDomain", &*pods.cluster_domain);
    let resolv = pods.resolv_conf.as_ref().map(|p| p.to_string_lossy().into_owned());
    top.put("resolvConf", resolv.unwrap_or_default());
    top.put("runtimeRequestTimeout", duration::show(pods.runtime_request_timeout));
    top.put("serializeImagePulls", pods.parallel_image_pulls == Some(1));
    top.put_some("maxParallelImagePulls", pods.parallel_image_pulls.filter(|n| *n > 1));
    top.put("seccompDefault", pods.seccomp_default);
}

/// The kubelet's keys about collecting images.
fn images(top: &mut Map, gc: &GcSettings) {
    top.put("imageGCHighThresholdPercent", gc.high_percent);
    top.put("imageGCLowThresholdPercent", gc.low_percent);
    top.put("imageMinimumGCAge", duration::show(gc.min_age));
    top.put("imageMaximumGCAge", duration::show(gc.max_age.unwrap_or_default()));
}

/// The kubelet's keys about eviction.
fn evicting(top: &mut Map, node: &NodeSettings, eviction: &EvictionSettings) {
    let hard = node.eviction_hard.iter().map(|(signal, value)| pair(signal, value.to_string()));
    top.put("evictionHard", hard.collect::<Mapping>());
    // Every signal that has a threshold is above.
    top.put("mergeDefaultEvictionSettings", false);
    let pods = node.enforce.contains(&Enforce::Pods);
    let given = threshold::given(&eviction.thresholds, pods);
    let soft = given.get(node.eviction_hard.len()..).unwrap_or_default();
    let values = soft.iter().map(|t| pair(t.signal.name(), t.value.to_string()));
    top.put("evictionSoft", values.collect::<Mapping>());
    let graces = soft.iter().map(|t| pair(t.signal.name(), duration::show(t.grace)));
    top.put("evictionSoftGracePeriod", graces.collect::<Mapping>());
    let reclaim =
        given.iter().filter_map(|t| Some(pair(t.signal.name(), t.min_reclaim.as_ref()?.to_string())));
    top.put("evictionMinimumReclaim", reclaim.collect::<Mapping>());
    top.put("evictionPressureTransitionPeriod", duration::show(eviction.transition));
    let grace = eviction.max_pod_grace;
    let seconds = if grace == Duration::MAX { Value::from(-1) } else { grace.as_secs().into() };
    top.put("evictionMaxPodGracePeriod", seconds);
    top.put("localStorageCapacityIsolation", eviction.own_limits);
}

fn amounts(list: &ResourceList) -> Mapping {
    list.iter().map(|(name, quantity)| pair(name, quantity.to_string())).collect()
}

fn pair(key: &str, value: impl Into<Value>) -> (Value, Value) {
    (key.into(), value.into())
}

/// A mapping that is filled in order.
#[derive(Default)]
struct Map(Mapping);

impl Map {
    fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.0.insert(key.into(), value.into());
    }

    fn put_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }
}
