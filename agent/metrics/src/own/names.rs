//! The agent's own families, except those of cgroups, which each topic has in its file
//! (`nodewarden_model::Topic`). Those that are counted through the `metrics` facade are also here, so that a
//! name is defined once.

use crate::family::families;

const NONE: &[&str] = &[];
const BUILD: &[&str] = &["version"];
const INFO: &[&str] = &["cgroup_layout", "kernel", "mode"];
const TOPIC: &[&str] = &["state", "topic"];
const PROGRAM: &[&str] = &["hook", "program"];
const TYPE: &[&str] = &["type"];
const STATIC: &[&str] = &["static"];
const STATE: &[&str] = &["state"];
const OPERATION: &[&str] = &["operation_type"];
const CONTAINER: &[&str] = &["container", "namespace", "pod", "uid"];
const DEVICE: &[&str] = &["action", "device", "namespace", "pod", "uid"];
const CONTAINER_STATE: &[&str] = &["container_state"];
const CONTAINER_TYPE: &[&str] = &["container_type"];
const CONTAINER_TYPE_CODE: &[&str] = &["code", "container_type"];
const RESOURCE_UNIT: &[&str] = &["resource", "unit"];
const RESOURCE_NAME: &[&str] = &["resource_name"];
const PROBE: &[&str] = &["container", "namespace", "pod", "probe_type"];
const PROBE_UID: &[&str] = &["container", "namespace", "pod", "probe_type", "uid"];
const PROBE_RESULT: &[&str] = &["container", "namespace", "pod", "pod_uid", "probe_type", "result"];
const HANDLER: &[&str] = &["handler"];
const PHASE: &[&str] = &["phase"];
const REASON: &[&str] = &["reason"];
const CONDITION: &[&str] = &["condition"];
const SIGNAL: &[&str] = &["signal"];
const KIND_SIGNAL: &[&str] = &["kind", "signal"];
const EVICTION_SIGNAL: &[&str] = &["eviction_signal"];
const PREEMPTION_SIGNAL: &[&str] = &["preemption_signal"];
const WHAT: &[&str] = &["what"];
const PURPOSE: &[&str] = &["purpose"];
const PATH: &[&str] = &["path"];
const CPU_BY: &[&str] = &["by", "cpu"];
const NEIGHBOUR: &[&str] = &["container", "namespace", "neighbour", "pod", "resource"];
const CPU_OWNER: &[&str] = &["container", "cpu", "uid"];
const THROTTLE: &[&str] = &["level", "resource"];
const THROTTLE_STEP: &[&str] = &["direction", "level", "resource"];
const FEATURE: &[&str] = &["feature"];
const AUGMENT_RESULT: &[&str] = &["feature", "result"];
const PATH_CODE: &[&str] = &["code", "path"];
const RESULT: &[&str] = &["result"];

