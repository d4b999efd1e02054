//! Each key of eviction: default, what is taken, what is shown, and what is refused with which words.

use super::*;
use crate::node::tests::{problems, read};
use crate::{Config, Overrides, parse};

fn config(body: &str) -> Config {
    let config = read(body).unwrap_or_else(|e| panic!("{body}: {e}"));
    assert!(config.ignored.is_empty(), "{:?}", config.ignored);
    config
}

/// Signal, value, grace in seconds and minimum reclaim of each threshold.
fn thresholds(config: &Config) -> Vec<String> {
    let shown = config.eviction.thresholds.iter().map(|t| {
        let reclaim = t.min_reclaim.as_ref().map(|r| format!(" +{r}")).unwrap_or_default();
        format!("{} {} {}{reclaim}", t.signal.name(), t.value, t.grace.as_secs())
    });
    shown.collect()
}

fn hard(config: &Config) -> Vec<String> {
    config.node.eviction_hard.iter().map(|(s, v)| format!("{s} {v}")).collect()
}

/// SetDefaults_KubeletConfiguration: a period of 0 is the default one.
#[test]
fn the_kubelets_defaults() {
    let none = "evictionHard: null\nevictionSoft: {}\nevictionSoftGracePeriod: {}\nevictionMinimumReclaim: {}\n\
                evictionPressureTransitionPeriod: 0s\nnodewarden: {eviction: {}}";
    for body in ["", none] {
        let config = config(body);
        assert_eq!(
            thresholds(&config),
            [
                "memory.available 100Mi 0",
                "nodefs.available 10% 0",
                "nodefs.inodesFree 5% 0",
                "imagefs.available 15% 0",
                "allocatableMemory.available 100Mi 0"
            ]
        );
        let expected = EvictionSettings {
            thresholds: config.eviction.thresholds.clone(),
            ..EvictionSettings::default()
        };
        assert_eq!(config.eviction, expected, "{body}");
    }
}

#[test]
fn everything_set() {
    let config = config(
        "evictionHard: {memory.available: 1Gi, imagefs.available: 0%, nodefs.inodesFree: 100%}
evictionSoft: {memory.available: 2Gi, pid.available: 10%}
evictionSoftGracePeriod: {memory.available: 1m30s, pid.available: 10s, nodefs.available: 5s}
evictionMinimumReclaim: {memory.available: 500Mi, imagefs.available: 2Gi}
evictionPressureTransitionPeriod: 30s
evictionMaxPodGracePeriod: 45
localStorageCapacityIsolation: false
nodewarden: {eviction: {restartEvicted: false, backOffSeconds: 1, maxBackOffSeconds: 2, manifestPodsCritical: true,
  maxIntervalMilliseconds: 5000, minIntervalMilliseconds: 5}}
",
    );
    assert_eq!(
        thresholds(&config),
        [
            "memory.available 1Gi 0 +500Mi",
            "nodefs.available 10% 0",
            "memory.available 2Gi 90 +500Mi",
            "pid.available 10% 10",
            "allocatableMemory.available 1Gi 0 +500Mi"
        ]
    );
    assert_eq!(hard(&config), ["memory.available 1Gi", "nodefs.available 10%"]);
    let seconds = Duration::from_secs;
    let expected = EvictionSettings {
        thresholds: config.eviction.thresholds.clone(),
        own_thresholds: true,
        transition: seconds(30),
        max_pod_grace: seconds(45),
        restart_evicted: false,
        back_off: seconds(1),
        max_back_off: seconds(2),
        manifests_critical: true,
        own_limits: false,
        max_interval: seconds(5),
        min_interval: Duration::from_millis(5),
    };
    assert_eq!(config.eviction, expected);
}

/// Setting one signal does not drop the defaults of the others, unless the configuration demands it.
#[test]
fn default_thresholds_are_merged() {
    let named = "evictionHard: {memory.available: 1Gi, pid.available: 10%}\n";
    let merged = [
        "imagefs.available 15%",
        "memory.available 1Gi",
        "nodefs.available 10%",
        "nodefs.inodesFree 5%",
        "pid.available 10%",
    ];
    for merge in ["", "mergeDefaultEvictionSettings: true", "mergeDefaultEvictionSettings: null"] {
        assert_eq!(hard(&config(&format!("{named}{merge}"))), merged, "{merge}");
    }
    let alone = config(&format!("{named}mergeDefaultEvictionSettings: false"));
    assert_eq!(hard(&alone), ["memory.available 1Gi", "pid.available 10%"]);
    assert_eq!(alone.eviction.thresholds.len(), 3);
    assert_eq!(hard(&config("evictionHard: {}")), hard(&config("")));
    assert_eq!(hard(&config("evictionHard: {nodefs.available: 0%}")).len(), 3);
    // Without evictionHard there is nothing to replace the defaults.
    assert_eq!(hard(&config("mergeDefaultEvictionSettings: false")), hard(&config("")));
}

