//! Garbage collection: the kubelet's keys for images, and the section `nodewarden.gc`.

use std::ops::RangeInclusive;

use nodewarden_model::GcSettings;
use serde_yaml_ng::{Mapping, Value};

use crate::duration;
use crate::fields::Fields;
use crate::gates::FeatureGates;
use crate::reading::Reading;
use crate::show::Map;

const HIGH: &str = "imageGCHighThresholdPercent";
const LOW: &str = "imageGCLowThresholdPercent";
const MIN_AGE: &str = "imageMinimumGCAge";
const MAX_AGE: &str = "imageMaximumGCAge";

const PERCENT: RangeInclusive<u64> = 0..=100;
const PERIOD_SECONDS: RangeInclusive<u64> = 1..=86_400;
const AGE_SECONDS: RangeInclusive<u64> = 0..=31_536_000;

/// Reads the kubelet's keys. As there, a minimum age of 0 means not set, so the default is used.
pub fn take(top: &mut Fields<'_>, gates: FeatureGates) -> GcSettings {
    let default = GcSettings::default();
    let percent = |top: &mut Fields<'_>, key, default: u8| top.number(key, default.into(), &PERCENT) as u8;
    let high_percent = percent(top, HIGH, default.high_percent);
    let low_percent = percent(top, LOW, default.low_percent);
    if low_percent >= high_percent && !top.has_problem(HIGH) && !top.has_problem(LOW) {
        top.refuse(LOW, &low_percent.to_string(), &format!("less than the {high_percent} of {HIGH}"));
    }
    let min_age = top.duration(MIN_AGE).filter(|age| !age.is_zero()).unwrap_or(default.min_age);
    let max_age = top.duration(MAX_AGE).filter(|age| !age.is_zero());
    if let Some(age) = max_age {
        let shown = duration::show(age);
        if !gates.image_maximum_gc_age {
            top.refuse(MAX_AGE, &shown, "0s, or the feature gate ImageMaximumGCAge");
        } else if age <= min_age && !top.has_problem(MIN_AGE) {
            let least = duration::show(min_age);
            top.refuse(MAX_AGE, &shown, &format!("more than the {least} of {MIN_AGE}, or 0s for none"));
        }
    }
    GcSettings { high_percent, low_percent, min_age, max_age, ..default }
}

/// Reads the section, on top of the kubelet's keys.
pub fn take_own(map: Mapping, gc: GcSettings, reading: &mut Reading) -> GcSettings {
    let mut f = Fields::new("nodewarden.gc", map, Vec::new(), reading);
    let settings = GcSettings {
        period: f.seconds("periodSeconds", gc.period, &PERIOD_SECONDS),
        max_per_pod_container: bound(&mut f, "maxPerPodContainer", gc.max_per_pod_container),
        max_containers: bound(&mut f, "maxContainers", gc.max_containers),
        min_container_age: f.seconds("minAgeSeconds", gc.min_container_age, &AGE_SECONDS),
        ..gc
    };
    f.finish();
    settings
}

/// A number of containers; -1 means unlimited, as in the kubelet's flags.
fn bound(f: &mut Fields<'_>, key: &'static str, default: Option<u32>) -> Option<u32> {
    let expected = format!("a whole number from 0 to {}, or -1 for no bound", i32::MAX);
    f.integer(key, &expected, &(-1..=i64::from(i32::MAX))).map_or(default, |n| u32::try_from(n).ok())
}

/// Writes the kubelet's keys about image garbage collection.
pub(crate) fn show(top: &mut Map, gc: &GcSettings) {
    top.put("imageGCHighThresholdPercent", gc.high_percent);
    top.put("imageGCLowThresholdPercent", gc.low_percent);
    top.put("imageMinimumGCAge", duration::show(gc.min_age));
    top.put("imageMaximumGCAge", duration::show(gc.max_age.unwrap_or_default()));
}

