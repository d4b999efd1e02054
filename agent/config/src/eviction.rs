//! Eviction: the kubelet's keys, with the defaults of `evictionHard`, and the section `nodewarden.eviction`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_yaml_ng::{Mapping, Value};

use super::threshold::EvictionThreshold;
use crate::fields::Fields;
use crate::reading::Reading;
use crate::show::{Map, pair};
use crate::threshold::{EvictionTexts, Signal, Threshold};
use crate::{duration, threshold};

/// Settings of eviction.
#[derive(Debug, Clone, PartialEq)]
pub struct EvictionSettings {
    /// Hard and soft thresholds, with those of `allocatableMemory.available` where pods are enforced.
    pub thresholds: Vec<EvictionThreshold>,
    /// Whether the file has soft thresholds, or hard ones of memory or process ids other than the defaults.
    /// Mode augment takes those of the kubelet otherwise.
    pub own_thresholds: bool,
    /// `evictionPressureTransitionPeriod`: how long a condition is kept after its last threshold was crossed
    /// (5 min).
    pub transition: Duration,
    /// `evictionMaxPodGracePeriod`: maximum grace period of a pod evicted by a soft threshold (0);
    /// [`Duration::MAX`] for a negative value, which means unlimited. See [`Self::soft_grace`].
    pub max_pod_grace: Duration,
    /// `nodewarden.eviction.restartEvicted`: whether evicted pods are restarted when the pressure is over.
    pub restart_evicted: bool,
    /// `nodewarden.eviction.backOffSeconds`: time before the restart after a pod's first eviction, doubled
    /// with each further one (10 s).
    pub back_off: Duration,
    /// `nodewarden.eviction.maxBackOffSeconds` (5 min). Ten minutes without an eviction reset the back-off.
    pub max_back_off: Duration,
    /// `nodewarden.eviction.manifestPodsCritical`: every pod of a manifest counts as critical, as static pods
    /// do for a kubelet. By default only their priority decides.
    pub manifests_critical: bool,
    /// `localStorageCapacityIsolation`: whether pods beyond their own disk limits are evicted (true).
    pub own_limits: bool,
    /// `maxIntervalMilliseconds`: longest time between two readings of memory and processes (10 s).
    pub max_interval: Duration,
    /// `minIntervalMilliseconds`: shortest time between two readings of memory and processes (10 ms), except
    /// while a threshold is about to be crossed.
    pub min_interval: Duration,
}

impl EvictionSettings {
    /// Grace period of a pod evicted by a soft threshold: its own, up to the maximum.
    pub fn soft_grace(&self, own: Duration) -> Duration {
        own.min(self.max_pod_grace)
    }
}

impl Default for EvictionSettings {
    fn default() -> Self {
        Self {
            thresholds: Vec::new(),
            own_thresholds: false,
            transition: Duration::from_secs(300),
            max_pod_grace: Duration::ZERO,
            restart_evicted: true,
            back_off: Duration::from_secs(10),
            max_back_off: Duration::from_secs(300),
            manifests_critical: false,
            own_limits: true,
            max_interval: Duration::from_secs(10),
            min_interval: Duration::from_millis(10),
        }
    }
}

const HARD: &str = "evictionHard";
const MERGE: &str = "mergeDefaultEvictionSettings";
const TRANSITION: &str = "evictionPressureTransitionPeriod";
const MAX_POD_GRACE: &str = "evictionMaxPodGracePeriod";
const OWN_LIMITS: &str = "localStorageCapacityIsolation";

const BACK_OFF_SECONDS: RangeInclusive<u64> = 1..=86_400;
const INTERVAL_MILLISECONDS: RangeInclusive<u64> = 1..=60_000;

/// The kubelet's defaults on Linux (pkg/kubelet/eviction/defaults_linux.go).
const DEFAULTS: [(Signal, &str); 4] = [
    (Signal::MemoryAvailable, "100Mi"),
    (Signal::NodeFsAvailable, "10%"),
    (Signal::NodeFsInodesFree, "5%"),
    (Signal::ImageFsAvailable, "15%"),
];

