//! Intervals far from and close to a threshold, and that no threshold is crossed between two readings.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strum::IntoEnumIterator;

use super::*;
use crate::Observed;
use nodewarden_config::{EvictionTexts, parse_thresholds};

const GI: u64 = 1 << 30;
const MIN: Duration = Duration::from_millis(10);
const MAX: Duration = Duration::from_secs(10);
/// The shortest interval while a threshold is about to be crossed.
const CLOSE: Duration = Duration::from_micros(500);

fn thresholds(hard: &[(&str, &str)]) -> Vec<EvictionThreshold> {
    let hard: BTreeMap<_, _> = hard.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    parse_thresholds(&EvictionTexts { hard, ..EvictionTexts::default() }, false).unwrap()
}

fn pace() -> Pace {
    Pace::new(&EvictionSettings::default())
}

fn disks_due(pace: &Pace, at: Duration) -> bool {
    at >= pace.disks
}

fn read(signal: Signal, available: u64) -> Observations {
    Observations::from([(signal, Observed { available, capacity: 1 << 50 })])
}

/// A reading of memory alone.
fn quick(pace: &mut Pace, at: Duration, available: u64, thresholds: &[EvictionThreshold]) -> Duration {
    pace.next_reading(at, &read(Signal::MemoryAvailable, available), thresholds)
}

#[test]
fn the_interval_shrinks_with_the_distance() {
    let thresholds = thresholds(&[("memory.available", "1Gi")]);
    for (distance, expected) in [
        (1 << 50, MAX),
        (40 * GI, MAX),
        (20 * GI, Duration::from_secs(5)),
        (4 * GI, Duration::from_secs(1)),
        (GI, Duration::from_millis(250)),
        (GI / 10, Duration::from_millis(25)),
        (GI / 100, MIN),
        (0, MIN),
    ] {
        let wait = quick(&mut pace(), Duration::ZERO, GI + distance, &thresholds);
        let off = wait.abs_diff(expected);
        assert!(off < Duration::from_micros(10), "{distance}: {wait:?}, expected {expected:?}");
    }
}

/// What is eaten at a rate that was seen is read again after half of the time that is left.
#[test]
fn a_threshold_that_is_about_to_be_crossed_is_watched_by_the_half_millisecond() {
    const MB: u64 = 1_000_000;
    let thresholds = thresholds(&[("memory.available", "1Gi")]);
    let mut pace = pace();
    let at = |micros: u64| Duration::from_micros(micros);
    quick(&mut pace, at(0), GI + 11 * MB, &thresholds);
    // A hundred megabytes a second.
    for (micros, distance, wait) in [
        (100_000, MB, at(5_000)),
        (105_000, MB / 2, at(2_500)),
        (107_500, MB / 4, at(1_250)),
        (108_750, MB / 8, at(625)),
        (109_750, MB / 40, CLOSE),
    ] {
        let found = quick(&mut pace, at(micros), GI + distance, &thresholds);
        assert!(found.abs_diff(wait) < at(10), "{micros}: {found:?}, expected {wait:?}");
    }
    // Nothing more is used: the rate fades.
    assert_eq!(quick(&mut pace, at(110_750), GI + MB / 40, &thresholds), CLOSE);
    assert_eq!(quick(&mut pace, at(110_750) + 10 * HALF_LIFE, GI + MB / 40, &thresholds), MIN);
}

#[test]
fn a_shorter_configured_interval_stays_the_shortest() {
    let settings = EvictionSettings { min_interval: CLOSE / 2, ..EvictionSettings::default() };
    let thresholds = thresholds(&[("memory.available", "1Gi")]);
    let mut pace = Pace::new(&settings);
    quick(&mut pace, Duration::ZERO, 2 * GI, &thresholds);
    assert_eq!(quick(&mut pace, MIN, GI + 1, &thresholds), CLOSE / 2);
}

#[test]
fn without_a_threshold_the_interval_is_the_longest() {
    assert_eq!(quick(&mut pace(), Duration::ZERO, 5, &[]), MAX);
    let other = thresholds(&[("pid.available", "10")]);
    assert_eq!(quick(&mut pace(), Duration::ZERO, 5, &other), MAX);
    let disk = thresholds(&[("nodefs.available", "10")]);
    let far = read(Signal::NodeFsAvailable, 1 << 50);
    assert_eq!(pace().next_reading(Duration::ZERO, &far, &disk), MAX, "memory has no threshold");
    assert_eq!(quick(&mut pace(), Duration::ZERO, 5, &disk), SLOW, "the file system could not be read");
}

