//! The families of `/metrics/cadvisor`: names, types, help texts and label keys as cAdvisor has them
//! (`metrics/prometheus.go`, `metrics/prometheus_machine.go`).

use crate::family::families;

const GROUP: &[&str] = &["container", "id", "image", "name", "namespace", "pod"];
const CPU: &[&str] = &["container", "cpu", "id", "image", "name", "namespace", "pod"];
const DEVICE: &[&str] = &["container", "device", "id", "image", "name", "namespace", "pod"];
const FAILURE: &[&str] = &["container", "failure_type", "id", "image", "name", "namespace", "pod", "scope"];
const BLKIO: &[&str] =
    &["container", "device", "id", "image", "major", "minor", "name", "namespace", "operation", "pod"];
const MACHINE: &[&str] = &["boot_id", "machine_id", "system_uuid"];
const VERSION: &[&str] =
    &["cadvisorRevision", "cadvisorVersion", "dockerVersion", "kernelVersion", "osVersion"];
const NONE: &[&str] = &[];

families! {
    /// The families of `/metrics/cadvisor`.
    pub enum Cadvisor {
        VersionInfo: Gauge "cadvisor_version_info" VERSION "A metric with a constant '1' value labeled by kernel version, OS version, docker version, cadvisor version & cadvisor revision.";
        CpuUser: Counter "container_cpu_user_seconds_total" GROUP "Cumulative user cpu time consumed in seconds.";
        CpuSystem: Counter "container_cpu_system_seconds_total" GROUP "Cumulative system cpu time consumed in seconds.";
        CpuUsage: Counter "container_cpu_usage_seconds_total" CPU "Cumulative cpu time consumed in seconds.";
        CfsPeriods: Counter "container_cpu_cfs_periods_total" GROUP "Number of elapsed enforcement period intervals.";
        CfsThrottledPeriods: Counter "container_cpu_cfs_throttled_periods_total" GROUP "Number of throttled period intervals.";
        CfsThrottledSeconds: Counter "container_cpu_cfs_throttled_seconds_total" GROUP "Total time duration the container has been throttled.";
        MemoryCache: Gauge "container_memory_cache" GROUP "Number of bytes of page cache memory.";
        MemoryRss: Gauge "container_memory_rss" GROUP "Size of RSS in bytes.";
        MemoryKernelUsage: Gauge "container_memory_kernel_usage" GROUP "Size of kernel memory allocated in bytes.";
        MemoryMappedFile: Gauge "container_memory_mapped_file" GROUP "Size of memory mapped files in bytes.";
        MemorySwap: Gauge "container_memory_swap" GROUP "Container swap usage in bytes.";
        MemoryFailcnt: Counter "container_memory_failcnt" GROUP "Number of memory usage hits limits";
        MemoryUsage: Gauge "container_memory_usage_bytes" GROUP "Current memory usage in bytes, including all memory regardless of when it was accessed";
        MemoryMaxUsage: Gauge "container_memory_max_usage_bytes" GROUP "Maximum memory usage recorded in bytes";
        MemoryWorkingSet: Gauge "container_memory_working_set_bytes" GROUP "Current working set in bytes.";
        MemoryActiveFile: Gauge "container_memory_total_active_file_bytes" GROUP "Current total active file in bytes.";
        MemoryInactiveFile: Gauge "container_memory_total_inactive_file_bytes" GROUP "Current total inactive file in bytes.";
        MemoryFailures: Counter "container_memory_failures_total" FAILURE "Cumulative count of memory allocation failures.";
        FsReadsBytes: Counter "container_fs_reads_bytes_total" DEVICE "Cumulative count of bytes read";
        FsReads: Counter "container_fs_reads_total" DEVICE "Cumulative count of reads completed";
        FsWritesBytes: Counter "container_fs_writes_bytes_total" DEVICE "Cumulative count of bytes written";
        FsWrites: Counter "container_fs_writes_total" DEVICE "Cumulative count of writes completed";
        BlkioUsage: Counter "container_blkio_device_usage_total" BLKIO "Blkio Device bytes usage";
        Threads: Gauge "container_threads" GROUP "Number of threads running inside the container";
        ThreadsMax: Gauge "container_threads_max" GROUP "Maximum number of threads allowed inside the container, infinity if value is zero";
        OomEvents: Counter "container_oom_events_total" GROUP "Count of out of memory events observed for the container";
        PressureCpuStalled: Counter "container_pressure_cpu_stalled_seconds_total" GROUP "Total time duration no tasks in the container could make progress due to CPU congestion.";
        PressureCpuWaiting: Counter "container_pressure_cpu_waiting_seconds_total" GROUP "Total time duration tasks in the container have waited due to CPU congestion.";
        PressureMemoryStalled: Counter "container_pressure_memory_stalled_seconds_total" GROUP "Total time duration no tasks in the container could make progress due to memory congestion.";
        PressureMemoryWaiting: Counter "container_pressure_memory_waiting_seconds_total" GROUP "Total time duration tasks in the container have waited due to memory congestion.";
        PressureIoStalled: Counter "container_pressure_io_stalled_seconds_total" GROUP "Total time duration no tasks in the container could make progress due to IO congestion.";
        PressureIoWaiting: Counter "container_pressure_io_waiting_seconds_total" GROUP "Total time duration tasks in the container have waited due to IO congestion.";
        SpecCpuPeriod: Gauge "container_spec_cpu_period" GROUP "CPU period of the container.";
        SpecCpuQuota: Gauge "container_spec_cpu_quota" GROUP "CPU quota of the container.";
        SpecCpuShares: Gauge "container_spec_cpu_shares" GROUP "CPU share of the container.";
        SpecMemoryLimit: Gauge "container_spec_memory_limit_bytes" GROUP "Memory limit for the container.";
        SpecMemorySwapLimit: Gauge "container_spec_memory_swap_limit_bytes" GROUP "Memory swap limit for the container.";
        SpecMemoryReservation: Gauge "container_spec_memory_reservation_limit_bytes" GROUP "Memory reservation limit for the container.";
        StartTime: Gauge "container_start_time_seconds" GROUP "Start time of the container since unix epoch in seconds.";
        LastSeen: Gauge "container_last_seen" GROUP "Last time a container was seen by the exporter";
        ScrapeError: Gauge "container_scrape_error" NONE "1 if there was an error while getting container metrics, 0 otherwise";
        MachineCpuCores: Gauge "machine_cpu_cores" MACHINE "Number of logical CPU cores.";
        MachineMemory: Gauge "machine_memory_bytes" MACHINE "Amount of memory installed on the machine.";
        MachineSwap: Gauge "machine_swap_bytes" MACHINE "Amount of swap memory available on the machine.";
        MachineScrapeError: Gauge "machine_scrape_error" NONE "1 if there was an error while getting machine metrics, 0 otherwise.";
    }
}

