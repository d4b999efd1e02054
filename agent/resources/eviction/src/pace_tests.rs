//! Seconds far away, milliseconds close by, and no threshold crossed unseen.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strum::IntoEnumIterator;

use super::*;
use crate::Observed;
use nodewarden_config::{EvictionTexts, parse_thresholds};

const GI: u64 = 1 << 30;
const MIN: Duration = Duration::from_millis(10);
const MAX: Duration = Duration::from_secs(10);

fn thresholds(hard: &[(&str, &str)]) -> Vec<EvictionThreshold> {
    let hard: BTreeMap<_, _> = hard.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    parse_thresholds(&EvictionTexts { hard, ..EvictionTexts::default() }, false).unwrap()
}

fn pace() -> Pace {
    Pace::new(&EvictionSettings::default())
}

fn read(signal: Signal, available: u64) -> Observations {
    Observations::from([(signal, Observed { available, capacity: 1 << 50 })])
}

/// A reading of memory alone.
fn quick(pace: &mut Pace, at: Duration, available: u64, thresholds: &[EvictionThreshold]) -> Duration {
    pace.seen(at, &read(Signal::MemoryAvailable, available), thresholds)
}

#[test]
fn by_distance() {
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

#[test]
fn without_a_threshold_once_in_a_while() {
    assert_eq!(quick(&mut pace(), Duration::ZERO, 5, &[]), MAX);
    let other = thresholds(&[("pid.available", "10")]);
    assert_eq!(quick(&mut pace(), Duration::ZERO, 5, &other), MAX);
    let disk = thresholds(&[("nodefs.available", "10")]);
    let far = read(Signal::NodeFsAvailable, 1 << 50);
    assert_eq!(pace().seen(Duration::ZERO, &far, &disk), MAX, "nobody asks for memory");
    assert_eq!(quick(&mut pace(), Duration::ZERO, 5, &disk), SLOW, "the file system could not be read");
}

#[test]
fn by_the_fastest_seen_which_fades() {
    let thresholds = thresholds(&[("memory.available", "1Gi")]);
    let mut pace = pace();
    let second = Duration::from_secs(1);
    quick(&mut pace, Duration::ZERO, 141 * GI, &thresholds);
    // 40 GiB in a second: with the margin 80 GiB a second are feared, and 100 GiB are left.
    let wait = quick(&mut pace, second, 101 * GI, &thresholds);
    assert_eq!(wait, Duration::from_millis(1250));
    let half = quick(&mut pace, second + HALF_LIFE, 101 * GI, &thresholds);
    assert_eq!(half, Duration::from_millis(2500));
    // What comes back is no consumption.
    let more = quick(&mut pace, second + HALF_LIFE * 2, 201 * GI, &thresholds);
    assert_eq!(more, Duration::from_secs(10));
}

/// The nearest threshold below counts; one that is passed is looked at less and less often.
#[test]
fn beyond_a_threshold() {
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
fn file_systems_at_most_once_in_a_second() {
    let thresholds = thresholds(&[("memory.available", "1Gi"), ("nodefs.available", "10Gi")]);
    let mut pace = pace();
    assert!(pace.disks_due(Duration::ZERO));
    let mut both = read(Signal::MemoryAvailable, GI);
    both.extend(read(Signal::NodeFsAvailable, 10 * GI));
    assert_eq!(pace.seen(Duration::ZERO, &both, &thresholds), MIN);
    let memory = read(Signal::MemoryAvailable, 100 * GI);
    for millis in [10, 500, 990] {
        let at = Duration::from_millis(millis);
        assert!(!pace.disks_due(at));
        assert_eq!(pace.seen(at, &memory, &thresholds), Duration::from_millis(1000 - millis));
    }
    // Due, and still not read: not for ever the shortest wait.
    assert!(pace.disks_due(SLOW));
    assert_eq!(pace.seen(SLOW, &memory, &thresholds), SLOW);
    assert!(pace.disks_due(SLOW), "it stays due");
    // An extra reading does not put it off.
    both.insert(Signal::NodeFsAvailable, Observed { available: 1 << 50, capacity: 1 << 50 });
    pace.seen(SLOW, &both, &thresholds);
    assert!(!pace.disks_due(SLOW + MAX - MIN) && pace.disks_due(SLOW + MAX));
    pace.seen(Duration::from_secs(5), &both, &thresholds);
    assert!(pace.disks_due(SLOW + MAX));
}

proptest! {
    #[test]
    fn within_its_bounds(steps in proptest::collection::vec((0..20_000_u64, any::<u64>(), proptest::sample::select(Signal::iter().collect::<Vec<_>>())), 1..30)) {
        let thresholds = thresholds(&[("memory.available", "10%"), ("pid.available", "5"), ("nodefs.available", "1Ti")]);
        let mut pace = pace();
        let mut at = Duration::ZERO;
        for (millis, available, signal) in steps {
            at += Duration::from_millis(millis);
            let wait = pace.seen(at, &read(signal, available), &thresholds);
            prop_assert!((MIN..=MAX).contains(&wait), "{wait:?}");
        }
    }

    /// Who starts to allocate at any moment, at up to twice the speed that is always expected, is seen at most one
    /// shortest interval after the threshold is crossed.
    #[test]
    fn nobody_crosses_unseen(distance in 1..64 * GI, speed in 1..4 * GI, idle in 0..30_000_000_u64) {
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
