//! Keys about running pods: from the kubelet's file and, where it has none, from the `nodewarden:` section.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::gates::FeatureGates;
use crate::fields::{Fields, shown};
use crate::pods::{LogRotation, PodSettings};
use crate::{defaults as d, duration};
use nodewarden_manifest::Quantity;

/// The newest one and at least one that was moved away.
const LOG_FILES: RangeInclusive<u64> = 2..=1000;
const LEAST_LOG_INTERVAL: Duration = Duration::from_secs(3);
/// What the kubelet takes for `crashLoopBackOff.maxContainerRestartPeriod`.
const RESTART_PERIOD: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(300);
/// With `ReduceDefaultCrashLoopBackOffDecay` (KEP-4603): first wait and longest.
const REDUCED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The kubelet's keys.
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
        // newCrashLoopBackOff: the first wait is never over the longest.
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
        parallel_image_pulls: parallel_image_pulls(top),
        seccomp_default: top.flag("seccompDefault", default.seccomp_default),
        housekeeping: default.housekeeping,
        dead_kept: default.dead_kept,
        dead_min_age: default.dead_min_age,
    }
}

/// Our own keys over it, for what the kubelet has in its source.
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
        housekeeping: section.seconds(
            "housekeepingSeconds",
            pods.housekeeping,
            &d::HOUSEKEEPING_SECONDS_RANGE,
        ),
        ..pods
    }
}

/// `containerLogMaxWorkers` says how many at a time, which is one here.
fn rotation(top: &mut Fields<'_>) -> LogRotation {
    let default = LogRotation::default();
    let size =
        top.text("containerLogMaxSize", "an amount of bytes like 10Mi, below 0 for no rotation", |text| {
            Quantity::parse(text).ok().filter(Quantity::fits_i64).map(|size| size.value())
        });
    let files = top.number("containerLogMaxFiles", default.max_files.into(), &LOG_FILES);
    let interval = top.text("containerLogMonitorInterval", "a time from 3s like 20s or 1m30s", |text| {
        duration::parse(text).filter(|time| time.is_zero() || *time >= LEAST_LOG_INTERVAL)
    });
    LogRotation {
        max_size: size.map_or(default.max_size, |bytes| u64::try_from(bytes).ok()),
        max_files: u32::try_from(files).unwrap_or(default.max_files),
        // As in the kubelet, 0 is none that was set.
        interval: interval.filter(|time| !time.is_zero()).unwrap_or(default.interval),
    }
}

/// The kubelet's checks: absolute, clean, and ASCII because it is in the names of metrics.
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
    let (key, name) = ("crashLoopBackOff", "maxContainerRestartPeriod");
    let field = format!("{key}.{name}");
    let mut period = None;
    for (given, value) in top.section(key) {
        let given = shown(&given);
        if given != name {
            top.refuse(&format!("{key}.{given}"), "unknown key", name);
            continue;
        }
        if value.is_null() {
            continue;
        }
        if !gates.crash_loop_back_off_max {
            let expected = "nothing, because the feature gate KubeletCrashLoopBackOffMax is off";
            top.refuse(&field, &shown(&value), expected);
            continue;
        }
        let read = |text| duration::parse(text).filter(|time| RESTART_PERIOD.contains(time));
        period = value.as_str().and_then(read);
        if period.is_none() {
            top.refuse(&field, &shown(&value), "a time from 1s to 300s");
        }
    }
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

/// `serializeImagePulls` is true unless `maxParallelImagePulls` is over 1; `None` for no bound.
fn parallel_image_pulls(top: &mut Fields<'_>) -> Option<u32> {
    let (serialize, most) = ("serializeImagePulls", "maxParallelImagePulls");
    let at_once = top
        .integer(most, "a whole number from 1 up", &(1..=i64::from(i32::MAX)))
        .and_then(|n| u32::try_from(n).ok());
    let one_by_one = top.optional_flag(serialize);
    if one_by_one == Some(true) && at_once.is_some_and(|n| n > 1) {
        let given = at_once.map(|n| n.to_string()).unwrap_or_default();
        top.refuse(most, &given, "1, or serializeImagePulls: false");
    }
    match one_by_one.unwrap_or(at_once.is_none_or(|n| n < 2)) {
        true => Some(1),
        false => at_once,
    }
}