pub(crate) fn show_own(gc: &GcSettings) -> Mapping {
    let bound = |most: Option<u32>| most.map_or(Value::from(-1), Value::from);
    let mut map = Map::default();
    map.put("periodSeconds", gc.period.as_secs());
    map.put("maxPerPodContainer", bound(gc.max_per_pod_container));
    map.put("maxContainers", bound(gc.max_containers));
    map.put("minAgeSeconds", gc.min_container_age.as_secs());
    map.0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::tests::{problems, read};
    use crate::{Overrides, parse};

    fn gc(body: &str) -> GcSettings {
        let config = read(body).unwrap_or_else(|e| panic!("{body}: {e}"));
        assert!(config.ignored.is_empty(), "{:?}", config.ignored);
        config.gc
    }

    /// SetDefaults_KubeletConfiguration: only what is absent has a default for percentages, 0 has one for the
    /// age.
    #[test]
    fn the_kubelets_defaults() {
        let none = "imageGCHighThresholdPercent: null\nimageMinimumGCAge: 0s\nimageMaximumGCAge: 0s\n\
                    nodewarden: {gc: {}}";
        for body in ["", none] {
            assert_eq!(gc(body), GcSettings::default(), "{body}");
        }
        let default = GcSettings::default();
        assert_eq!((default.high_percent, default.low_percent), (85, 80));
        assert_eq!((default.min_age.as_secs(), default.max_age), (120, None));
        assert_eq!(gc("imageGCLowThresholdPercent: 0").low_percent, 0);
    }

    #[test]
    fn everything_set() {
        let settings = gc("imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
imageMinimumGCAge: 1m30s
imageMaximumGCAge: 91s
nodewarden: {gc: {periodSeconds: 1, maxPerPodContainer: -1, maxContainers: 100, minAgeSeconds: 60}}
");
        let expected = GcSettings {
            high_percent: 100,
            low_percent: 99,
            min_age: Duration::from_secs(90),
            max_age: Some(Duration::from_secs(91)),
            period: Duration::from_secs(1),
            max_per_pod_container: None,
            max_containers: Some(100),
            min_container_age: Duration::from_secs(60),
        };
        assert_eq!(settings, expected);
        assert_eq!(gc("nodewarden: {gc: {maxPerPodContainer: 0}}").max_per_pod_container, Some(0));
    }

    #[test]
    fn what_is_shown_reads_back_the_same() {
        for body in [
            "",
            "imageGCHighThresholdPercent: 2\nimageGCLowThresholdPercent: 1",
            "imageMinimumGCAge: 1500ms\nimageMaximumGCAge: 24h",
            "featureGates: {ImageMaximumGCAge: false}",
            "nodewarden: {gc: {periodSeconds: 7, maxPerPodContainer: -1, maxContainers: 0, minAgeSeconds: 5}}",
        ] {
            let config = read(body).unwrap();
            let again = parse("again", &config.to_yaml(), &Overrides::default()).unwrap();
            assert_eq!(again, config, "{body}");
        }
    }

    /// ValidateKubeletConfiguration.
    #[test]
    fn one_problem_each() {
        for (body, expected) in [
            (
                "imageGCHighThresholdPercent: 101",
                "imageGCHighThresholdPercent: 101: expected a whole number from 0 to 100",
            ),
            (
                "imageGCLowThresholdPercent: -1",
                "imageGCLowThresholdPercent: -1: expected a whole number from 0 to 100",
            ),
            (
                "imageGCHighThresholdPercent: 80%",
                "imageGCHighThresholdPercent: 80%: expected a whole number from 0 to 100",
            ),
            (
                "imageGCLowThresholdPercent: 85",
                "imageGCLowThresholdPercent: 85: expected less than the 85 of imageGCHighThresholdPercent",
            ),
            (
                "imageGCHighThresholdPercent: 80",
                "imageGCLowThresholdPercent: 80: expected less than the 80 of imageGCHighThresholdPercent",
            ),
            (
                "imageGCHighThresholdPercent: 0\nimageGCLowThresholdPercent: 0",
                "imageGCLowThresholdPercent: 0: expected less than the 0 of imageGCHighThresholdPercent",
            ),
            ("imageMinimumGCAge: -1s", "imageMinimumGCAge: -1s: expected a time like 20s or 1m30s"),
            ("imageMaximumGCAge: -1s", "imageMaximumGCAge: -1s: expected a time like 20s or 1m30s"),
            (
                "imageMaximumGCAge: 2m",
                "imageMaximumGCAge: 120s: expected more than the 120s of imageMinimumGCAge, or 0s for none",
            ),
            (
                "imageMinimumGCAge: 2h\nimageMaximumGCAge: 1h",
                "imageMaximumGCAge: 3600s: expected more than the 7200s of imageMinimumGCAge, or 0s for none",
            ),
            (
                "featureGates: {ImageMaximumGCAge: false}\nimageMaximumGCAge: 24h",
                "imageMaximumGCAge: 86400s: expected 0s, or the feature gate ImageMaximumGCAge",
            ),
            (
                "nodewarden: {gc: {periodSeconds: 0}}",
                "nodewarden.gc.periodSeconds: 0: expected a whole number from 1 to 86400",
            ),
            (
                "nodewarden: {gc: {maxPerPodContainer: -2}}",
                "nodewarden.gc.maxPerPodContainer: -2: expected a whole number from 0 to 2147483647, or -1 for no bound",
            ),
            (
                "nodewarden: {gc: {maxContainers: many}}",
                "nodewarden.gc.maxContainers: many: expected a whole number from 0 to 2147483647, or -1 for no bound",
            ),
            (
                "nodewarden: {gc: {minAgeSeconds: 5m}}",
                "nodewarden.gc.minAgeSeconds: 5m: expected a whole number from 0 to 31536000",
            ),
            (
                "nodewarden: {gc: {maxContainer: 1}}",
                "nodewarden.gc.maxContainer: unknown key: expected a known key (did you mean maxContainers?)",
            ),
        ] {
            assert_eq!(problems(body), [expected], "{body}");
        }
    }
}