#[test]
fn allocatable_memory_only_where_pods_are_enforced() {
    let config = config("enforceNodeAllocatable: [none]");
    assert!(thresholds(&config).iter().all(|t| !t.starts_with("allocatable")));
}

/// A soft eviction leaves a pod its own time up to the bound.
#[test]
fn grace_of_a_soft_eviction() {
    let seconds = Duration::from_secs;
    for (body, own, expected) in [
        ("", 30, seconds(0)),
        ("evictionMaxPodGracePeriod: 20", 30, seconds(20)),
        ("evictionMaxPodGracePeriod: 40", 30, seconds(30)),
        ("evictionMaxPodGracePeriod: -1", 30, seconds(30)),
    ] {
        assert_eq!(config(body).eviction.soft_grace(seconds(own)), expected, "{body}");
    }
}

#[test]
fn what_is_shown_reads_back_the_same() {
    for body in [
        "",
        "evictionHard: {memory.available: 0%}",
        "evictionHard: {memory.available: 1.5%}\nmergeDefaultEvictionSettings: false",
        "enforceNodeAllocatable: [none]\nevictionSoft: {memory.available: 3%}\n\
         evictionSoftGracePeriod: {memory.available: 1500ms}",
        "evictionSoft: {memory.available: 1Gi, nodefs.inodesFree: 20%}\n\
         evictionSoftGracePeriod: {memory.available: 0s, nodefs.inodesFree: 1h}",
        "evictionHard: {allocatableMemory.available: 5%}\nevictionMinimumReclaim: {memory.available: 150%, \
         allocatableMemory.available: '0'}",
        "evictionPressureTransitionPeriod: 1ms\nevictionMaxPodGracePeriod: -7",
        "evictionMaxPodGracePeriod: 2147483647\nnodewarden: {eviction: {restartEvicted: false, backOffSeconds: 300}}",
        "nodewarden: {eviction: {manifestPodsCritical: true, minIntervalMilliseconds: 1, maxIntervalMilliseconds: 1}}",
    ] {
        let config = config(body);
        let again = parse("again", &config.to_yaml(), &Overrides::default()).unwrap();
        assert_eq!(again, config, "{body}");
    }
}

#[test]
fn one_problem_each() {
    for (body, expected) in [
        (
            "evictionSoft: {memory.available: 1Gi}",
            "evictionSoftGracePeriod.memory.available: missing: expected how long the soft threshold may be passed, like 30s",
        ),
        (
            "evictionSoft: {memory.available: 0}",
            "evictionSoft.memory.available: 0: expected a text in quotation marks",
        ),
        (
            "evictionSoftGracePeriod: {memory.available: -1s}",
            "evictionSoftGracePeriod.memory.available: -1s: expected a time like 1m30s",
        ),
        (
            "evictionMinimumReclaim: {memory.available: 0%}",
            "evictionMinimumReclaim.memory.available: 0%: expected an amount from 0 like 500Mi, or over 0%",
        ),
        (
            "evictionPressureTransitionPeriod: -5m",
            "evictionPressureTransitionPeriod: -5m: expected a time like 20s or 1m30s",
        ),
        (
            "evictionMaxPodGracePeriod: 1m",
            "evictionMaxPodGracePeriod: 1m: expected a whole number of seconds, -1 for no bound",
        ),
        ("localStorageCapacityIsolation: 0", "localStorageCapacityIsolation: 0: expected true or false"),
        ("mergeDefaultEvictionSettings: 1", "mergeDefaultEvictionSettings: 1: expected true or false"),
        (
            "nodewarden: {eviction: {restartEvicted: maybe}}",
            "nodewarden.eviction.restartEvicted: maybe: expected true or false",
        ),
        (
            "nodewarden: {eviction: {backOffSeconds: 0}}",
            "nodewarden.eviction.backOffSeconds: 0: expected a whole number from 1 to 86400",
        ),
        (
            "nodewarden: {eviction: {backOffSeconds: 301}}",
            "nodewarden.eviction.maxBackOffSeconds: 300s: expected at least the 301s of backOffSeconds",
        ),
        (
            "nodewarden: {eviction: {maxIntervalMilliseconds: 9}}",
            "nodewarden.eviction.maxIntervalMilliseconds: 9ms: expected at least the 10ms of minIntervalMilliseconds",
        ),
        (
            "nodewarden: {eviction: {minIntervalMilliseconds: 0}}",
            "nodewarden.eviction.minIntervalMilliseconds: 0: expected a whole number from 1 to 60000",
        ),
        (
            "nodewarden: {eviction: {restartevicted: true}}",
            "nodewarden.eviction.restartevicted: unknown key: expected a known key (did you mean restartEvicted?)",
        ),
    ] {
        assert_eq!(problems(body), [expected], "{body}");
    }
}
