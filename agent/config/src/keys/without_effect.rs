//! The kubelet's keys that have no effect here, each with its type and the reason.

use serde_yaml_ng::Value;

use super::{Key, Meaning};
use crate::shape::Shape;

const fn none(path: &'static str, shape: Shape, reason: &'static str) -> Key {
    Key { path, meaning: Meaning::NoEffect { shape, reason } }
}

const fn refused(
    path: &'static str,
    shape: Shape,
    accepts: fn(&Value) -> bool,
    expected: &'static str,
    reason: &'static str,
) -> Key {
    Key { path, meaning: Meaning::Refused { shape, accepts, expected, reason } }
}

const BIT: Shape = Shape::Integer { least: 0, most: 31 };
const HAIRPIN: Shape = Shape::OneOf { names: &["promiscuous-bridge", "hairpin-veth", "none"], empty: true };
const NO_GO: &str = "the agent is no Go program: it has no /debug/pprof/";
const NO_CHAINS: &str = "the agent writes no iptables rules; newer kubelets do not use the bit either";

/// The length of a mapping that a kubelet gives to each pod by default, which is never used here.
const IDS_PER_POD: i64 = 65_536;

pub(super) static WITHOUT_EFFECT: &[Key] = &[
    none("contentType", Shape::Text, "requests to the API server are JSON, and mean the same"),
    none(
        "draManagerReconcilePeriod",
        Shape::Duration,
        "pods with resourceClaims are refused, so there is nothing to reconcile",
    ),
    none("enableContentionProfiling", Shape::Switch, NO_GO),
    none(
        "enableDebugFlagsHandler",
        Shape::Switch,
        "/debug/flags/v is never served; logging.verbosity and NODEWARDEN_LOG choose what is logged",
    ),
    none("enableProfilingHandler", Shape::Switch, NO_GO),
    none("hairpinMode", HAIRPIN, "the container runtime sets up the network"),
    none("iptablesDropBit", BIT, NO_CHAINS),
    none("iptablesMasqueradeBit", BIT, NO_CHAINS),
    none(
        "kernelMemcgNotification",
        Shape::Switch,
        "the kernel always reports memory pressure to the agent (PSI, memory.events, v1 thresholds)",
    ),
    none(
        "logging.flushFrequency",
        Shape::AnyOf(&[Shape::Duration, Shape::Integer { least: 0, most: i64::MAX }]),
        "every line is written at once",
    ),
    none("logging.options", Shape::Object, "lines of all levels go unbuffered to the standard error"),
    none(
        "logging.vmodule",
        Shape::List(&Shape::Object),
        "the agent has other modules than a kubelet; NODEWARDEN_LOG has levels by module",
    ),
    none(
        "makeIPTablesUtilChains",
        Shape::Switch,
        "the agent writes no iptables rules: the chain KUBE-IPTABLES-HINT is not made, and kube-proxy makes its own",
    ),
    none(
        "podCIDR",
        Shape::Text,
        "the container runtime's network has its own configuration; a kubelet ignores the key in a cluster too",
    ),
    none("showHiddenMetricsForVersion", Shape::Text, "the agent hides no metrics"),
    none(
        "syncFrequency",
        Shape::Duration,
        "pods are looked at when something of them changes; nodewarden.reconcileSeconds is how often all limits are compared",
    ),
    none("volumePluginDir", Shape::Text, "pods with flexVolume are refused"),
    none(
        "volumeStatsAggPeriod",
        Shape::Duration,
        "the use of volumes is measured for eviction, at its pace, and shown from there",
    ),
    refused(
        "enableControllerAttachDetach",
        Shape::Switch,
        |value| value.as_bool() == Some(true),
        "true",
        "volumes are attached by the controller alone, never by the agent",
    ),
    refused(
        "enableSystemLogQuery",
        Shape::Switch,
        |value| value.as_bool() == Some(false),
        "false",
        "queries of the node's logs are not built in, only the files at /logs/",
    ),
    refused(
        "runOnce",
        Shape::Switch,
        |value| value.as_bool() == Some(false),
        "false",
        "the agent runs until it is ended; kubelets refuse it too",
    ),
    refused(
        "tracing",
        Shape::Object,
        |value| value.as_mapping().is_some_and(|map| map.values().all(Value::is_null)),
        "nothing",
        "the agent sends no traces",
    ),
    refused(
        "userNamespaces",
        Shape::Keys(&[("idsPerPod", Shape::Integer { least: 0, most: u32::MAX as i64 })]),
        |value| value.get("idsPerPod").is_none_or(|ids| ids.is_null() || ids.as_i64() == Some(IDS_PER_POD)),
        "the default idsPerPod, 65536",
        "pods with hostUsers: false are refused, so no pod has a user namespace",
    ),
];
