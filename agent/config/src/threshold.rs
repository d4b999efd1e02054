//! Eviction thresholds, parsed like in the kubelet (pkg/kubelet/eviction/helpers.go, `ParseThresholdConfig`):
//! the signal, the value below which it acts, the grace period, and the minimum reclaim.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::fields::join;
use super::{Problem, duration};
use nodewarden_manifest::Quantity;
use strum::VariantNames;

/// An eviction signal: a resource whose available amount is watched.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    strum::EnumIter,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
pub enum Signal {
    /// Memory available on the node, without what the kernel can reclaim easily (`capacity - workingSet`).
    #[strum(serialize = "memory.available")]
    MemoryAvailable,
    /// Free bytes of the file system with the pods' volumes and logs.
    #[strum(serialize = "nodefs.available")]
    NodeFsAvailable,
    /// Free inodes of the same file system.
    #[strum(serialize = "nodefs.inodesFree")]
    NodeFsInodesFree,
    /// Free bytes of the runtime's file system of images.
    #[strum(serialize = "imagefs.available")]
    ImageFsAvailable,
    /// Free inodes of the same file system.
    #[strum(serialize = "imagefs.inodesFree")]
    ImageFsInodesFree,
    /// Free bytes of the file system with the containers' writable layers.
    #[strum(serialize = "containerfs.available")]
    ContainerFsAvailable,
    /// Free inodes of the same file system.
    #[strum(serialize = "containerfs.inodesFree")]
    ContainerFsInodesFree,
    /// Process ids that are still free.
    #[strum(serialize = "pid.available")]
    PidAvailable,
    /// Memory available below the limit of all pods.
    #[strum(serialize = "allocatableMemory.available")]
    AllocatableMemoryAvailable,
}

impl Signal {
    /// The kubelet's name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it is of memory or process ids, not of a disk.
    pub fn is_of_memory(self) -> bool {
        matches!(self, Self::MemoryAvailable | Self::AllocatableMemoryAvailable | Self::PidAvailable)
    }

    /// Whether it counts bytes, not inodes or process ids.
    pub fn is_bytes(self) -> bool {
        use Signal::{ContainerFsInodesFree, ImageFsInodesFree, NodeFsInodesFree, PidAvailable};
        !matches!(self, NodeFsInodesFree | ImageFsInodesFree | ContainerFsInodesFree | PidAvailable)
    }

    /// The signal with this name of the kubelet; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// An amount of a resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Threshold {
    /// An absolute amount: bytes, inodes or process ids, as the signal counts.
    Quantity(Quantity),
    /// Fraction of the capacity, 0 to 1. Always representable in 32 bits as in the kubelet, so that products
    /// are equal.
    Fraction(f64),
}

/// The text from which the same threshold is parsed: `100Mi`, `1.5%`.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quantity(quantity) => quantity.fmt(f),
            Self::Fraction(fraction) => write!(f, "{}%", percent(*fraction as f32)),
        }
    }
}

/// A threshold of a signal.
#[derive(Debug, Clone, PartialEq)]
pub struct EvictionThreshold {
    /// The signal that is compared with `value`.
    pub signal: Signal,
    /// It is crossed when less than this is available.
    pub value: Threshold,
    /// How long it must be crossed before pods are evicted; zero for a hard threshold.
    pub grace: Duration,
    /// How much is reclaimed in addition to `value`.
    pub min_reclaim: Option<Threshold>,
}

impl EvictionThreshold {
    /// Whether it acts at once (kubelet `isHardEvictionThreshold`).
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }
}

/// The four mappings of the file, unparsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvictionTexts {
    /// `evictionHard`: signal to amount.
    pub hard: BTreeMap<String, String>,
    /// `evictionSoft`: signal to amount.
    pub soft: BTreeMap<String, String>,
    /// `evictionSoftGracePeriod`: signal to time; required for each signal of `soft`.
    pub soft_grace: BTreeMap<String, String>,
    /// `evictionMinimumReclaim`: signal to amount.
    pub minimum_reclaim: BTreeMap<String, String>,
}