/// The default thresholds as a mapping of texts.
pub(crate) fn defaults() -> BTreeMap<String, String> {
    DEFAULTS.iter().map(|(signal, text)| (signal.name().to_owned(), (*text).to_owned())).collect()
}

/// The default thresholds, parsed.
pub fn default_hard() -> BTreeMap<String, Threshold> {
    let texts = EvictionTexts { hard: defaults(), ..EvictionTexts::default() };
    by_name(&texts)
}

/// Hard thresholds by the kubelet's name of their signal; invalid ones are left out.
fn by_name(texts: &EvictionTexts) -> BTreeMap<String, Threshold> {
    let hard =
        threshold::parse(&EvictionTexts { hard: texts.hard.clone(), ..EvictionTexts::default() }, false);
    hard.unwrap_or_default().into_iter().map(|t| (t.signal.name().to_owned(), t.value)).collect()
}

/// Fills in the defaults. As in the kubelet this precedes the merging of drop-in files, so that a signal in a
/// drop-in file replaces one default and not all of them.
pub fn fill_in_defaults(map: &mut Mapping) {
    let merge = map.get(MERGE).and_then(Value::as_bool).unwrap_or(false);
    match map.get_mut(HARD) {
        None | Some(Value::Null) => {
            let hard = defaults().into_iter().map(|(k, v)| (Value::from(k), Value::from(v))).collect();
            map.insert(HARD.into(), Value::Mapping(hard));
        }
        Some(Value::Mapping(hard)) if merge => {
            for (signal, text) in DEFAULTS {
                if !hard.contains_key(signal.name()) {
                    hard.insert(signal.name().into(), text.into());
                }
            }
        }
        Some(_) => {}
    }
}

/// Reads the kubelet's keys: the hard thresholds by name (for the allocatable resources), and the eviction
/// settings. If `mergeDefaultEvictionSettings` is not set, signals without a threshold have the default one;
/// a kubelet drops it.
pub fn take(top: &mut Fields<'_>, pods_enforced: bool) -> (BTreeMap<String, Threshold>, EvictionSettings) {
    let given = top.text_map(HARD);
    let merge = top.flag(MERGE, true);
    let hard = match given {
        None => defaults(),
        Some(given) if merge => defaults().into_iter().chain(given).collect(),
        Some(given) => given,
    };
    let texts = EvictionTexts {
        hard,
        soft: top.text_map("evictionSoft").unwrap_or_default(),
        soft_grace: top.text_map("evictionSoftGracePeriod").unwrap_or_default(),
        minimum_reclaim: top.text_map("evictionMinimumReclaim").unwrap_or_default(),
    };
    let thresholds = threshold::parse(&texts, pods_enforced).unwrap_or_else(|problems| {
        top.refuse_all(problems);
        Vec::new()
    });
    let own_thresholds = of_memory(&texts.hard) != of_memory(&defaults()) || !texts.soft.is_empty();
    let default = EvictionSettings::default();
    let any = i64::from(i32::MIN)..=i64::from(i32::MAX);
    let grace = top.integer(MAX_POD_GRACE, "a whole number of seconds, -1 for no bound", &any);
    let settings = EvictionSettings {
        thresholds,
        own_thresholds,
        // As in the kubelet, 0 means not set.
        transition: top.duration(TRANSITION).filter(|period| !period.is_zero()).unwrap_or(default.transition),
        max_pod_grace: match grace.map(u64::try_from) {
            None => default.max_pod_grace,
            Some(Ok(seconds)) => Duration::from_secs(seconds),
            Some(Err(_)) => Duration::MAX,
        },
        own_limits: top.flag(OWN_LIMITS, default.own_limits),
        ..default
    };
    (by_name(&texts), settings)
}

/// The thresholds of memory and process ids.
fn of_memory(texts: &BTreeMap<String, String>) -> BTreeMap<&str, &str> {
    let own = |name: &str| {
        let signal = Signal::parse(name);
        signal.is_some_and(Signal::is_of_memory)
    };
    texts.iter().filter(|(name, _)| own(name)).map(|(name, text)| (name.as_str(), text.as_str())).collect()
}

