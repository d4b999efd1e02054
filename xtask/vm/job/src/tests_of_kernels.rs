//! Which end-to-end tests `cargo xtask test` runs in guests, by parts of their names. The others run on the
//! host there, and everywhere with `cargo xtask vm test`.

/// Those whose outcome the code of a kernel can change: for every guest with cgroup v2 but those with
/// systemd.
pub const KERNEL_TESTS: &[&str] = &[
    "topics_are_on",
    "programs_",
    "oom_single",
    "oom_limit_of_ancestor",
    "oom_in_old_and_new_cgroups",
    "oom_fields",
    "oom_storm",
    "exit_fields_",
    "memory_max_kills",
    "memory_oom_group",
    "memory_high_throttles",
    "cpu_",
    "exclusive_cpus_",
    "neighbours_",
    "pids_",
    "cgroup_lifecycle",
    "process_",
    "network_",
    "block_requests",
    "reclaim_stalls",
    "oom_score_adj",
    "cgroups_beyond_capacity",
    "late_packets",
    "late_writes",
];

/// Those whose outcome the presence of a file or of a system call can change: for the guests with cgroup v2
/// that have the oldest and the newest kernel. What the oldest has, those between them have too.
pub const FILE_TESTS: &[&str] = &[
    "workload_",
    "endpoints_answer",
    "answers_while_cgroups_come_and_go",
    "eviction_observed",
    "throttle_memory",
    "system_cgroups_",
    "interrupt_ends_cleanly",
    "hierarchy_matches_kubelet",
    "drift_is_corrected",
    "memory_limit_below_usage_is_deferred",
    "augment_event_of_a_changed_limit",
];

/// Those whose outcome the files and hierarchies of cgroup v1 can change: for guests with it, whose kernel
/// the matrix also has with cgroup v2.
pub const V1_TESTS: &[&str] = &[
    "workload_oom",
    "topics_are_on",
    "programs_are_attached",
    "oom_single",
    "oom_limit_of_ancestor",
    "memory_max_kills",
    "cpu_quota_throttles",
    "cpu_matches_files",
    "oom_storm",
    "pids_",
    "cgroup_lifecycle",
    "process_counters",
    "reclaim_stalls",
    "cgroups_beyond_capacity",
    "eviction_observed",
    "throttle_memory",
    "system_cgroups_",
    "interrupt_ends_cleanly",
    "hierarchy_matches_kubelet",
    "drift_is_corrected",
    "memory_limit_below_usage_is_deferred",
    "augment_event_of_a_changed_limit",
];

/// Those whose outcome systemd of its guest can change, and a few that show that the kernel programs work
/// there: for guests with systemd, whose kernel the matrix also has without.
pub const SYSTEMD_TESTS: &[&str] = &[
    "topics_are_on",
    "programs_are_attached",
    "oom_single",
    "memory_max_kills",
    "cpu_matches_files",
    "cgroup_lifecycle",
    "systemd_",
    "shipped_unit_",
    "node_shutdown_",
    "eviction_observed",
    "system_cgroups_",
    "runtime_cgroups_",
    "interrupt_ends_cleanly",
    "hierarchy_matches_kubelet",
    "drift_is_corrected",
    "memory_limit_below_usage_is_deferred",
    // In a guest of its own, with two NUMA nodes.
    "numa_",
];

/// Those whose outcome the container runtime of a guest with systemd can change: for a second one, since they
/// take as long as all others.
pub const RUNTIME_TESTS: &[&str] = &[
    "cri_pod_is_shown_with_its_names",
    "pod_resize_and_replace",
    "pod_oom_kill_is_shown_at_once",
    "augment_event_of_an_oom_kill",
    "pods_end_with_grace_when_cgroup_driver_changes",
    "devices_enforced",
    "resource_managers_exclusive_cpus",
];