/// The hard thresholds, the soft ones, and, if `pods` is enforced, a copy of the hard memory threshold for
/// the memory below the limit of all pods.
///
/// # Errors
/// All invalid texts with their paths.
pub fn parse(texts: &EvictionTexts, pods_enforced: bool) -> Result<Vec<EvictionThreshold>, Vec<Problem>> {
    let mut problems = Vec::new();
    let hard = thresholds("evictionHard", &texts.hard, &mut problems);
    let soft = thresholds("evictionSoft", &texts.soft, &mut problems);
    let grace = each("evictionSoftGracePeriod", &texts.soft_grace, &mut problems, |text| {
        duration::parse(text).ok_or("a time like 1m30s")
    });
    let reclaim = each("evictionMinimumReclaim", &texts.minimum_reclaim, &mut problems, min_reclaim);
    let mut found = Vec::new();
    let mut add = |signal, value, grace| {
        let min_reclaim = reclaim.get(&signal).cloned();
        found.push(EvictionThreshold { signal, value, grace, min_reclaim });
    };
    for (signal, value) in hard {
        add(signal, value, Duration::ZERO);
    }
    for (signal, value) in soft {
        match grace.get(&signal) {
            Some(grace) => add(signal, value, *grace),
            // An invalid value was already reported.
            None if texts.soft_grace.contains_key(signal.name()) => {}
            None => problems.push(Problem::new(
                &join("evictionSoftGracePeriod", signal.name()),
                "",
                "how long the soft threshold may be passed, like 30s",
            )),
        }
    }
    if pods_enforced {
        let allocatable = found
            .iter()
            .filter(|t| is_doubled(t))
            .map(|t| EvictionThreshold { signal: Signal::AllocatableMemoryAvailable, ..t.clone() })
            .collect::<Vec<_>>();
        found.extend(allocatable);
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// Whether it is copied for the limit of all pods (kubelet `addAllocatableThresholds`).
pub(crate) fn is_doubled(threshold: &EvictionThreshold) -> bool {
    threshold.signal == Signal::MemoryAvailable && threshold.is_hard()
}

/// The result of [`parse`] without the added copy: the hard thresholds, then the soft ones.
pub fn given(thresholds: &[EvictionThreshold], pods_enforced: bool) -> &[EvictionThreshold] {
    let added = if pods_enforced { thresholds.iter().filter(|t| is_doubled(t)).count() } else { 0 };
    &thresholds[..thresholds.len().saturating_sub(added)]
}

/// Thresholds by signal, without disabled ones.
fn thresholds(
    field: &str,
    texts: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<Signal, Threshold> {
    each(field, texts, problems, threshold).into_iter().filter_map(|(s, v)| Some((s, v?))).collect()
}

/// Parses every entry of a mapping by signal.
fn each<T>(
    field: &str,
    texts: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
    read: impl Fn(&str) -> Result<T, &'static str>,
) -> BTreeMap<Signal, T> {
    let mut found = BTreeMap::new();
    for (name, text) in texts {
        let field = join(field, name);
        let Some(signal) = Signal::parse(name) else {
            let names = Signal::VARIANTS.join(", ");
            problems.push(Problem::new(&field, "unknown signal", &format!("one of {names}")));
            continue;
        };
        match read(text) {
            Ok(value) => {
                found.insert(signal, value);
            }
            Err(expected) => {
                let value = if text.is_empty() { "\"\"" } else { text };
                problems.push(Problem::new(&field, value, expected));
            }
        }
    }
    found
}

/// One threshold; `None` for `0%` and `100%`, which disable it.
fn threshold(text: &str) -> Result<Option<Threshold>, &'static str> {
    const EXPECTED: &str = "an amount over 0 like 100Mi, or 0% to 100%";
    if text.ends_with('%') {
        if text == "0%" || text == "100%" {
            return Ok(None);
        }
        let fraction = fraction(text).filter(|f| (0.0..=1.0).contains(f)).ok_or(EXPECTED)?;
        return Ok(Some(Threshold::Fraction(f64::from(fraction))));
    }
    match Quantity::parse(text) {
        Ok(quantity) if quantity > Quantity::default() => Ok(Some(Threshold::Quantity(quantity))),
        _ => Err(EXPECTED),
    }
}

/// A minimum reclaim.
fn min_reclaim(text: &str) -> Result<Threshold, &'static str> {
    const EXPECTED: &str = "an amount from 0 like 500Mi, or over 0%";
    if text.ends_with('%') {
        let fraction = fraction(text).filter(|f| *f > 0.0 && f.is_finite()).ok_or(EXPECTED)?;
        return Ok(Threshold::Fraction(f64::from(fraction)));
    }
    match Quantity::parse(text) {
        Ok(quantity) if quantity >= Quantity::default() => Ok(Threshold::Quantity(quantity)),
        _ => Err(EXPECTED),
    }
}

/// Parses a percentage with 32 bits, like the kubelet's `parsePercentage`.
fn fraction(text: &str) -> Option<f32> {
    text.trim_end_matches('%').parse::<f32>().ok().map(|p| p / 100.0)
}

/// A percentage that [`fraction`] parses as `fraction`. The nearest product differs by at most one step,
/// because both the division and the multiplication round.
fn percent(fraction: f32) -> f32 {
    let near = fraction * 100.0;
    [near, near.next_up(), near.next_down(), near.next_up().next_up(), near.next_down().next_down()]
        .into_iter()
        .filter(|p| p / 100.0 == fraction)
        .min_by_key(|p| p.to_string().len())
        .unwrap_or(near)
}

#[cfg(test)]
mod golden {
    use serde_json::Value;

    use super::*;

    fn texts(map: &Value) -> BTreeMap<String, String> {
        let Some(map) = map.as_object() else { return BTreeMap::new() };
        map.iter().map(|(k, v)| (k.clone(), v.as_str().expect("a text").to_owned())).collect()
    }

    /// As the recording has it: a percentage counts where there is no quantity.
    fn amount(value: &Value) -> Threshold {
        match value["Quantity"].as_str() {
            Some(text) => Threshold::Quantity(Quantity::parse(text).expect("a quantity")),
            None => Threshold::Fraction(f64::from(value["Percentage"].as_f64().expect("a number") as f32)),
        }
    }

    fn recorded(entry: &Value) -> EvictionThreshold {
        assert_eq!(entry["Operator"], "LessThan");
        let reclaim = &entry["MinReclaim"];
        EvictionThreshold {
            signal: Signal::parse(entry["Signal"].as_str().expect("a text")).expect("a signal"),
            value: amount(&entry["Value"]),
            grace: Duration::from_nanos(entry["GracePeriod"].as_u64().expect("nanoseconds")),
            min_reclaim: (!reclaim.is_null()).then(|| amount(reclaim)),
        }
    }

    /// The kubelet goes through Go maps, so the order is no part of it.
    #[test]
    fn eviction_thresholds() {
        let Some(cases) = nodewarden_testing::golden::load("eviction_thresholds.json") else { return };
        for case in cases.as_array().expect("a list") {
            let given = EvictionTexts {
                hard: texts(&case["Hard"]),
                soft: texts(&case["Soft"]),
                soft_grace: texts(&case["Grace"]),
                minimum_reclaim: texts(&case["Reclaim"]),
            };
            let parsed = parse(&given, true);
            assert_eq!(parsed.is_err(), case["Error"] == true, "{case}: {parsed:?}");
            let mut expected: Vec<_> = case["Out"].as_array().into_iter().flatten().map(recorded).collect();
            let mut found = parsed.unwrap_or_default();
            expected.sort_by_key(|t| (t.signal, t.grace));
            found.sort_by_key(|t| (t.signal, t.grace));
            assert_eq!(found, expected, "{case}");
            for (found, recorded) in found.iter().zip(&expected) {
                assert_eq!(found.value.to_string(), recorded.value.to_string(), "{case}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_value_each() {
        let fraction = |f: f32| Ok(Some(Threshold::Fraction(f64::from(f))));
        let amount = |t: &str| Ok(Some(Threshold::Quantity(Quantity::parse(t).unwrap())));
        for (text, expected) in [
            ("100Mi", amount("100Mi")),
            ("1e9", amount("1000000000")),
            ("1", amount("1")),
            ("10%", fraction(0.1)),
            ("1.5%", fraction(0.015)),
            ("0.0%", fraction(0.0)),
            ("100.0%", fraction(1.0)),
            ("0%", Ok(None)),
            ("100%", Ok(None)),
        ] {
            assert_eq!(threshold(text), expected, "{text}");
        }
        for text in
            ["", "%", "-5%", "100.1%", "NaN%", "inf%", " 5%", "5 %", "0", "-1Mi", "abc", "1Qi", "10%%x"]
        {
            assert!(threshold(text).is_err(), "{text}");
        }
        for (text, fits) in
            [("0", true), ("500Mi", true), ("150%", true), ("0%", false), ("-1", false), ("x", false)]
        {
            assert_eq!(min_reclaim(text).is_ok(), fits, "{text}");
        }
    }

    #[test]
    fn every_problem_with_its_path() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let texts = EvictionTexts {
            hard: map(&[("mem.available", "1Gi"), ("pid.available", "x")]),
            soft: map(&[("memory.available", "1Gi"), ("nodefs.available", "5%")]),
            soft_grace: map(&[("memory.available", "-30s")]),
            minimum_reclaim: map(&[("imagefs.available", "-1")]),
        };
        let problems = parse(&texts, true).unwrap_err();
        let fields: Vec<&str> = problems.iter().map(|p| p.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "evictionHard.mem.available",
                "evictionHard.pid.available",
                "evictionSoftGracePeriod.memory.available",
                "evictionMinimumReclaim.imagefs.available",
                "evictionSoftGracePeriod.nodefs.available",
            ]
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(percent in 0.0f32..=100.0) {
            let fraction = Threshold::Fraction(f64::from(percent / 100.0));
            let text = fraction.to_string();
            prop_assume!(text != "0%" && text != "100%");
            prop_assert_eq!(threshold(&text), Ok(Some(fraction)), "{}", text);
        }
    }
}