/// Families that a kubelet shows here and this agent leaves out, each with the reason; the golden test checks
/// that the list is complete. Families that the kubelet fills with zeros because it does not know the values
/// are among them.
#[cfg(test)]
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("container_cpu_load_average_10s", "always 0 in a kubelet: its load reader is off"),
    ("container_cpu_load_d_average_10s", "always 0 in a kubelet: its load reader is off"),
    ("container_tasks_state", "always 0 in a kubelet: its load reader is off"),
    ("container_file_descriptors", "would take a walk over /proc/PID/fd of every process at each scrape"),
    ("container_sockets", "would take a walk over /proc/PID/fd of every process at each scrape"),
    ("container_processes", "the pids controller counts threads; see container_threads"),
    ("container_ulimits_soft", "a limit of one process, not of the cgroup"),
    ("container_fs_inodes_free", "only the runtime knows the file system use of each container"),
    ("container_fs_inodes_total", "only the runtime knows the file system use of each container"),
    ("container_fs_limit_bytes", "only the runtime knows the file system use of each container"),
    ("container_fs_usage_bytes", "only the runtime knows the file system use of each container"),
    ("container_fs_io_current", "not in any cgroup file; the kubelet shows the node's disk at the root"),
    (
        "container_fs_io_time_seconds_total",
        "not in any cgroup file; the kubelet shows the node's disk at the root",
    ),
    (
        "container_fs_io_time_weighted_seconds_total",
        "not in any cgroup file; the kubelet shows the node's disk at the root",
    ),
    (
        "container_fs_read_seconds_total",
        "not in any cgroup file; see nodewarden_cgroup_block_latency_seconds",
    ),
    (
        "container_fs_write_seconds_total",
        "not in any cgroup file; see nodewarden_cgroup_block_latency_seconds",
    ),
    (
        "container_fs_reads_merged_total",
        "not in any cgroup file; the kubelet shows the node's disk at the root",
    ),
    (
        "container_fs_writes_merged_total",
        "not in any cgroup file; the kubelet shows the node's disk at the root",
    ),
    ("container_fs_sector_reads_total", "not in any cgroup file; see container_fs_reads_bytes_total"),
    ("container_fs_sector_writes_total", "not in any cgroup file; see container_fs_writes_bytes_total"),
    ("container_network_receive_bytes_total", NETWORK),
    ("container_network_receive_errors_total", NETWORK),
    ("container_network_receive_packets_dropped_total", NETWORK),
    ("container_network_receive_packets_total", NETWORK),
    ("container_network_transmit_bytes_total", NETWORK),
    ("container_network_transmit_errors_total", NETWORK),
    ("container_network_transmit_packets_dropped_total", NETWORK),
    ("container_network_transmit_packets_total", NETWORK),
    ("machine_cpu_physical_cores", "the processor's topology is not read"),
    ("machine_cpu_sockets", "the processor's topology is not read"),
    ("machine_nvm_avg_power_budget_watts", "always 0 in a kubelet: built without libipmctl"),
    ("machine_nvm_capacity", "always 0 in a kubelet: built without libipmctl"),
];

#[cfg(test)]
const NETWORK: &str = "counted here by cgroup, not by interface: see nodewarden_cgroup_network_bytes_total";

/// Families of cAdvisor that the recorded kubelet does not contain, because none of its containers had done
/// block I/O.
#[cfg(test)]
pub(crate) const ONLY_WITH_BLOCK_IO: &[Cadvisor] =
    &[Cadvisor::FsReadsBytes, Cadvisor::FsWritesBytes, Cadvisor::BlkioUsage];
