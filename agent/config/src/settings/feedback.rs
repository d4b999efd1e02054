//! The section `nodewarden.feedback`.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_yaml_ng::Mapping;

use crate::Problem;
use crate::feedback::{CpuFeedback, FeedbackSettings, MemoryFeedback};
use crate::fields::Fields;

/// Below, a reading costs more than it tells; above, the load is over before anything is done.
const PERIOD_MS: RangeInclusive<u64> = 100..=60_000;
const HOLD_SECONDS: RangeInclusive<u64> = 1..=86_400;
const WAIT_MS: RangeInclusive<u64> = 1..=1_000_000;
/// A quota of a period of 20 ms is at least a millisecond (`min_cfs_quota_period`).
const LEAST_MILLI: RangeInclusive<u64> = 50..=1_000_000;
const BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 50);

/// Takes it.
pub fn take(map: Mapping, problems: &mut Vec<Problem>) -> FeedbackSettings {
    let default = FeedbackSettings::default();
    let mut f = Fields::new("nodewarden.feedback", map, Vec::new(), problems);
    let period = f.number("periodMilliseconds", default.period.as_millis() as u64, &PERIOD_MS);
    let hold = f.seconds("holdSeconds", default.hold, &HOLD_SECONDS);
    let max_hold = f.seconds("maxHoldSeconds", default.max_hold.max(hold), &HOLD_SECONDS);
    if max_hold < hold {
        let shown = max_hold.as_secs().to_string();
        f.refuse("maxHoldSeconds", &shown, &format!("at least the {} of holdSeconds", hold.as_secs()));
    }
    let (cpu, memory) = (f.section("cpu"), f.section("memory"));
    f.finish();
    FeedbackSettings {
        period: Duration::from_millis(period),
        hold,
        max_hold,
        cpu: take_cpu(cpu, default.cpu, problems),
        memory: take_memory(memory, default.memory, problems),
    }
}

fn take_cpu(map: Mapping, default: CpuFeedback, problems: &mut Vec<Problem>) -> CpuFeedback {
    let mut f = Fields::new("nodewarden.feedback.cpu", map, Vec::new(), problems);
    let wait = f.number("waitMilliseconds", default.wait.as_millis() as u64, &WAIT_MS);
    let settings = CpuFeedback {
        enabled: f.flag("enabled", default.enabled),
        wait: Duration::from_millis(wait),
        least_milli: f.number("leastMilliCPU", default.least_milli, &LEAST_MILLI),
    };
    f.finish();
    settings
}

fn take_memory(map: Mapping, default: MemoryFeedback, problems: &mut Vec<Problem>) -> MemoryFeedback {
    let mut f = Fields::new("nodewarden.feedback.memory", map, Vec::new(), problems);
    let any = || ("", |_: u64| true);
    let settings = MemoryFeedback {
        enabled: f.flag("enabled", default.enabled),
        distance: f.bytes("distance", default.distance, &BYTES, any()),
        least: f.bytes("least", default.least, &BYTES, any()),
    };
    f.finish();
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (FeedbackSettings, Vec<String>) {
        let mut problems = Vec::new();
        let settings = take(serde_yaml_ng::from_str(text).expect("a mapping"), &mut problems);
        (settings, problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_key() {
        let (settings, problems) = read(
            "{periodMilliseconds: 200, holdSeconds: 3, maxHoldSeconds: 5, \
             cpu: {enabled: true, waitMilliseconds: 7, leastMilliCPU: 100}, \
             memory: {enabled: true, distance: 1Gi, least: 2Mi}}",
        );
        assert_eq!(problems, [""; 0]);
        let expected = FeedbackSettings {
            period: Duration::from_millis(200),
            hold: Duration::from_secs(3),
            max_hold: Duration::from_secs(5),
            cpu: CpuFeedback { enabled: true, wait: Duration::from_millis(7), least_milli: 100 },
            memory: MemoryFeedback { enabled: true, distance: 1 << 30, least: 2 << 20 },
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn off_unless_it_is_asked_for() {
        for text in ["{}", "{cpu: {waitMilliseconds: 1}, memory: {distance: 1Mi}}"] {
            assert!(!read(text).0.enabled(), "{text}");
        }
        assert_eq!(read("{}").0, FeedbackSettings::default());
        assert_eq!(read("{holdSeconds: 400}").0.max_hold.as_secs(), 400);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            (
                "{periodMilliseconds: 99}",
                "nodewarden.feedback.periodMilliseconds: 99: expected a whole number",
            ),
            (
                "{holdSeconds: 10, maxHoldSeconds: 9}",
                "maxHoldSeconds: 9: expected at least the 10 of holdSeconds",
            ),
            ("{cpu: {leastMilliCPU: 49}}", "nodewarden.feedback.cpu.leastMilliCPU"),
            ("{memory: {least: 1}}", "nodewarden.feedback.memory.least"),
            ("{memory: {enable: true}}", "did you mean enabled?"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|p| p.contains(part)), "{text}: {problems:?}");
        }
    }
}
