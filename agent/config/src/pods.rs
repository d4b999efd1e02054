//! Running pods: the kubelet's keys, and those of the section `nodewarden`.

mod pulls;
mod sysctls;
mod verification;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewarden_manifest::Quantity;

use serde_yaml_ng::{Mapping, Value};

use crate::fields::Fields;
use crate::gates::FeatureGates;
use crate::show::{Map, pair};
use crate::{defaults as d, duration};

pub use pulls::PullRate;
pub use verification::{ImageVerification, VerificationPolicy};

/// Settings of pods and containers.
#[derive(Debug, Clone, PartialEq)]
pub struct PodSettings {
    /// `podLogsDir`.
    pub logs_dir: PathBuf,
    /// `containerLogMaxSize`, `containerLogMaxFiles` and `containerLogMonitorInterval`.
    pub rotation: LogRotation,
    /// Initial CrashLoopBackOff: `nodewarden.crashLoopBackOffInitialSeconds`; by default 10 s, or 1 s with
    /// the feature gate ReduceDefaultCrashLoopBackOffDecay, and at most the maximum.
    pub backoff_initial: Duration,
    /// Maximum: `crashLoopBackOff.maxContainerRestartPeriod`; by default 5 min, or 1 min with that gate.
    pub backoff_max: Duration,
    /// The back-off of a container that ran longer is reset: `nodewarden.crashLoopBackOffResetSeconds`, the
    /// kubelet's 10 min (its `HasExpiredFunc`, whatever the longest wait is).
    pub backoff_reset: Duration,
    /// `clusterDNS`.
    pub cluster_dns: Vec<IpAddr>,
    /// `clusterDomain`; empty for none.
    pub cluster_domain: String,
    /// `resolvConf`; `None` for the empty text: pods do not get the node's resolver configuration.
    pub resolv_conf: Option<PathBuf>,
    /// `runtimeRequestTimeout`: the time limit of each call to the runtime.
    pub runtime_request_timeout: Duration,
    /// `serializeImagePulls` and `maxParallelImagePulls`: maximum number of concurrent pulls; `None` for no
    /// limit.
    pub parallel_image_pulls: Option<u32>,
    /// `registryPullQPS` and `registryBurst`: how many pulls may begin; `None` for no limit.
    pub pull_rate: Option<PullRate>,
    /// `imagePullCredentialsVerificationPolicy` and its list.
    pub image_verification: ImageVerification,
    /// `seccompDefault`: RuntimeDefault for containers without a profile.
    pub seccomp_default: bool,
    /// Time between two searches for what no pod owns: `podHousekeepingPeriod` (default 2 s), or
    /// `nodewarden.housekeepingSeconds`, which wins where both are set.
    pub housekeeping: Duration,
    /// `allowedUnsafeSysctls`: names, or beginnings of names with `*` at their end.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// `defaultPodSysctls` by name, in the form with dots: sysctls of every pod that has the namespace for
    /// itself.
    pub default_sysctls: BTreeMap<String, String>,
    /// `configMapAndSecretChangeDetectionStrategy`.
    pub change_detection: ChangeDetection,
    /// Number of dead containers of a name kept in a pod's sandbox: `nodewarden.gc.maxPerPodContainer`;
    /// `None` for all.
    pub dead_kept: Option<u32>,
    /// Dead containers younger than this are kept in any case: `nodewarden.gc.minAgeSeconds`.
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
            pull_rate: Some(PullRate::default()),
            image_verification: ImageVerification::default(),
            seccomp_default: false,
            housekeeping: Duration::from_secs(2),
            allowed_unsafe_sysctls: Vec::new(),
            default_sysctls: BTreeMap::new(),
            change_detection: ChangeDetection::Watch,
            dead_kept: Some(1),
            dead_min_age: Duration::ZERO,
        }
    }
}

/// How changes of config maps and secrets are noticed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
pub enum ChangeDetection {
    /// Each object is watched.
    #[default]
    Watch,
    /// Each object is read again once a minute.
    Cache,
    /// As `Cache`, and whenever a container or a volume needs it.
    Get,
}

/// When containers' logs are rotated, and how many files of each are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRotation {
    /// `containerLogMaxSize` in bytes; `None` for a negative value, which means never.
    pub max_size: Option<u64>,
    /// `containerLogMaxFiles`, including the current one.
    pub max_files: u32,
    /// `containerLogMaxWorkers`: how many logs are rotated at a time.
    pub workers: u32,
    /// `containerLogMonitorInterval`: time between two checks of the sizes.
    pub interval: Duration,
}

/// The kubelet's (pkg/kubelet/apis/config/v1beta1/defaults.go).
impl Default for LogRotation {
    fn default() -> Self {
        Self { max_size: Some(10 << 20), max_files: 5, workers: 1, interval: Duration::from_secs(10) }
    }
}

