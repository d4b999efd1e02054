//! Each key of running pods: default, what is taken, and what is refused with which words.

use std::path::PathBuf;
use std::time::Duration;

use crate::node::tests::{problems, read};
use crate::{ChangeDetection, LogRotation, Overrides, PodSettings, parse};

fn pods(body: &str) -> PodSettings {
    read(body).unwrap_or_else(|e| panic!("{body}: {e}")).pods
}

#[test]
fn the_kubelets_defaults() {
    assert_eq!(pods(""), PodSettings::default());
    let none = "podLogsDir: ''\nruntimeRequestTimeout: 0s\ncrashLoopBackOff: {}\nclusterDNS: []\n\
                crashLoopBackOff: {maxContainerRestartPeriod: null}\nmaxParallelImagePulls: null";
    assert_eq!(pods(&none.replace("crashLoopBackOff: {}\n", "")), PodSettings::default());
}

#[test]
fn everything_set() {
    let config = read(
        "podLogsDir: /logs
containerLogMaxSize: 1Mi
containerLogMaxFiles: 3
containerLogMaxWorkers: 4
containerLogMonitorInterval: 3s
crashLoopBackOff: {maxContainerRestartPeriod: 1m30s}
clusterDNS: [10.96.0.10, 'fd00::a']
clusterDomain: cluster.local
resolvConf: /run/resolv.conf
runtimeRequestTimeout: 15m
serializeImagePulls: false
maxParallelImagePulls: 5
seccompDefault: true
allowedUnsafeSysctls: [kernel.msg*, net/core/somaxconn]
configMapAndSecretChangeDetectionStrategy: Cache
nodewarden: {crashLoopBackOffInitialSeconds: 2, crashLoopBackOffResetSeconds: 30, housekeepingSeconds: 1}
",
    )
    .unwrap();
    let expected = PodSettings {
        logs_dir: PathBuf::from("/logs"),
        rotation: LogRotation {
            max_size: Some(1 << 20),
            max_files: 3,
            workers: 4,
            interval: Duration::from_secs(3),
        },
        backoff_initial: Duration::from_secs(2),
        backoff_max: Duration::from_secs(90),
        backoff_reset: Duration::from_secs(30),
        cluster_dns: vec!["10.96.0.10".parse().unwrap(), "fd00::a".parse().unwrap()],
        cluster_domain: String::from("cluster.local"),
        resolv_conf: Some(PathBuf::from("/run/resolv.conf")),
        runtime_request_timeout: Duration::from_secs(900),
        parallel_image_pulls: Some(5),
        seccomp_default: true,
        housekeeping: Duration::from_secs(1),
        allowed_unsafe_sysctls: vec![String::from("kernel.msg*"), String::from("net/core/somaxconn")],
        change_detection: ChangeDetection::Cache,
        ..PodSettings::default()
    };
    assert_eq!(config.pods, expected);
    assert!(config.ignored.is_empty(), "{:?}", config.ignored);
}

#[test]
fn what_is_shown_reads_back_the_same() {
    for body in [
        "",
        "resolvConf: ''",
        "containerLogMaxSize: '-1'\ncontainerLogMaxFiles: 2",
        "containerLogMaxSize: 1k\ncontainerLogMonitorInterval: 1m",
        "serializeImagePulls: false",
        "maxParallelImagePulls: 3",
        "clusterDNS: ['::1']\nclusterDomain: a.b",
        "crashLoopBackOff: {maxContainerRestartPeriod: 3s}",
        "crashLoopBackOff: {maxContainerRestartPeriod: 1500ms}",
        "featureGates: {KubeletCrashLoopBackOffMax: false}",
        "featureGates: {KubeletCrashLoopBackOffMax: false, ReduceDefaultCrashLoopBackOffDecay: true}",
        "nodewarden: {crashLoopBackOffInitialSeconds: 300}",
        "podHousekeepingPeriod: 1m30s",
        "podHousekeepingPeriod: 1500ms",
        "nodewarden: {housekeepingSeconds: 7}",
        "nodewarden: {stateDir: /x}\npodLogsDir: /y",
    ] {
        let config = read(body).unwrap();
        let again = parse("again", &config.to_yaml(), &Overrides::default()).unwrap();
        assert_eq!(again, config, "{body}");
    }
}

/// newCrashLoopBackOff (pkg/kubelet/kubelet.go).
#[test]
fn bounds_of_the_back_off() {
    let reduced = "featureGates: {ReduceDefaultCrashLoopBackOffDecay: true}";
    let period = |text: &str| format!("crashLoopBackOff: {{maxContainerRestartPeriod: {text}}}");
    for (body, initial, max) in [
        (period("5s"), 5, 5),
        (period("1m"), 10, 60),
        (reduced.to_owned(), 1, 60),
        (format!("{reduced}\n{}", period("5s")), 1, 5),
        ("featureGates: {AllAlpha: true}".to_owned(), 1, 60),
    ] {
        let pods = pods(&body);
        assert_eq!((pods.backoff_initial.as_secs(), pods.backoff_max.as_secs()), (initial, max), "{body}");
    }
}

