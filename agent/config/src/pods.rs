//! What an operator sets of running pods: the kubelet's keys with the kubelet's defaults.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of pods and containers.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSettings {
    /// `podLogsDir`.
    pub logs_dir: PathBuf,
    pub rotation: LogRotation,
    /// First wait of CrashLoopBackOff: `nodewarden.crashLoopBackOffInitialSeconds`; without it 10 s, or 1 s with the
    /// feature gate ReduceDefaultCrashLoopBackOffDecay, and never over the longest.
    pub backoff_initial: Duration,
    /// Longest: `crashLoopBackOff.maxContainerRestartPeriod`; without it 5 min, or 1 min with that gate.
    pub backoff_max: Duration,
    /// A container that ran longer than this begins anew: `nodewarden.crashLoopBackOffResetSeconds`, the kubelet's 10
    /// min (its `HasExpiredFunc`, whatever the longest wait is).
    pub backoff_reset: Duration,
    /// `clusterDNS`.
    pub cluster_dns: Vec<IpAddr>,
    /// `clusterDomain`; empty for none.
    pub cluster_domain: String,
    /// `resolvConf`; `None` for the empty text: pods get none of the node's.
    pub resolv_conf: Option<PathBuf>,
    /// `runtimeRequestTimeout`.
    pub runtime_request_timeout: Duration,
    /// `serializeImagePulls` and `maxParallelImagePulls`: how many at a time; `None` for no bound.
    pub parallel_image_pulls: Option<u32>,
    /// `seccompDefault`: RuntimeDefault for those that say nothing.
    pub seccomp_default: bool,
    /// Time between two looks for what no pod owns: `nodewarden.housekeepingSeconds`, the kubelet's 2 s.
    pub housekeeping: Duration,
    /// Ended containers of a name that stay in a pod's sandbox: `nodewarden.gc.maxPerPodContainer`; `None` for all.
    pub dead_kept: Option<u32>,
    /// Younger ones stay beyond that: `nodewarden.gc.minAgeSeconds`.
    pub dead_min_age: Duration,
}

impl Default for PodSettings {
    fn default() -> Self {
        Self {
            logs_dir: PathBuf::from("/var/log/pods"),
            rotation: LogRotation::default(),
            backoff_initial: Duration::from_secs(10),
            backoff_max: Duration::from_secs(300),
            backoff_reset: Duration::from_secs(600),
            cluster_dns: Vec::new(),
            cluster_domain: String::new(),
            resolv_conf: Some(PathBuf::from("/etc/resolv.conf")),
            runtime_request_timeout: Duration::from_secs(120),
            parallel_image_pulls: Some(1),
            seccomp_default: false,
            housekeeping: Duration::from_secs(2),
            dead_kept: Some(1),
            dead_min_age: Duration::ZERO,
        }
    }
}

/// When containers' logs are moved away, and how many files are kept of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRotation {
    /// `containerLogMaxSize`, in bytes; `None` for a negative one: never.
    pub max_size: Option<u64>,
    /// `containerLogMaxFiles`: the one that is written to among them.
    pub max_files: u32,
    /// `containerLogMonitorInterval`: time between two looks at the sizes.
    pub interval: Duration,
}

/// The kubelet's (pkg/kubelet/apis/config/v1beta1/defaults.go).
impl Default for LogRotation {
    fn default() -> Self {
        Self { max_size: Some(10 << 20), max_files: 5, interval: Duration::from_secs(10) }
    }
}