families! {
    /// The families of `/metrics`.
    pub enum Own {
        BuildInfo: Gauge "nodewarden_build_info" BUILD "Constant 1, labelled by the agent's version.";
        AgentInfo: Gauge "nodewarden_agent_info" INFO "Constant 1, labelled by how the agent runs: mode, cgroup layout and kernel version.";
        StartTime: Gauge "nodewarden_start_time_seconds" NONE "Time at which the agent started, in seconds since 1970.";
        TopicState: Gauge "nodewarden_topic_state" TOPIC "1 for the current state of a kernel topic (on, partial, off), 0 for the others. nodewarden status shows the reason.";
        ProgramRuns: Counter "nodewarden_program_runs_total" PROGRAM "Runs of an eBPF program while the kernel measured runs.";
        ProgramSeconds: Counter "nodewarden_program_run_seconds_total" PROGRAM "Run time of an eBPF program while the kernel measured runs.";
        ProgramsMeasured: Counter "nodewarden_programs_measured_seconds_total" NONE "Time during which the kernel measured the runs of eBPF programs: by default one second a minute.";
        ProgramMemory: Gauge "nodewarden_program_memory_bytes" PROGRAM "Kernel memory of an eBPF program.";
        ProgramMisses: Counter "nodewarden_program_recursion_misses_total" PROGRAM "Times that the kernel skipped an eBPF program because it was already running on that CPU: what it would have counted or reported is missing. Absent before Linux 5.12.";
        EventsSeen: Counter "nodewarden_events_seen_total" TYPE "Events taken from the kernel's ring buffer.";
        EventsLost: Counter "nodewarden_events_lost_total" TYPE "Events lost because the ring buffer was full.";
        CgroupsTracked: Gauge "nodewarden_cgroups_tracked" NONE "Number of cgroups that have kernel counters.";
        CgroupCapacity: Gauge "nodewarden_cgroup_capacity" NONE "Maximum number of cgroups with kernel counters.";
        CgroupsUntracked: Counter "nodewarden_cgroups_untracked_total" NONE "Cgroups that got no kernel counters because the maximum was reached.";
        UntrackedCounts: Counter "nodewarden_untracked_counts_total" NONE "Counts lost because their cgroup has no kernel counters.";
        MapMemory: Gauge "nodewarden_map_memory_bytes" NONE "Kernel memory of all eBPF maps.";
        JournalEvents: Gauge "nodewarden_journal_events" NONE "Number of events that the journal holds in memory.";
        JournalWriteErrors: Counter "nodewarden_journal_write_errors_total" NONE "Events that could not be written to the journal on disk.";
        AgentCpu: Counter "nodewarden_agent_cpu_seconds_total" NONE "CPU time of the agent, user and system.";
        AgentMemory: Gauge "nodewarden_agent_resident_memory_bytes" NONE "Resident memory of the agent.";
        ProcessCpu: Counter "process_cpu_seconds_total" NONE "Total user and system CPU time spent in seconds.";
        ProcessMemory: Gauge "process_resident_memory_bytes" NONE "Resident memory size in bytes.";

        PodCgroups: Gauge "nodewarden_pod_cgroups" STATE "Pod cgroups below kubepods in mode manage: ready, failed (a limit could not be set), removing, or foreign (not created by the agent).";
        LimitCorrections: Counter "nodewarden_limit_corrections_total" NONE "Limits that differed from their desired values and were corrected.";
        HierarchyProblems: Gauge "nodewarden_hierarchy_problems" NONE "Number of current problems of the cgroup hierarchy. nodewarden status lists them.";
        WithheldLimits: Gauge "nodewarden_hierarchy_withheld_limits" NONE "Number of limits of QoS levels that are not lowered now because of pods that the agent does not count: another agent's, or of a manifest that cannot be read.";
        LastReconcile: Gauge "nodewarden_hierarchy_last_reconcile_timestamp_seconds" NONE "Time of the last full comparison of all limits with their desired values, in seconds since 1970.";
        NodeCapacity: Gauge "nodewarden_node_capacity" RESOURCE_UNIT "Capacity of the node in mode manage, by resource and unit (core, byte or integer).";
        NodeAllocatable: Gauge "nodewarden_node_allocatable" RESOURCE_UNIT "What pods can have of the node in mode manage: capacity less reservations and hard eviction thresholds, by resource and unit (core, byte or integer).";
        CgroupManager: Histogram "kubelet_cgroup_manager_duration_seconds" OPERATION "Duration in seconds for cgroup manager operations: create, update or destroy.";

        Pods: Gauge "nodewarden_pods" PHASE "Managed pods by phase: Pending, Running, Succeeded or Failed.";
        PodsEnding: Gauge "nodewarden_pods_ending" NONE "Managed pods that are terminating.";
        RunningPods: Gauge "kubelet_running_pods" NONE "Number of pods that have a running pod sandbox.";
        RunningContainers: Gauge "kubelet_running_containers" CONTAINER_STATE "Number of containers of managed pods by state: created, exited, running or unknown.";
        ContainerRestarts: Counter "nodewarden_container_restarts_total" CONTAINER "Number of times a container was restarted.";
        ContainerOomKill: Gauge "nodewarden_container_oom_kill_timestamp_seconds" CONTAINER "Time at which the OOM killer last killed a process of the container, in seconds since 1970.";
        DeviceDenials: Counter "nodewarden_device_denials_total" DEVICE "Accesses of a pod to a device that was not allocated to it: denied, or audited (allowed). The device is its type, major and minor number, or other.";
        StartedPods: Counter "kubelet_started_pods_total" NONE "Cumulative number of pods started.";
        StartedPodsErrors: Counter "kubelet_started_pods_errors_total" NONE "Cumulative number of errors when starting pods.";
        RestartedPods: Counter "kubelet_restarted_pods_total" STATIC "Number of pods that were terminated and started again with the same uid.";
        StartedContainers: Counter "kubelet_started_containers_total" CONTAINER_TYPE "Cumulative number of containers started, by type: container, init_container or podsandbox.";
        StartedContainersErrors: Counter "kubelet_started_containers_errors_total" CONTAINER_TYPE_CODE "Cumulative number of errors when starting containers, by type and reason.";

        DevicePluginAllocation: Histogram "kubelet_device_plugin_alloc_duration_seconds" RESOURCE_NAME "Duration in seconds to serve a device plugin Allocation request, by resource name.";
        DeviceAllocation: Histogram "nodewarden_device_allocation_seconds" NONE "Duration of a pod's device allocation without the calls to the plugins: selection, bookkeeping and checkpoint.";
        DeviceCapacity: Gauge "nodewarden_device_capacity" RESOURCE_NAME "Devices that the plugin of a resource lists.";
        DeviceAllocatable: Gauge "nodewarden_device_allocatable" RESOURCE_NAME "Healthy devices of a resource.";
        DeviceAllocated: Gauge "nodewarden_device_allocated" RESOURCE_NAME "Devices of a resource that are allocated to containers, healthy or not.";
        DevicePluginConnected: Gauge "nodewarden_device_plugin_connected" RESOURCE_NAME "1 while the plugin of a resource is connected, 0 while it is not.";
        NeighbourWait: Counter "nodewarden_container_neighbour_wait_seconds_total" NEIGHBOUR "Time that tasks of the container waited for a neighbour, by resource: cpu (its tasks ran), memory (reclaim for its limit), disk (its requests came first). The five largest, named as namespace/pod/container or by the path of a systemd unit or cgroup; others is the sum of the rest. Times of several tasks that waited at once add up.";
        ExclusiveCpuOwner: Gauge "nodewarden_exclusive_cpu_owner" CPU_OWNER "Constant 1 for each CPU that a container has for itself, labelled by that container.";
        ExclusiveCpuSeconds: Counter "nodewarden_exclusive_cpu_seconds_total" CPU_BY "Time on an exclusive CPU since it first was exclusive under this agent, by who used it: owner, kernel_thread, other (tasks of other cgroups), idle, interrupt or softirq. Together they are the time that has passed.";
        ExclusiveCpuSwitches: Counter "nodewarden_exclusive_cpu_switches_total" CPU_BY "Switches on an exclusive CPU to tasks of the owner, of other cgroups, kernel threads and idle; for interrupt and softirq, how many ran.";
        ExclusiveCpuLongest: Gauge "nodewarden_exclusive_cpu_longest_seconds" CPU_BY "Longest time that another than the owner had an exclusive CPU at once, in the last 30 to 60 seconds: kernel_thread, other, interrupt or softirq.";
        ThrottleSteps: Counter "nodewarden_feedback_steps_total" THROTTLE_STEP "Throttling steps under pressure, by direction (squeeze or release), level and resource (cpu or memory).";
        ThrottleHeld: Gauge "nodewarden_feedback_held" THROTTLE "1 while a resource of a level is throttled, 0 after it was released. Absent if it was never throttled.";

        AugmentWrites: Counter "nodewarden_augment_writes_total" AUGMENT_RESULT "In mode augment, values by feature and what became of them: set, would_set (only audited), taken_back, left_alone (another program has written there) or failed.";
        AugmentValues: Gauge "nodewarden_augment_values" FEATURE "In mode augment, number of values that a feature has written and that stand now.";
        AugmentIncidents: Counter "nodewarden_augment_incidents_total" REASON "In mode augment, what happened to pods by the reason of its Kubernetes Event: OOMKilling, ProcessCrashed, DeviceDenied, DeviceWouldBeDenied (only audited, and no Event), DeviceLost, LimitChanged, InvalidAnnotation or AugmentLeftAlone; lost for what the journal no longer had when it was to be read.";

        AugmentDevicesLost: Gauge "nodewarden_augment_devices_lost" NONE "In mode augment, devices that running containers were given and can no longer open.";
        AugmentEvictions: Counter "nodewarden_augment_evictions_total" RESULT "In mode augment, what became of evictions at the API server: failed (killed, and the status says so), deleted (killed, and deleted, for a kubelet before 1.22), gone (killed, and no longer there), asked (the eviction subresource took it), refused (such as by a disruption budget) or away (no answer; nothing was done).";

        DevicePluginRegistrations: Counter "kubelet_device_plugin_registration_total" RESOURCE_NAME "Cumulative number of device plugin registrations by resource name.";

        ProbeTotal: Counter "prober_probe_total" PROBE_RESULT "Cumulative number of a liveness, readiness or startup probe for a container by result: successful, failed or unknown.";
        ProbeDuration: Histogram "prober_probe_duration_seconds" PROBE "Duration in seconds for a probe response.";
        ProbeState: Gauge "nodewarden_probe_result" PROBE_UID "Result of a probe after its thresholds: 1 success, 0 failure. Absent until a threshold is reached for this container.";
        ProbeStartDelay: Histogram "nodewarden_probe_start_delay_seconds" HANDLER "Time from when a probe was due until it began, by handler: exec, httpGet, tcpSocket or grpc.";
        ProbesRunning: Gauge "nodewarden_probes_running" HANDLER "Probes that are running and at most one second past their time-out, by handler.";
        ProbesWaiting: Gauge "nodewarden_probes_waiting" HANDLER "Probes that are due and wait for running probes of the same handler to end.";

        ImagesCollected: Counter "kubelet_image_garbage_collected_total" REASON "Total number of images garbage collected by the kubelet, whether through disk usage (space) or image age (age).";
        GcFreed: Counter "nodewarden_gc_freed_bytes_total" NONE "Bytes by which the free space of the images' file system grew with each removal of an image.";
        GcLastWanted: Gauge "nodewarden_gc_last_wanted_bytes" NONE "Bytes that the last image collection for space was to free.";
        GcLastFreed: Gauge "nodewarden_gc_last_freed_bytes" NONE "Bytes that the last image collection for space freed.";
        GcFailures: Counter "nodewarden_gc_failures_total" WHAT "Failed removals by kind of object: image, container, sandbox or logs; runs that ended early count as image or container, runs that did not free enough as space.";
        Images: Gauge "nodewarden_images" STATE "Images of the runtime by retention reason: container, sandbox, pinned or manifest (in use), just_used, young, not_needed (enough space is free), or removable.";
        ImageBytes: Gauge "nodewarden_image_bytes" STATE "Image sizes reported by the runtime (shared layers counted in each), by retention reason.";
        ImageFsCapacity: Gauge "nodewarden_image_filesystem_capacity_bytes" NONE "Size of the file system that images are on.";
        ImageFsAvailable: Gauge "nodewarden_image_filesystem_available_bytes" NONE "Bytes available to unprivileged users on the file system that images are on.";
        ImageFsInodes: Gauge "nodewarden_image_filesystem_inodes" NONE "Inodes of the file system that images are on.";
        ImageFsInodesFree: Gauge "nodewarden_image_filesystem_inodes_free" NONE "Free inodes of the file system that images are on.";
        GcWanted: Gauge "nodewarden_gc_wanted_bytes" NONE "Bytes to free now to reach imageGCLowThresholdPercent; 0 while usage is below imageGCHighThresholdPercent.";

        Evictions: Counter "kubelet_evictions" EVICTION_SIGNAL "Cumulative number of pod evictions by eviction signal.";
        EvictionsWould: Counter "nodewarden_would_evict_total" EVICTION_SIGNAL "Pods that would have been evicted, by eviction signal: in mode observe, and in mode augment while nodewarden.augment.eviction is not Enforce.";
        EvictionStatsAge: Histogram "kubelet_eviction_stats_age_seconds" EVICTION_SIGNAL "Time between when stats are collected, and when pod is evicted based on those stats by eviction signal.";
        Preemptions: Counter "kubelet_preemptions" PREEMPTION_SIGNAL "Cumulative number of pod preemptions by preemption resource.";
        EvictionCrossingToKill: Histogram "nodewarden_eviction_crossing_to_kill_seconds" NONE "Time from the reading that first saw a hard threshold crossed to the kill of the evicted pod.";
        EvictionCrossingToDead: Histogram "nodewarden_eviction_crossing_to_dead_seconds" NONE "Time from the reading that first saw a hard threshold crossed until no process of the evicted pod was left.";
        EvictionMemoryBack: Histogram "nodewarden_eviction_memory_back_seconds" NONE "Time from the kill of a pod until a reading was above the threshold again.";
        NodeCondition: Gauge "nodewarden_node_condition" CONDITION "1 while the node has a condition, 0 while it does not: MemoryPressure, DiskPressure or PIDPressure.";
        SignalAvailable: Gauge "nodewarden_eviction_signal_available" SIGNAL "Last reading of an eviction signal: bytes, inodes or processes still available.";
        SignalCapacity: Gauge "nodewarden_eviction_signal_capacity" SIGNAL "Capacity of the resource of an eviction signal: bytes, inodes or processes.";
        SignalThreshold: Gauge "nodewarden_eviction_signal_threshold" KIND_SIGNAL "Eviction threshold (hard or soft) of a signal: bytes, inodes or processes.";
        AdmissionWaiting: Gauge "nodewarden_admission_waiting_pods" REASON "Managed pods that wait to be admitted, by reason (OutOfcpu, NodeAffinity and so on).";

        BlockingThreads: Gauge "nodewarden_blocking_threads" PURPOSE "Threads that do blocking work now, by purpose.";
        BlockingThreadsMax: Gauge "nodewarden_blocking_threads_max" PURPOSE "Threads that may do blocking work at a time, by purpose.";
        VolumesSetAside: Gauge "nodewarden_volumes_set_aside" NONE "Directories of pods that ended and whose volumes cannot be removed: they are tried again in the background.";

        KubeStatusPatches: Counter "nodewarden_kube_status_patches_total" RESULT "Statuses of pods that were sent to the API server, by how it went: written, gone (the pod is), refused, or away (no answer); all but the first are tried again.";
        KubeEvents: Counter "nodewarden_kube_events_total" RESULT "Events for the API server, by what became of them: written, limited (too many of one object), or dropped (refused, or not written for too long).";

        HttpRequests: Counter "nodewarden_http_requests_total" PATH_CODE "HTTP requests answered, by path and status code.";
        HttpDuration: Histogram "nodewarden_http_request_duration_seconds" PATH "Time from an HTTP request until the last byte of the response was produced, including reading the node.";
        HttpBytes: Gauge "nodewarden_http_response_bytes" PATH "Size of the last response.";
        HttpRefused: Counter "nodewarden_http_connections_refused_total" NONE "HTTP connections closed at once because there were too many, of their client or in all.";
    }
}

