//! Throttling of lower QoS levels under pressure: the section `nodewarden.throttle`. Off by default.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_yaml_ng::Mapping;

use crate::fields::Fields;
use crate::reading::Reading;
use crate::show::Map;

/// Settings of throttling lower QoS levels while higher ones wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThrottleSettings {
    /// `periodMilliseconds`: time between two readings.
    pub period: Duration,
    /// `holdSeconds`: how long there must be no pressure before throttling is reduced.
    pub hold: Duration,
    /// `maxHoldSeconds`: the maximum of that time, which is doubled each time a release was too early.
    pub max_hold: Duration,
    /// `cpu`: throttling that protects the CPU time of higher levels.
    pub cpu: CpuThrottle,
    /// `memory`: throttling before the node runs out of memory.
    pub memory: MemoryThrottle,
}

/// `cpu`: BestEffort is throttled while a Guaranteed or Burstable pod waits for a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuThrottle {
    /// `enabled`; false by default.
    pub enabled: bool,
    /// `waitMilliseconds`: how long the tasks of one pod may wait in run queues together, in each second.
    pub wait: Duration,
    /// `minMilliCPU`: the minimum quota of BestEffort in thousandths of a CPU.
    pub min_milli: u64,
}

/// `memory`: BestEffort's, then Burstable's `memory.high` before eviction (cgroup v2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryThrottle {
    /// `enabled`; false by default.
    pub enabled: bool,
    /// `distance`: throttling of BestEffort begins this many bytes above the threshold of `memory.available`,
    /// that of Burstable at half of it.
    pub distance: u64,
    /// `min`: the minimum of BestEffort's `memory.high` in bytes.
    pub min: u64,
}

impl ThrottleSettings {
    /// Whether anything is throttled, so that the readings have to be made.
    pub fn enabled(&self) -> bool {
        self.cpu.enabled || self.memory.enabled
    }
}

impl Default for ThrottleSettings {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            hold: Duration::from_secs(10),
            max_hold: Duration::from_secs(300),
            cpu: CpuThrottle { enabled: false, wait: Duration::from_millis(50), min_milli: 50 },
            memory: MemoryThrottle { enabled: false, distance: 512 << 20, min: 64 << 20 },
        }
    }
}

/// The range of the period: shorter ones cost too much, longer ones react too late.
const PERIOD_MS: RangeInclusive<u64> = 100..=60_000;
const HOLD_SECONDS: RangeInclusive<u64> = 1..=86_400;
const WAIT_MS: RangeInclusive<u64> = 1..=1_000_000;
/// The range of the minimum quota: with a period of 20 ms it is at least one millisecond
/// (`min_cfs_quota_period`).
const LEAST_MILLI: RangeInclusive<u64> = 50..=1_000_000;
const BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 50);

/// Reads the section; adds what was found to `reading`.
pub fn take(map: Mapping, reading: &mut Reading) -> ThrottleSettings {
    let default = ThrottleSettings::default();
    let mut f = Fields::new("nodewarden.throttle", map, Vec::new(), reading);
    let period = f.number("periodMilliseconds", default.period.as_millis() as u64, &PERIOD_MS);
    let hold = f.seconds("holdSeconds", default.hold, &HOLD_SECONDS);
    let max_hold = f.seconds("maxHoldSeconds", default.max_hold.max(hold), &HOLD_SECONDS);
    if max_hold < hold {
        let shown = max_hold.as_secs().to_string();
        f.refuse("maxHoldSeconds", &shown, &format!("at least the {} of holdSeconds", hold.as_secs()));
    }
    let (cpu, memory) = (f.section("cpu"), f.section("memory"));
    f.finish();
    ThrottleSettings {
        period: Duration::from_millis(period),
        hold,
        max_hold,
        cpu: take_cpu(cpu, default.cpu, reading),
        memory: take_memory(memory, default.memory, reading),
    }
}