#[test]
fn the_fastest_rate_seen_counts_and_decays() {
    let thresholds = thresholds(&[("memory.available", "1Gi")]);
    let mut pace = pace();
    let second = Duration::from_secs(1);
    quick(&mut pace, Duration::ZERO, 141 * GI, &thresholds);
    // 40 GiB in a second: with the margin 80 GiB per second are expected, and 100 GiB are left.
    let wait = quick(&mut pace, second, 101 * GI, &thresholds);
    assert_eq!(wait, Duration::from_millis(1250));
    let half = quick(&mut pace, second + HALF_LIFE, 101 * GI, &thresholds);
    assert_eq!(half, Duration::from_millis(2500));
    // Freed memory does not count as consumption.
    let more = quick(&mut pace, second + HALF_LIFE * 2, 201 * GI, &thresholds);
    assert_eq!(more, Duration::from_secs(10));
}

/// The nearest threshold below counts; while one is passed, readings become rarer.
#[test]
fn beyond_a_threshold_readings_become_rarer() {
    let mut both = thresholds(&[("memory.available", "1Gi")]);
    both.extend(thresholds(&[("memory.available", "100Gi")]));
    let mut pace = pace();
    assert_eq!(quick(&mut pace, Duration::ZERO, 99 * GI, &both), MIN);
    assert_eq!(quick(&mut pace, Duration::from_secs(2), 99 * GI, &both), Duration::from_millis(500));
    assert_eq!(quick(&mut pace, Duration::from_secs(60), 99 * GI, &both), SLOW);
    assert_eq!(quick(&mut pace, Duration::from_secs(600), GI + (GI >> 7), &both), MIN);
    assert_eq!(quick(&mut pace, Duration::from_secs(6000), 101 * GI, &both), Duration::from_millis(250));
    assert_eq!(quick(&mut pace, Duration::from_secs(6001), 99 * GI, &both), MIN);
}

#[test]
fn file_systems_are_read_at_most_once_a_second() {
    let thresholds = thresholds(&[("memory.available", "1Gi"), ("nodefs.available", "10Gi")]);
    let mut pace = pace();
    assert!(disks_due(&pace, Duration::ZERO));
    let mut both = read(Signal::MemoryAvailable, GI);
    both.extend(read(Signal::NodeFsAvailable, 10 * GI));
    assert_eq!(pace.next_reading(Duration::ZERO, &both, &thresholds), MIN);
    let memory = read(Signal::MemoryAvailable, 100 * GI);
    for millis in [10, 500, 990] {
        let at = Duration::from_millis(millis);
        assert!(!disks_due(&pace, at));
        assert_eq!(pace.next_reading(at, &memory, &thresholds), Duration::from_millis(1000 - millis));
    }
    // Due and still not read: the wait is not the shortest one every time.
    assert!(disks_due(&pace, SLOW));
    assert_eq!(pace.next_reading(SLOW, &memory, &thresholds), SLOW);
    assert!(disks_due(&pace, SLOW), "it stays due");
    // An extra reading does not postpone it.
    both.insert(Signal::NodeFsAvailable, Observed { available: 1 << 50, capacity: 1 << 50 });
    pace.next_reading(SLOW, &both, &thresholds);
    assert!(!disks_due(&pace, SLOW + MAX - MIN) && disks_due(&pace, SLOW + MAX));
    pace.next_reading(Duration::from_secs(5), &both, &thresholds);
    assert!(disks_due(&pace, SLOW + MAX));
}

proptest! {
    #[test]
    fn every_interval_is_within_its_bounds(steps in proptest::collection::vec((0..20_000_u64, any::<u64>(), proptest::sample::select(Signal::iter().collect::<Vec<_>>())), 1..30)) {
        let thresholds = thresholds(&[("memory.available", "10%"), ("pid.available", "5"), ("nodefs.available", "1Ti")]);
        let mut pace = pace();
        let mut at = Duration::ZERO;
        for (millis, available, signal) in steps {
            at += Duration::from_millis(millis);
            let wait = pace.next_reading(at, &read(signal, available), &thresholds);
            prop_assert!((CLOSE..=MAX).contains(&wait), "{wait:?}");
        }
    }

    /// Allocation that starts at any moment, at up to twice the rate that is always expected, is read at most
    /// one shortest interval after the threshold is crossed.
    #[test]
    fn a_crossing_is_read_within_the_shortest_interval(distance in 1..64 * GI, speed in 1..4 * GI, idle in 0..30_000_000_u64) {
        let thresholds = thresholds(&[("memory.available", "1Gi")]);
        let available = |micros: u64| {
            let eaten = u128::from(speed) * u128::from(micros.saturating_sub(idle)) / 1_000_000;
            (distance + GI).saturating_sub(u64::try_from(eaten).unwrap())
        };
        let mut pace = pace();
        let mut micros = 0_u64;
        let mut readings = 0;
        while available(micros) >= GI {
            let wait = quick(&mut pace, Duration::from_micros(micros), available(micros), &thresholds);
            micros += wait.as_micros() as u64;
            readings += 1;
            prop_assert!(readings < 200_000);
        }
        let crossed = idle + (u128::from(distance) * 1_000_000 / u128::from(speed)) as u64;
        prop_assert!(micros <= crossed + 10_000 + 2, "seen {micros}, crossed {crossed}");
    }
}
