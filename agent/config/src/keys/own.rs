//! The keys of the section `nodewarden`, each with what it does.

pub(super) static OWN: &[(&str, &str)] = &[
    ("nodewarden", "Settings that a kubelet does not have."),
    ("nodewarden.augment", "What mode augment does beside a kubelet; docs/AUGMENT.md is its guide."),
    (
        "nodewarden.augment.cpuBurst",
        "CPU quota that a pod has not used may be used later: Off, Audit (what would be done is reported) or Enforce.",
    ),
    ("nodewarden.augment.cpuBurstPercent", "How much of it, in percent of the quota."),
    (
        "nodewarden.augment.cpuIdle",
        "BestEffort pods run only on CPUs that no other task wants: Off, Audit or Enforce.",
    ),
    (
        "nodewarden.augment.devicePluginDirectory",
        "The kubelet's directory of device plugins, with the checkpoint in which it keeps what they have answered.",
    ),
    (
        "nodewarden.augment.devices",
        "Accesses of pods to devices of device plugins that they were not given, and devices that they lose: Off, Audit (they are reported) or Enforce (the kernel refuses the accesses).",
    ),
    (
        "nodewarden.augment.events",
        "Kubernetes Events about OOM kills, crashed child processes and limits changed by others: Off, Audit (only in the journal) or Enforce.",
    ),
    (
        "nodewarden.augment.eviction",
        "Pods are evicted for memory and process ids, somewhat before the kubelet would: Off, Audit or Enforce.",
    ),
    (
        "nodewarden.augment.evictionMargin",
        "Bytes by which a threshold of memory is before the kubelet's, or a tenth of it, whichever is more.",
    ),
    (
        "nodewarden.augment.hostRoot",
        "Where the agent sees the node's own file system, for device nodes and CDI files: /proc/1/root in a container.",
    ),
    (
        "nodewarden.augment.kubeletConfig",
        "The kubelet's configuration file, whose thresholds are taken if this file has none but the defaults.",
    ),
    (
        "nodewarden.augment.memoryDistance",
        "How many bytes before the eviction threshold of memory.available memoryHigh begins.",
    ),
    (
        "nodewarden.augment.memoryHigh",
        "Pods above their requests are throttled before any has to be evicted (cgroup v2): Off, Audit or Enforce.",
    ),
    (
        "nodewarden.augment.neighbours",
        "Whom containers wait for (who runs, whose limit memory is reclaimed for, whose requests a disk serves first) is counted and shown: Off or Audit.",
    ),
    ("nodewarden.augment.periodMilliseconds", "Milliseconds between two rounds."),
    (
        "nodewarden.augment.podResourcesSocket",
        "The kubelet's socket that says which container has which devices.",
    ),
    (
        "nodewarden.augment.protectedMemory",
        "memory.min of each protected daemon in bytes (cgroup v2); 0 for none.",
    ),
    (
        "nodewarden.augment.protectedOomScoreAdj",
        "Highest oom_score_adj of the processes of protected daemons.",
    ),
    (
        "nodewarden.augment.protectedUnits",
        "The daemons: systemd services, or paths of cgroups. Those that are not there are left out.",
    ),
    (
        "nodewarden.augment.protection",
        "Daemons of the node are protected from the OOM killer and from reclaim: Off, Audit or Enforce.",
    ),
    (
        "nodewarden.benchEmptyPrograms",
        "For measurements only: also attaches kernel programs that do nothing.",
    ),
    (
        "nodewarden.crashLoopBackOffInitialSeconds",
        "First delay in seconds before a container that failed starts again.",
    ),
    (
        "nodewarden.crashLoopBackOffResetSeconds",
        "How many seconds a container must run until its next failure counts as the first.",
    ),
    ("nodewarden.devices", "Device plugins, and which devices pods may open."),
    (
        "nodewarden.devices.cutUnhealthy",
        "Whether running pods lose devices while they are unhealthy; needs enforcement: Enforce.",
    ),
    (
        "nodewarden.devices.enforcement",
        "What happens when a pod opens a device that it was not given: Off (only the runtime's rules), Audit (reported) or Enforce (refused).",
    ),
    (
        "nodewarden.devices.extra",
        "Devices of a resource that its plugin does not name: lists of paths by resource.",
    ),
    ("nodewarden.devices.graceSeconds", "How many seconds a resource outlives its plugin."),
    ("nodewarden.devices.kubeletDir", "The kubelet's --root-dir."),
    ("nodewarden.devices.pluginTimeoutSeconds", "Time limit in seconds of one call to a plugin."),
    ("nodewarden.devices.privilegedEnforcement", "As enforcement, for pods with a privileged container."),
    (
        "nodewarden.dropPrivileges",
        "Whether the agent, once it has started, gives up the capabilities that its mode does not need and has dangerous system calls refused.",
    ),
    ("nodewarden.eviction", "Eviction beyond the kubelet's keys."),
    (
        "nodewarden.eviction.backOffSeconds",
        "Seconds until an evicted pod starts again, doubled with each further eviction.",
    ),
    (
        "nodewarden.eviction.manifestPodsCritical",
        "Whether all pods of manifests are critical, so that they are never evicted.",
    ),
    ("nodewarden.eviction.maxBackOffSeconds", "Largest such time in seconds."),
    (
        "nodewarden.eviction.maxIntervalMilliseconds",
        "Longest time in milliseconds between two readings of memory and processes.",
    ),
    (
        "nodewarden.eviction.minIntervalMilliseconds",
        "Shortest time in milliseconds between two such readings; a twentieth of it, but at least 0.5, while memory or process ids are used up so fast that a threshold would be crossed sooner.",
    ),
    (
        "nodewarden.eviction.restartEvicted",
        "Whether evicted pods of manifests start again when the pressure is over.",
    ),
    ("nodewarden.exclusiveCpus", "When a pod gets an event because others ran on its exclusive CPUs."),
    (
        "nodewarden.exclusiveCpus.disturbedMillisecondsPerSecond",
        "Milliseconds of each second that others may use of such a CPU; 0 for any time.",
    ),
    (
        "nodewarden.exclusiveCpus.longestMilliseconds",
        "Milliseconds that one of them may have it at once; 0 for any time.",
    ),
    ("nodewarden.gc", "Collection of images and dead containers beyond the kubelet's keys."),
    ("nodewarden.gc.maxContainers", "Number of dead containers kept on the node; -1: no limit."),
    (
        "nodewarden.gc.maxPerPodContainer",
        "Number of dead containers kept for each container of a pod; -1: no limit.",
    ),
    (
        "nodewarden.gc.minAgeSeconds",
        "Dead containers younger than this many seconds are kept, unless their pod is gone.",
    ),
    ("nodewarden.gc.periodSeconds", "Seconds between two collections."),
    ("nodewarden.housekeepingSeconds", "As podHousekeepingPeriod, in seconds; takes precedence over it."),
    ("nodewarden.httpAddress", "Address and port of Prometheus' metrics and health."),
    ("nodewarden.httpAllowAnonymous", "Whether a remote httpAddress is plain HTTP without authentication."),
    ("nodewarden.httpAllowRemote", "Whether httpAddress may be one that other machines reach."),
    (
        "nodewarden.httpAllowedHosts",
        "DNS names under which httpAddress may be reached, besides addresses, localhost and the node's name; *. in front stands for any labels.",
    ),
    ("nodewarden.journal", "Events that are kept."),
    ("nodewarden.journal.fileBytes", "Largest size in bytes of one file."),
    ("nodewarden.journal.files", "Number of files on disk."),
    ("nodewarden.journal.memoryBytes", "Bytes of events in memory."),
    ("nodewarden.journal.memoryEvents", "Number of events in memory."),
    ("nodewarden.kubernetes", "The node in a cluster: the kubelet's flags that its file has no keys for."),
    (
        "nodewarden.kubernetes.bootstrapKubeconfig",
        "Credentials that are good for requesting the first client certificate.",
    ),
    ("nodewarden.kubernetes.certDir", "Directory of certificates that the agent has requested or made."),
    ("nodewarden.kubernetes.cloudProvider", "external: a cloud controller sets the node's addresses."),
    (
        "nodewarden.kubernetes.imageCredentialProviderBinDir",
        "Directory of the programs that know credentials for registries.",
    ),
    ("nodewarden.kubernetes.imageCredentialProviderConfig", "Their configuration."),
    (
        "nodewarden.kubernetes.inCluster",
        "Whether the credentials are those of the pod in which the agent runs.",
    ),
    ("nodewarden.kubernetes.kubeconfig", "Credentials for the API server."),
    (
        "nodewarden.kubernetes.nodeIP",
        "The node's addresses: one, or an IPv4 and an IPv6 address with a comma between them; 0.0.0.0 or :: choose the family.",
    ),
    ("nodewarden.kubernetes.nodeLabels", "Labels with which the node is registered."),
    ("nodewarden.maxCgroups", "Number of cgroups with counters of their own in each hierarchy."),
    (
        "nodewarden.mode",
        "observe: watch and report, change nothing. augment: act beside a kubelet. manage: run pods. Absent: manage with credentials for an API server.",
    ),
    ("nodewarden.nodeName", "Name of the node; absent: the host name."),
    ("nodewarden.probes", "How many probes run at a time; further ones wait."),
    ("nodewarden.probes.maxExec", "Number of exec probes at a time."),
    ("nodewarden.probes.maxGrpc", "Number of grpc probes at a time."),
    ("nodewarden.probes.maxHttpGet", "Number of httpGet probes at a time."),
    ("nodewarden.probes.maxTcpSocket", "Number of tcpSocket probes at a time."),
    (
        "nodewarden.programStats",
        "When the kernel measures the run time of the eBPF programs; Sampled is one second a minute.",
    ),
    (
        "nodewarden.reconcileSeconds",
        "Seconds between two comparisons of the limits with what they should be: of cgroups that a process wrote to, \
         and of all each fifteenth time. Before Linux 6.8, which reports writes, of all each time.",
    ),
    ("nodewarden.retentionSeconds", "Seconds for which the series of removed cgroups stay in metrics."),
    ("nodewarden.ringBytes", "Bytes of the buffer for the kernel programs' events."),
    ("nodewarden.runtimeCgroups", "Cgroup into which the container runtime is moved."),
    ("nodewarden.runtimeEndpoint", "Socket of the container runtime."),
    ("nodewarden.sampleSeconds", "Seconds between two readings of everything if no client asks."),
    ("nodewarden.socket", "Path of the gRPC socket."),
    ("nodewarden.stateDir", "Directory of what outlives the agent."),
    ("nodewarden.throttle", "Throttling of lower QoS levels before anything has to be evicted."),
    ("nodewarden.throttle.cpu", "Throttles BestEffort pods while tasks of higher levels wait for a CPU."),
    ("nodewarden.throttle.cpu.enabled", "Whether it does."),
    ("nodewarden.throttle.cpu.minMilliCPU", "Smallest quota of BestEffort in thousandths of a CPU."),
    (
        "nodewarden.throttle.cpu.waitMilliseconds",
        "How many milliseconds of each second the tasks of one pod may wait together.",
    ),
    ("nodewarden.throttle.holdSeconds", "Seconds without need after which throttling is undone."),
    (
        "nodewarden.throttle.maxHoldSeconds",
        "Largest such time in seconds; it doubles each time that was too early.",
    ),
    (
        "nodewarden.throttle.memory",
        "Sets memory.high of lower levels before the threshold of memory.available is met (cgroup v2).",
    ),
    ("nodewarden.throttle.memory.distance", "How many bytes before the threshold it begins."),
    ("nodewarden.throttle.memory.enabled", "Whether it does."),
    ("nodewarden.throttle.memory.min", "Smallest memory.high of BestEffort in bytes."),
    ("nodewarden.throttle.periodMilliseconds", "Milliseconds between two readings."),
];