impl Own {
    /// The families that are counted through the `metrics` facade; all others are read from the status and
    /// the snapshot at each scrape.
    pub(crate) const FACADE: &[Self] = &[
        Self::CgroupManager,
        Self::StartedPods,
        Self::StartedPodsErrors,
        Self::RestartedPods,
        Self::StartedContainers,
        Self::StartedContainersErrors,
        Self::DevicePluginAllocation,
        Self::DeviceAllocation,
        Self::DevicePluginRegistrations,
        Self::ImagesCollected,
        Self::GcFreed,
        Self::GcLastWanted,
        Self::GcLastFreed,
        Self::GcFailures,
        Self::Evictions,
        Self::EvictionsWould,
        Self::EvictionStatsAge,
        Self::Preemptions,
        Self::EvictionCrossingToKill,
        Self::EvictionCrossingToDead,
        Self::EvictionMemoryBack,
        Self::ThrottleSteps,
        Self::ThrottleHeld,
        Self::AugmentWrites,
        Self::AugmentValues,
        Self::AugmentEvictions,
        Self::AugmentIncidents,
        Self::AugmentDevicesLost,
        Self::HttpRequests,
        Self::HttpDuration,
        Self::HttpBytes,
        Self::HttpRefused,
        Self::BlockingThreads,
        Self::BlockingThreadsMax,
        Self::VolumesSetAside,
        Self::KubeStatusPatches,
        Self::KubeEvents,
    ];

    /// The family's name, for the `metrics` macros.
    pub fn name(self) -> &'static str {
        self.desc().name
    }
}