/// The range of `containerLogMaxFiles`: the current file and at least one rotated file.
const LOG_FILES: RangeInclusive<u64> = 2..=1000;
const LEAST_LOG_INTERVAL: Duration = Duration::from_secs(3);
/// The range of `crashLoopBackOff.maxContainerRestartPeriod` in the kubelet.
const RESTART_PERIOD: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(300);
/// Initial and maximum back-off with `ReduceDefaultCrashLoopBackOffDecay` (KEP-4603).
const REDUCED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Reads the kubelet's keys.
pub fn take(top: &mut Fields<'_>, gates: FeatureGates) -> PodSettings {
    let default = PodSettings::default();
    let (initial, max) = match gates.reduce_crash_loop_back_off {
        true => REDUCED,
        false => (default.backoff_initial, default.backoff_max),
    };
    let backoff_max = restart_period(top, gates).unwrap_or(max);
    PodSettings {
        logs_dir: logs_dir(top).unwrap_or(default.logs_dir),
        rotation: rotation(top),
        // newCrashLoopBackOff: the initial back-off is at most the maximum.
        backoff_initial: initial.min(backoff_max),
        backoff_max,
        backoff_reset: default.backoff_reset,
        cluster_dns: cluster_dns(top),
        cluster_domain: top
            .text("clusterDomain", "a DNS domain like cluster.local", |t| {
                t.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)).then(|| t.to_owned())
            })
            .unwrap_or(default.cluster_domain),
        resolv_conf: top
            .text("resolvConf", "an absolute path, or nothing for no file", |t| match t {
                "" => Some(None),
                t => (t.starts_with('/') && !t.contains('\0')).then(|| Some(PathBuf::from(t))),
            })
            .unwrap_or(default.resolv_conf),
        runtime_request_timeout: top
            .duration("runtimeRequestTimeout")
            .filter(|time| !time.is_zero())
            .unwrap_or(default.runtime_request_timeout),
        parallel_image_pulls: pulls::at_once(top),
        pull_rate: pulls::rate(top),
        image_verification: verification::take(top),
        seccomp_default: top.flag("seccompDefault", default.seccomp_default),
        housekeeping: housekeeping(top).unwrap_or(default.housekeeping),
        allowed_unsafe_sysctls: sysctls::allowed(top),
        default_sysctls: sysctls::defaults(top, gates),
        change_detection: top
            .choice("configMapAndSecretChangeDetectionStrategy", &["Watch", "Cache", "Get"], true)
            .unwrap_or(default.change_detection),
        dead_kept: default.dead_kept,
        dead_min_age: default.dead_min_age,
    }
}

/// Reads our own keys, for values that are constants in the kubelet.
pub fn take_own(section: &mut Fields<'_>, pods: PodSettings) -> PodSettings {
    let initial = "crashLoopBackOffInitialSeconds";
    let backoff_initial = section.seconds(initial, pods.backoff_initial, &d::BACKOFF_SECONDS_RANGE);
    if backoff_initial > pods.backoff_max {
        let most = pods.backoff_max.as_secs();
        let expected = format!("at most the {most} of crashLoopBackOff.maxContainerRestartPeriod");
        section.refuse(initial, &backoff_initial.as_secs().to_string(), &expected);
    }
    PodSettings {
        backoff_initial,
        backoff_reset: section.seconds(
            "crashLoopBackOffResetSeconds",
            pods.backoff_reset,
            &d::BACKOFF_RESET_SECONDS_RANGE,
        ),
        housekeeping: section
            .optional_seconds("housekeepingSeconds", &d::HOUSEKEEPING_SECONDS_RANGE)
            .unwrap_or(pods.housekeeping),
        ..pods
    }
}

/// Reads `podHousekeepingPeriod`. As in the kubelet, 0 means not set (SetDefaults_KubeletConfiguration).
fn housekeeping(top: &mut Fields<'_>) -> Option<Duration> {
    let seconds = &d::HOUSEKEEPING_SECONDS_RANGE;
    let range = Duration::from_secs(*seconds.start())..=Duration::from_secs(*seconds.end());
    let fits = |time: &Duration| time.is_zero() || range.contains(time);
    let read = top.duration_if("podHousekeepingPeriod", "a time from 1s to 1h like 2s or 1m30s", fits);
    read.filter(|time| !time.is_zero())
}