/// Reads the section, on top of the kubelet's keys.
pub fn take_own(map: Mapping, eviction: EvictionSettings, reading: &mut Reading) -> EvictionSettings {
    let mut f = Fields::new("nodewarden.eviction", map, Vec::new(), reading);
    let restart_evicted = f.flag("restartEvicted", eviction.restart_evicted);
    let manifests_critical = f.flag("manifestPodsCritical", eviction.manifests_critical);
    let (first, longest) = ("backOffSeconds", "maxBackOffSeconds");
    let back_off = f.seconds(first, eviction.back_off, &BACK_OFF_SECONDS);
    let max_back_off = f.seconds(longest, eviction.max_back_off, &BACK_OFF_SECONDS);
    in_order(&mut f, (first, back_off), (longest, max_back_off));
    let mut interval = |key, default: Duration| {
        Duration::from_millis(f.number(key, default.as_millis() as u64, &INTERVAL_MILLISECONDS))
    };
    let (shortest, longest) = ("minIntervalMilliseconds", "maxIntervalMilliseconds");
    let min_interval = interval(shortest, eviction.min_interval);
    let max_interval = interval(longest, eviction.max_interval);
    in_order(&mut f, (shortest, min_interval), (longest, max_interval));
    f.finish();
    EvictionSettings {
        restart_evicted,
        manifests_critical,
        back_off,
        max_back_off,
        min_interval,
        max_interval,
        ..eviction
    }
}

/// Refuses a maximum below the minimum.
fn in_order(
    f: &mut Fields<'_>,
    (first, least): (&'static str, Duration),
    (last, most): (&'static str, Duration),
) {
    if most < least && !f.has_problem(first) && !f.has_problem(last) {
        let expected = format!("at least the {} of {first}", duration::show(least));
        f.refuse(last, &duration::show(most), &expected);
    }
}

/// Writes the kubelet's keys about eviction. `hard` are the hard thresholds by name; `pods_enforced` is that
/// of [`take`].
pub(crate) fn show(
    top: &mut Map,
    hard: &BTreeMap<String, Threshold>,
    pods_enforced: bool,
    eviction: &EvictionSettings,
) {
    let values = hard.iter().map(|(signal, value)| pair(signal, value.to_string()));
    top.put("evictionHard", values.collect::<Mapping>());
    // All signals with a threshold are written above.
    top.put("mergeDefaultEvictionSettings", false);
    let given = threshold::given(&eviction.thresholds, pods_enforced);
    let soft = given.get(hard.len()..).unwrap_or_default();
    let values = soft.iter().map(|t| pair(t.signal.name(), t.value.to_string()));
    top.put("evictionSoft", values.collect::<Mapping>());
    let graces = soft.iter().map(|t| pair(t.signal.name(), duration::show(t.grace)));
    top.put("evictionSoftGracePeriod", graces.collect::<Mapping>());
    let reclaim =
        given.iter().filter_map(|t| Some(pair(t.signal.name(), t.min_reclaim.as_ref()?.to_string())));
    top.put("evictionMinimumReclaim", reclaim.collect::<Mapping>());
    top.put("evictionPressureTransitionPeriod", duration::show(eviction.transition));
    let grace = eviction.max_pod_grace;
    let seconds = if grace == Duration::MAX { Value::from(-1) } else { grace.as_secs().into() };
    top.put("evictionMaxPodGracePeriod", seconds);
    top.put("localStorageCapacityIsolation", eviction.own_limits);
}

pub(crate) fn show_own(eviction: &EvictionSettings) -> Mapping {
    let mut map = Map::default();
    map.put("restartEvicted", eviction.restart_evicted);
    map.put("backOffSeconds", eviction.back_off.as_secs());
    map.put("maxBackOffSeconds", eviction.max_back_off.as_secs());
    map.put("manifestPodsCritical", eviction.manifests_critical);
    map.put("maxIntervalMilliseconds", eviction.max_interval.as_millis() as u64);
    map.put("minIntervalMilliseconds", eviction.min_interval.as_millis() as u64);
    map.0
}

#[cfg(test)]
mod tests;