fn take_cpu(map: Mapping, default: CpuThrottle, reading: &mut Reading) -> CpuThrottle {
    let mut f = Fields::new("nodewarden.throttle.cpu", map, Vec::new(), reading);
    let wait = f.number("waitMilliseconds", default.wait.as_millis() as u64, &WAIT_MS);
    let settings = CpuThrottle {
        enabled: f.flag("enabled", default.enabled),
        wait: Duration::from_millis(wait),
        min_milli: f.number("minMilliCPU", default.min_milli, &LEAST_MILLI),
    };
    f.finish();
    settings
}

fn take_memory(map: Mapping, default: MemoryThrottle, reading: &mut Reading) -> MemoryThrottle {
    let mut f = Fields::new("nodewarden.throttle.memory", map, Vec::new(), reading);
    let any = || ("", |_: u64| true);
    let settings = MemoryThrottle {
        enabled: f.flag("enabled", default.enabled),
        distance: f.bytes("distance", default.distance, &BYTES, any()),
        min: f.bytes("min", default.min, &BYTES, any()),
    };
    f.finish();
    settings
}

pub(crate) fn show(settings: &ThrottleSettings) -> Mapping {
    let ThrottleSettings { period, hold, max_hold, cpu, memory } = settings;
    let (mut map, mut of_cpu, mut of_memory) = (Map::default(), Map::default(), Map::default());
    map.put("periodMilliseconds", period.as_millis() as u64);
    map.put("holdSeconds", hold.as_secs());
    map.put("maxHoldSeconds", max_hold.as_secs());
    of_cpu.put("enabled", cpu.enabled);
    of_cpu.put("waitMilliseconds", cpu.wait.as_millis() as u64);
    of_cpu.put("minMilliCPU", cpu.min_milli);
    map.put("cpu", of_cpu.0);
    of_memory.put("enabled", memory.enabled);
    of_memory.put("distance", memory.distance);
    of_memory.put("min", memory.min);
    map.put("memory", of_memory.0);
    map.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (ThrottleSettings, Vec<String>) {
        let mut reading = Reading::default();
        let settings = take(serde_yaml_ng::from_str(text).expect("a mapping"), &mut reading);
        (settings, reading.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_key() {
        let (settings, problems) = read(
            "{periodMilliseconds: 200, holdSeconds: 3, maxHoldSeconds: 5, \
             cpu: {enabled: true, waitMilliseconds: 7, minMilliCPU: 100}, \
             memory: {enabled: true, distance: 1Gi, min: 2Mi}}",
        );
        assert_eq!(problems, [""; 0]);
        let expected = ThrottleSettings {
            period: Duration::from_millis(200),
            hold: Duration::from_secs(3),
            max_hold: Duration::from_secs(5),
            cpu: CpuThrottle { enabled: true, wait: Duration::from_millis(7), min_milli: 100 },
            memory: MemoryThrottle { enabled: true, distance: 1 << 30, min: 2 << 20 },
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn off_unless_it_is_asked_for() {
        for text in ["{}", "{cpu: {waitMilliseconds: 1}, memory: {distance: 1Mi}}"] {
            assert!(!read(text).0.enabled(), "{text}");
        }
        assert_eq!(read("{}").0, ThrottleSettings::default());
        assert_eq!(read("{holdSeconds: 400}").0.max_hold.as_secs(), 400);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            (
                "{periodMilliseconds: 99}",
                "nodewarden.throttle.periodMilliseconds: 99: expected a whole number",
            ),
            (
                "{holdSeconds: 10, maxHoldSeconds: 9}",
                "maxHoldSeconds: 9: expected at least the 10 of holdSeconds",
            ),
            ("{cpu: {minMilliCPU: 49}}", "nodewarden.throttle.cpu.minMilliCPU"),
            ("{memory: {min: 1}}", "nodewarden.throttle.memory.min"),
            ("{memory: {enable: true}}", "did you mean enabled?"),
        ] {
            let (_, problems) = read(text);
            assert!(problems.iter().any(|p| p.contains(part)), "{text}: {problems:?}");
        }
    }
}
