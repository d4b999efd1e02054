//! Every flag of a kubelet 1.36 (cmd/kubelet/app/options), and those of earlier versions that installers
//! still pass.

use super::value::Form;
use Meaning::{Key, NoEffect, Only, Refused};

/// A flag of the kubelet.
#[derive(Debug, PartialEq, Eq)]
pub struct Flag {
    /// Its name without dashes.
    pub name: &'static str,
    /// What it does here.
    pub meaning: Meaning,
    /// Whether it is a boolean although it has no key.
    switch: bool,
}

impl Flag {
    /// Whether it may stand without a value.
    pub fn is_switch(&self) -> bool {
        self.switch || matches!(self.meaning, Key(_, Form::Switch))
    }
}

/// What a flag does here.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It sets the key at this path of the configuration.
    Key(&'static [&'static str], Form),
    /// It may have only this value, which is what happens anyway.
    Only(&'static str),
    /// It is accepted with a warning; the text is the reason.
    NoEffect(&'static str),
    /// The agent does not start; the text is what is expected.
    Refused(&'static str),
}

/// The name of the flag for the amount of logs.
pub const VERBOSITY: &str = "v";

const LOG: &str = "NODEWARDEN_LOG chooses what is logged, to the standard error";
const CADVISOR: &str = "there is no cAdvisor in the agent";
const REMOVED: &str = "newer kubelets have no such flag";

const fn flag(name: &'static str, meaning: Meaning) -> Flag {
    Flag { name, meaning, switch: false }
}

const fn switch(name: &'static str, meaning: Meaning) -> Flag {
    Flag { name, meaning, switch: true }
}

/// All of them, by name.
pub static FLAGS: &[Flag] = &[
    switch("add-dir-header", NoEffect(LOG)),
    flag("address", Key(&["address"], Form::Text)),
    switch("allow-privileged", NoEffect(REMOVED)),
    flag("allowed-unsafe-sysctls", Key(&["allowedUnsafeSysctls"], Form::List)),
    switch("alsologtostderr", NoEffect(LOG)),
    flag("anonymous-auth", Key(&["authentication", "anonymous", "enabled"], Form::Switch)),
    flag("application-metrics-count-limit", NoEffect(CADVISOR)),
    flag("authentication-token-webhook", Key(&["authentication", "webhook", "enabled"], Form::Switch)),
    flag(
        "authentication-token-webhook-cache-ttl",
        Key(&["authentication", "webhook", "cacheTTL"], Form::Text),
    ),
    flag("authorization-mode", Key(&["authorization", "mode"], Form::Text)),
    flag(
        "authorization-webhook-cache-authorized-ttl",
        Key(&["authorization", "webhook", "cacheAuthorizedTTL"], Form::Text),
    ),
    flag(
        "authorization-webhook-cache-unauthorized-ttl",
        Key(&["authorization", "webhook", "cacheUnauthorizedTTL"], Form::Text),
    ),
    flag(
        "azure-container-registry-config",
        NoEffect("no registry's credentials are built in: an image credential provider gives them"),
    ),
    flag("boot-id-file", NoEffect(CADVISOR)),
    flag("bootstrap-checkpoint-path", NoEffect(REMOVED)),
    flag("bootstrap-kubeconfig", Key(&["nodewarden", "kubernetes", "bootstrapKubeconfig"], Form::Text)),
    flag("cert-dir", Key(&["nodewarden", "kubernetes", "certDir"], Form::Text)),
    flag("cgroup-driver", Key(&["cgroupDriver"], Form::Text)),
    flag("cgroup-root", Key(&["cgroupRoot"], Form::Text)),
    flag("cgroups-per-qos", Key(&["cgroupsPerQOS"], Form::Switch)),
    flag("client-ca-file", Key(&["authentication", "x509", "clientCAFile"], Form::Text)),
    flag(
        "cloud-config",
        Refused("nothing: providers are not built in, --cloud-provider=external is the one"),
    ),
    flag("cloud-provider", Key(&["nodewarden", "kubernetes", "cloudProvider"], Form::Text)),
    flag("cluster-dns", Key(&["clusterDNS"], Form::List)),
    flag("cluster-domain", Key(&["clusterDomain"], Form::Text)),
    flag("cni-bin-dir", NoEffect("the container runtime sets up the network")),
    flag("cni-cache-dir", NoEffect("the container runtime sets up the network")),
    flag("cni-conf-dir", NoEffect("the container runtime sets up the network")),
    flag("container-hints", NoEffect(CADVISOR)),
    flag("container-log-max-files", Key(&["containerLogMaxFiles"], Form::Number)),
    flag("container-log-max-size", Key(&["containerLogMaxSize"], Form::Text)),
    flag("container-runtime", Only("remote")),
    flag("container-runtime-endpoint", Key(&["nodewarden", "runtimeEndpoint"], Form::Text)),
    flag("containerd", NoEffect(CADVISOR)),
    flag("containerd-namespace", NoEffect(CADVISOR)),
    flag("contention-profiling", Key(&["enableContentionProfiling"], Form::Switch)),
    flag("cpu-cfs-quota", Key(&["cpuCFSQuota"], Form::Switch)),
    flag("cpu-cfs-quota-period", Key(&["cpuCFSQuotaPeriod"], Form::Text)),
    flag("cpu-manager-policy", Key(&["cpuManagerPolicy"], Form::Text)),
    flag("cpu-manager-policy-options", Key(&["cpuManagerPolicyOptions"], Form::Map)),
    flag("cpu-manager-reconcile-period", Key(&["cpuManagerReconcilePeriod"], Form::Text)),
    flag("docker", NoEffect(CADVISOR)),
    flag("docker-endpoint", NoEffect(CADVISOR)),
    flag("docker-env-metadata-whitelist", NoEffect(CADVISOR)),
    switch("docker-only", NoEffect(CADVISOR)),
    flag("docker-root", NoEffect(CADVISOR)),
    switch("docker-tls", NoEffect(CADVISOR)),
    flag("docker-tls-ca", NoEffect(CADVISOR)),
    flag("docker-tls-cert", NoEffect(CADVISOR)),
    flag("docker-tls-key", NoEffect(CADVISOR)),
    flag("dynamic-config-dir", Refused("nothing: dynamic configuration was removed in Kubernetes 1.24")),
    switch("enable-cadvisor-json-endpoints", NoEffect(REMOVED)),
    flag("enable-controller-attach-detach", Key(&["enableControllerAttachDetach"], Form::Switch)),
    flag("enable-debugging-handlers", Key(&["enableDebuggingHandlers"], Form::Switch)),
    switch("enable-load-reader", NoEffect(CADVISOR)),
    flag("enable-server", Key(&["enableServer"], Form::Switch)),
    flag("enforce-node-allocatable", Key(&["enforceNodeAllocatable"], Form::List)),
    flag("event-burst", Key(&["eventBurst"], Form::Number)),
    flag("event-qps", Key(&["eventRecordQPS"], Form::Number)),
    flag("event-storage-age-limit", NoEffect(CADVISOR)),
    flag("event-storage-event-limit", NoEffect(CADVISOR)),
    flag("eviction-hard", Key(&["evictionHard"], Form::Thresholds)),
    flag("eviction-max-pod-grace-period", Key(&["evictionMaxPodGracePeriod"], Form::Number)),
    flag("eviction-minimum-reclaim", Key(&["evictionMinimumReclaim"], Form::Map)),
    flag("eviction-pressure-transition-period", Key(&["evictionPressureTransitionPeriod"], Form::Text)),
    flag("eviction-soft", Key(&["evictionSoft"], Form::Thresholds)),
    flag("eviction-soft-grace-period", Key(&["evictionSoftGracePeriod"], Form::Map)),
    switch("exit-on-lock-contention", NoEffect(REMOVED)),
    switch("experimental-allocatable-ignore-eviction", NoEffect(REMOVED)),
    switch("experimental-check-node-capabilities-before-mount", NoEffect(REMOVED)),
    switch("experimental-fail-swap-on", NoEffect(REMOVED)),
    switch("experimental-kernel-memcg-notification", NoEffect(REMOVED)),
    flag("experimental-mounter-path", NoEffect(REMOVED)),
    flag("fail-cgroupv1", Key(&["failCgroupV1"], Form::Switch)),
    flag("fail-swap-on", Key(&["failSwapOn"], Form::Switch)),
    flag("feature-gates", Key(&["featureGates"], Form::Gates)),
    flag("file-check-frequency", Key(&["fileCheckFrequency"], Form::Text)),
    flag("global-housekeeping-interval", NoEffect(CADVISOR)),
    flag("hairpin-mode", Key(&["hairpinMode"], Form::Text)),
    flag("healthz-bind-address", Key(&["healthzBindAddress"], Form::Text)),
    flag("healthz-port", Key(&["healthzPort"], Form::Number)),
    flag("hostname-override", Key(&["nodewarden", "nodeName"], Form::Name)),
    flag("housekeeping-interval", NoEffect(CADVISOR)),
    flag("http-check-frequency", Key(&["httpCheckFrequency"], Form::Text)),
    flag(
        "image-credential-provider-bin-dir",
        Key(&["nodewarden", "kubernetes", "imageCredentialProviderBinDir"], Form::Text),
    ),
    flag(
        "image-credential-provider-config",
        Key(&["nodewarden", "kubernetes", "imageCredentialProviderConfig"], Form::Text),
    ),
    flag("image-gc-high-threshold", Key(&["imageGCHighThresholdPercent"], Form::Number)),
    flag("image-gc-low-threshold", Key(&["imageGCLowThresholdPercent"], Form::Number)),
    flag("image-pull-progress-deadline", NoEffect(REMOVED)),
    flag("image-service-endpoint", Key(&["imageServiceEndpoint"], Form::Text)),
    flag("iptables-drop-bit", Key(&["iptablesDropBit"], Form::Number)),
    flag("iptables-masquerade-bit", Key(&["iptablesMasqueradeBit"], Form::Number)),
    switch("keep-terminated-pod-volumes", NoEffect(REMOVED)),
    flag("kernel-memcg-notification", Key(&["kernelMemcgNotification"], Form::Switch)),
    flag("kube-api-burst", Key(&["kubeAPIBurst"], Form::Number)),
    flag("kube-api-content-type", Key(&["contentType"], Form::Text)),
    flag("kube-api-qps", Key(&["kubeAPIQPS"], Form::Number)),
    flag("kube-reserved", Key(&["kubeReserved"], Form::Map)),
    flag("kube-reserved-cgroup", Key(&["kubeReservedCgroup"], Form::Text)),
    flag("kubeconfig", Key(&["nodewarden", "kubernetes", "kubeconfig"], Form::Text)),
    flag("kubelet-cgroups", Key(&["kubeletCgroups"], Form::Text)),
    flag("local-storage-capacity-isolation", Key(&["localStorageCapacityIsolation"], Form::Switch)),
    flag("lock-file", Refused("nothing: a second agent on the machine is refused by its socket")),
    flag("log-backtrace-at", NoEffect(LOG)),
    switch("log-cadvisor-usage", NoEffect(CADVISOR)),
    flag("log-dir", NoEffect(LOG)),
    flag("log-file", NoEffect(LOG)),
    flag("log-file-max-size", NoEffect(LOG)),
    flag("log-flush-frequency", NoEffect(LOG)),
    flag("log-json-info-buffer-size", NoEffect(LOG)),
    flag("log-json-split-stream", NoEffect(LOG)),
    flag("log-text-info-buffer-size", NoEffect(LOG)),
    flag("log-text-split-stream", NoEffect(LOG)),
    flag("logging-format", Key(&["logging", "format"], Form::Text)),
    switch("logtostderr", NoEffect(LOG)),
    flag("machine-id-file", NoEffect(CADVISOR)),
    flag("make-iptables-util-chains", Key(&["makeIPTablesUtilChains"], Form::Switch)),
    flag("manifest-url", Key(&["staticPodURL"], Form::Text)),
    flag("manifest-url-header", Key(&["staticPodURLHeader"], Form::Headers)),
    flag("master-service-namespace", NoEffect(REMOVED)),
    flag("max-open-files", Key(&["maxOpenFiles"], Form::Number)),
    flag("max-pods", Key(&["maxPods"], Form::Number)),
    flag("maximum-dead-containers", Key(&["nodewarden", "gc", "maxContainers"], Form::Number)),
    flag(
        "maximum-dead-containers-per-container",
        Key(&["nodewarden", "gc", "maxPerPodContainer"], Form::Number),
    ),
    flag("memory-manager-policy", Key(&["memoryManagerPolicy"], Form::Text)),
    flag("minimum-container-ttl-duration", NoEffect("nodewarden.gc.minAgeSeconds is the setting")),
    flag("minimum-image-ttl-duration", Key(&["imageMinimumGCAge"], Form::Text)),
    flag("network-plugin", NoEffect("the container runtime sets up the network")),
    flag("network-plugin-mtu", NoEffect("the container runtime sets up the network")),
    flag("node-ip", Key(&["nodewarden", "kubernetes", "nodeIP"], Form::Text)),
    flag("node-labels", Key(&["nodewarden", "kubernetes", "nodeLabels"], Form::Map)),
    flag("node-status-max-images", Key(&["nodeStatusMaxImages"], Form::Number)),
    flag("node-status-update-frequency", Key(&["nodeStatusUpdateFrequency"], Form::Text)),
    flag("non-masquerade-cidr", NoEffect("the container runtime sets up the network")),
    switch("one-output", NoEffect(LOG)),
    flag("oom-score-adj", Key(&["oomScoreAdj"], Form::Number)),
    flag("pod-cidr", Key(&["podCIDR"], Form::Text)),
    flag("pod-infra-container-image", NoEffect("the container runtime chooses the image of sandboxes")),
    flag("pod-manifest-path", Key(&["staticPodPath"], Form::Text)),
    flag("pod-max-pids", Key(&["podPidsLimit"], Form::Number)),
    flag("pods-per-core", Key(&["podsPerCore"], Form::Number)),
    flag("port", Key(&["port"], Form::Number)),
    flag("protect-kernel-defaults", Key(&["protectKernelDefaults"], Form::Switch)),
    flag("provider-id", Key(&["providerID"], Form::Text)),
    flag("qos-reserved", Key(&["qosReserved"], Form::Map)),
    flag("read-only-port", Key(&["readOnlyPort"], Form::Number)),
    switch("really-crash-for-testing", NoEffect(REMOVED)),
    switch("redirect-container-streaming", NoEffect(REMOVED)),
    flag("register-node", Key(&["registerNode"], Form::Switch)),
    switch("register-schedulable", NoEffect(REMOVED)),
    flag("register-with-taints", Key(&["registerWithTaints"], Form::Taints)),
    flag("registry-burst", Key(&["registryBurst"], Form::Number)),
    flag("registry-qps", Key(&["registryPullQPS"], Form::Number)),
    flag("reserved-cpus", Key(&["reservedSystemCPUs"], Form::Text)),
    flag("reserved-memory", Key(&["reservedMemory"], Form::MemoryByNode)),
    flag("resolv-conf", Key(&["resolvConf"], Form::Text)),
    flag("root-dir", Key(&["nodewarden", "devices", "kubeletDir"], Form::Text)),
    flag("rotate-certificates", Key(&["rotateCertificates"], Form::Switch)),
    flag("rotate-server-certificates", Key(&["serverTLSBootstrap"], Form::Switch)),
    switch("runonce", Only("false")),
    flag("runtime-cgroups", Key(&["nodewarden", "runtimeCgroups"], Form::Text)),
    flag("runtime-request-timeout", Key(&["runtimeRequestTimeout"], Form::Text)),
    flag("seccomp-default", Key(&["seccompDefault"], Form::Switch)),
    flag("seccomp-profile-root", NoEffect(REMOVED)),
    flag("serialize-image-pulls", Key(&["serializeImagePulls"], Form::Switch)),
    switch("skip-headers", NoEffect(LOG)),
    switch("skip-log-headers", NoEffect(LOG)),
    flag("stderrthreshold", NoEffect(LOG)),
    flag("storage-driver-buffer-duration", NoEffect(CADVISOR)),
    flag("storage-driver-db", NoEffect(CADVISOR)),
    flag("storage-driver-host", NoEffect(CADVISOR)),
    flag("storage-driver-password", NoEffect(CADVISOR)),
    switch("storage-driver-secure", NoEffect(CADVISOR)),
    flag("storage-driver-table", NoEffect(CADVISOR)),
    flag("storage-driver-user", NoEffect(CADVISOR)),
    flag("streaming-connection-idle-timeout", Key(&["streamingConnectionIdleTimeout"], Form::Text)),
    flag("sync-frequency", Key(&["syncFrequency"], Form::Text)),
    flag("system-cgroups", Key(&["systemCgroups"], Form::Text)),
    flag("system-reserved", Key(&["systemReserved"], Form::Map)),
    flag("system-reserved-cgroup", Key(&["systemReservedCgroup"], Form::Text)),
    flag("tls-cert-file", Key(&["tlsCertFile"], Form::Text)),
    flag("tls-cipher-suites", Key(&["tlsCipherSuites"], Form::List)),
    flag("tls-min-version", Key(&["tlsMinVersion"], Form::Text)),
    flag("tls-private-key-file", Key(&["tlsPrivateKeyFile"], Form::Text)),
    flag("topology-manager-policy", Key(&["topologyManagerPolicy"], Form::Text)),
    flag("topology-manager-policy-options", Key(&["topologyManagerPolicyOptions"], Form::Map)),
    flag("topology-manager-scope", Key(&["topologyManagerScope"], Form::Text)),
    flag(VERBOSITY, Key(&["logging", "verbosity"], Form::Number)),
    flag("vmodule", NoEffect(LOG)),
    flag("volume-plugin-dir", Key(&["volumePluginDir"], Form::Text)),
    flag("volume-stats-agg-period", Key(&["volumeStatsAggPeriod"], Form::Text)),
];