#[test]
fn the_kubelets_housekeeping_period_is_used_unless_ours_is_set() {
    for (body, millis) in [
        ("", 2_000),
        ("podHousekeepingPeriod: 0s", 2_000),
        ("podHousekeepingPeriod: 1m30s", 90_000),
        ("podHousekeepingPeriod: 1500ms", 1_500),
        ("nodewarden: {housekeepingSeconds: 5}", 5_000),
        ("podHousekeepingPeriod: 1m30s\nnodewarden: {housekeepingSeconds: 5}", 5_000),
        ("podHousekeepingPeriod: 1500ms\nnodewarden: {housekeepingSeconds: null}", 1_500),
    ] {
        let config = read(body).unwrap();
        assert_eq!(config.pods.housekeeping, Duration::from_millis(millis), "{body}");
        assert!(config.ignored.is_empty(), "{body}: {:?}", config.ignored);
    }
}

#[test]
fn pulls_at_once() {
    for (body, expected) in [
        ("", Some(1)),
        ("serializeImagePulls: true", Some(1)),
        ("serializeImagePulls: false", None),
        ("maxParallelImagePulls: 1", Some(1)),
        ("maxParallelImagePulls: 2", Some(2)),
        ("serializeImagePulls: true\nmaxParallelImagePulls: 1", Some(1)),
        ("serializeImagePulls: false\nmaxParallelImagePulls: 1", Some(1)),
    ] {
        assert_eq!(pods(body).parallel_image_pulls, expected, "{body}");
    }
}

#[test]
fn one_problem_each() {
    for (body, expected) in [
        ("podLogsDir: logs", "podLogsDir: logs: expected an absolute path in ASCII without //, . and .."),
        ("podLogsDir: /a//b", "podLogsDir: /a//b: expected an absolute path in ASCII without //, . and .."),
        (
            "podLogsDir: /a/../b",
            "podLogsDir: /a/../b: expected an absolute path in ASCII without //, . and ..",
        ),
        ("podLogsDir: /a/", "podLogsDir: /a/: expected an absolute path in ASCII without //, . and .."),
        ("podLogsDir: /é", "podLogsDir: /é: expected an absolute path in ASCII without //, . and .."),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 301s}",
            "crashLoopBackOff.maxContainerRestartPeriod: 301s: expected a time from 1s to 300s",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 999ms}",
            "crashLoopBackOff.maxContainerRestartPeriod: 999ms: expected a time from 1s to 300s",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 5}",
            "crashLoopBackOff.maxContainerRestartPeriod: 5: expected a time from 1s to 300s",
        ),
        (
            "crashLoopBackOff: {max: 5s}",
            "crashLoopBackOff.max: unknown key: expected maxContainerRestartPeriod",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 5s}\nfeatureGates: {KubeletCrashLoopBackOffMax: false}",
            "crashLoopBackOff.maxContainerRestartPeriod: 5s: expected nothing, because the feature gate \
             KubeletCrashLoopBackOffMax is off",
        ),
        (
            "crashLoopBackOff: {maxContainerRestartPeriod: 5s}\nnodewarden: {crashLoopBackOffInitialSeconds: 6}",
            "nodewarden.crashLoopBackOffInitialSeconds: 6: expected at most the 5 of \
             crashLoopBackOff.maxContainerRestartPeriod",
        ),
        ("clusterDNS: [10.0.0.1, dns]", "clusterDNS: dns: expected IP addresses"),
        ("clusterDNS: 10.0.0.1", "clusterDNS: 10.0.0.1: expected a list of texts"),
        ("clusterDomain: a b", "clusterDomain: a b: expected a DNS domain like cluster.local"),
        (
            "resolvConf: resolv.conf",
            "resolvConf: resolv.conf: expected an absolute path, or nothing for no file",
        ),
        ("runtimeRequestTimeout: 2", "runtimeRequestTimeout: 2: expected a time like 20s or 1m30s"),
        ("maxParallelImagePulls: 0", "maxParallelImagePulls: 0: expected a whole number from 1 up"),
        (
            "maxParallelImagePulls: 2\nserializeImagePulls: true",
            "maxParallelImagePulls: 2: expected 1, or serializeImagePulls: false",
        ),
        ("seccompDefault: RuntimeDefault", "seccompDefault: RuntimeDefault: expected true or false"),
        (
            "allowedUnsafeSysctls: [vm.swappiness]",
            "allowedUnsafeSysctls: vm.swappiness: expected sysctls below kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.* and net.*",
        ),
        (
            "configMapAndSecretChangeDetectionStrategy: Poll",
            "configMapAndSecretChangeDetectionStrategy: Poll: expected Watch, Cache or Get",
        ),
        (
            "podHousekeepingPeriod: 999ms",
            "podHousekeepingPeriod: 999ms: expected a time from 1s to 1h like 2s or 1m30s",
        ),
        (
            "podHousekeepingPeriod: 61m",
            "podHousekeepingPeriod: 61m: expected a time from 1s to 1h like 2s or 1m30s",
        ),
        (
            "nodewarden: {housekeepingSeconds: 0}",
            "nodewarden.housekeepingSeconds: 0: expected a whole number from 1 to 3600",
        ),
        (
            "nodewarden: {crashLoopBackOffResetSeconds: x}",
            "nodewarden.crashLoopBackOffResetSeconds: x: expected a whole number from 1 to 86400",
        ),
    ] {
        assert_eq!(problems(body), [expected], "{body}");
    }
}