/// Reads the log rotation.
fn rotation(top: &mut Fields<'_>) -> LogRotation {
    let default = LogRotation::default();
    let size =
        top.text("containerLogMaxSize", "an amount of bytes like 10Mi, below 0 for no rotation", |text| {
            Quantity::parse(text).ok().filter(Quantity::fits_i64).map(|size| size.value())
        });
    let files = top.number("containerLogMaxFiles", default.max_files.into(), &LOG_FILES);
    let workers = top.number("containerLogMaxWorkers", default.workers.into(), &(1..=i32::MAX as u64));
    let fits = |time: &Duration| time.is_zero() || *time >= LEAST_LOG_INTERVAL;
    let interval = top.duration_if("containerLogMonitorInterval", "a time from 3s like 20s or 1m30s", fits);
    LogRotation {
        max_size: size.map_or(default.max_size, |bytes| u64::try_from(bytes).ok()),
        max_files: u32::try_from(files).unwrap_or(default.max_files),
        workers: u32::try_from(workers).unwrap_or(default.workers),
        // As in the kubelet, 0 means not set.
        interval: interval.filter(|time| !time.is_zero()).unwrap_or(default.interval),
    }
}

/// Reads `podLogsDir` with the kubelet's checks: absolute, normalized, and ASCII because metrics contain it.
fn logs_dir(top: &mut Fields<'_>) -> Option<PathBuf> {
    top.text("podLogsDir", "an absolute path in ASCII without //, . and ..", |t| match t {
        "" => Some(None),
        t => {
            let clean: PathBuf = Path::new(t).components().collect();
            let clean = clean.as_os_str() == t && !t.split('/').any(|part| part == "..");
            (t.starts_with('/') && clean && t.is_ascii() && !t.contains('\0')).then(|| Some(PathBuf::from(t)))
        }
    })
    .flatten()
}

/// `crashLoopBackOff.maxContainerRestartPeriod` (KEP-4603).
fn restart_period(top: &mut Fields<'_>, gates: FeatureGates) -> Option<Duration> {
    let key = "maxContainerRestartPeriod";
    let mut f = top.inside("crashLoopBackOff");
    let period = f.duration_if(key, "a time from 1s to 300s", |time| RESTART_PERIOD.contains(time));
    if let Some(period) = period.filter(|_| !gates.crash_loop_back_off_max) {
        let expected = "nothing, because the feature gate KubeletCrashLoopBackOffMax is off";
        f.refuse(key, &duration::show(period), expected);
    }
    f.finish();
    period
}

fn cluster_dns(top: &mut Fields<'_>) -> Vec<IpAddr> {
    let key = "clusterDNS";
    let mut addresses = Vec::new();
    for text in top.texts(key).unwrap_or_default() {
        match text.parse() {
            Ok(address) => addresses.push(address),
            Err(_) => top.refuse(key, &text, "IP addresses"),
        }
    }
    addresses
}

/// Writes the kubelet's keys about running pods.
pub(crate) fn show(top: &mut Map, pods: &PodSettings, gates: FeatureGates) {
    top.put("podLogsDir", &*pods.logs_dir.to_string_lossy());
    let LogRotation { max_size, max_files, workers, interval } = pods.rotation;
    let size = max_size.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1);
    top.put("containerLogMaxSize", Quantity::from_bytes(size).to_string());
    top.put("containerLogMaxFiles", max_files);
    top.put("containerLogMaxWorkers", workers);
    top.put("containerLogMonitorInterval", duration::show(interval));
    // Without the gate the key is not allowed.
    let back_off = Mapping::from_iter([pair("maxContainerRestartPeriod", duration::show(pods.backoff_max))]);
    top.put_some("crashLoopBackOff", gates.crash_loop_back_off_max.then_some(back_off));
    let dns: Vec<Value> = pods.cluster_dns.iter().map(|ip| ip.to_string().into()).collect();
    top.put("clusterDNS", dns);
    top.put("clusterDomain", &*pods.cluster_domain);
    let resolv = pods.resolv_conf.as_ref().map(|p| p.to_string_lossy().into_owned());
    top.put("resolvConf", resolv.unwrap_or_default());
    top.put("runtimeRequestTimeout", duration::show(pods.runtime_request_timeout));
    pulls::show(top, pods.parallel_image_pulls, pods.pull_rate);
    verification::show(top, &pods.image_verification);
    top.put("seccompDefault", pods.seccomp_default);
    let sysctls: Vec<Value> = pods.allowed_unsafe_sysctls.iter().map(|name| name.as_str().into()).collect();
    top.put("allowedUnsafeSysctls", sysctls);
    let sysctls: Mapping =
        pods.default_sysctls.iter().map(|(name, value)| pair(name, value.as_str())).collect();
    top.put_some("defaultPodSysctls", (!sysctls.is_empty()).then_some(sysctls));
    let detection: &str = pods.change_detection.into();
    top.put("configMapAndSecretChangeDetectionStrategy", detection);
    // Not nodewarden.housekeepingSeconds, which has no fractions of a second.
    top.put("podHousekeepingPeriod", duration::show(pods.housekeeping));
}

#[cfg(test)]
mod tests;
