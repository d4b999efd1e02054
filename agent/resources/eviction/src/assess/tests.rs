//! Thresholds, grace periods, minimum reclaim and conditions step by step, and properties of every sequence.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strum::IntoEnumIterator;

use super::*;
use crate::DiskLayout;
use nodewarden_config::{EvictionTexts, parse_thresholds};
use nodewarden_model::ClockReading;

const GI: u64 = 1 << 30;
const MI: u64 = 1 << 20;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// Hard thresholds, soft ones with their grace, and least amounts to reclaim.
fn settings(
    hard: &[(&str, &str)],
    soft: &[(&str, &str, &str)],
    reclaim: &[(&str, &str)],
) -> EvictionSettings {
    let texts = EvictionTexts {
        hard: map(hard),
        soft: soft.iter().map(|(signal, value, _)| ((*signal).into(), (*value).into())).collect(),
        soft_grace: soft.iter().map(|(signal, _, grace)| ((*signal).into(), (*grace).into())).collect(),
        minimum_reclaim: map(reclaim),
    };
    EvictionSettings { thresholds: parse_thresholds(&texts, false).unwrap(), ..EvictionSettings::default() }
}

fn read(pairs: &[(Signal, u64, u64)]) -> Observations {
    pairs
        .iter()
        .map(|(s, available, capacity)| (*s, Observed { available: *available, capacity: *capacity }))
        .collect()
}

fn memory(available: u64) -> Observations {
    read(&[(Signal::MemoryAvailable, available, 16 * GI)])
}

fn due(assessment: &Assessment) -> Vec<(&'static str, bool)> {
    assessment.due.iter().map(|due| (due.threshold.signal.name(), due.threshold.is_hard())).collect()
}

/// Assesses readings one after the other, with the state serialized in between as across a restart of the
/// agent.
struct Sequence {
    settings: EvictionSettings,
    state: ThresholdState,
}

impl Sequence {
    fn new(settings: EvictionSettings) -> Self {
        Self { settings, state: ThresholdState::default() }
    }

    fn step(&mut self, seconds: i64, observations: &Observations) -> Assessment {
        let assessment = assess(&self.settings, observations, &self.state, at(seconds));
        let text = serde_json::to_string(&assessment.state).unwrap();
        self.state = serde_json::from_str(&text).unwrap();
        assert_eq!(self.state, assessment.state);
        assessment
    }
}

/// GetThresholdQuantity.
#[test]
fn thresholds_as_quantities() {
    for (value, capacity, expected) in [
        ("100Mi", 16 * GI, 100 * MI),
        ("1", 16 * GI, 1),
        ("1500m", 16 * GI, 2),
        ("10%", 1000, 100),
        ("5%", 1000, 50),
        ("15%", 100, 15),
        ("0.5%", 1000, 4),
        ("20%", 0, 0),
        ("1Ei", 16 * GI, 1 << 60),
        ("99Ei", 16 * GI, i64::MAX as u64),
    ] {
        let settings = settings(&[("memory.available", value)], &[], &[]);
        assert_eq!(limit(&settings.thresholds[0].value, capacity), expected, "{value} of {capacity}");
    }
}

/// thresholdsMet, without and with the minimum reclaim of a threshold that is being acted on.
#[test]
fn thresholds_passed_with_and_without_minimum_reclaim() {
    for (value, reclaim, reclaiming, available, passed) in [
        ("1Gi", "500Mi", false, 2 * GI, false),
        ("1Gi", "500Mi", false, GI, false),
        ("1Gi", "500Mi", false, GI - 1, true),
        ("1Gi", "500Mi", true, GI, true),
        ("1Gi", "500Mi", true, GI + 500 * MI - 1, true),
        ("1Gi", "500Mi", true, GI + 500 * MI, false),
        ("50%", "25%", false, 8 * GI, false),
        ("50%", "25%", false, 8 * GI - 1, true),
        ("50%", "25%", true, 12 * GI - 1, true),
        ("50%", "25%", true, 12 * GI, false),
        ("1Gi", "0", true, GI, false),
    ] {
        let reclaim = [("memory.available", reclaim)];
        let mut sequence = Sequence::new(settings(&[("memory.available", value)], &[], &reclaim));
        if reclaiming {
            assert_eq!(due(&sequence.step(0, &memory(0))), [("memory.available", true)]);
        }
        let found = sequence.step(1, &memory(available));
        assert_eq!(!found.due.is_empty(), passed, "{value} {reclaim:?} {reclaiming} {available}");
        assert_eq!(found.seen[0].passed, passed);
        assert!(found.due.iter().all(|due| !due.is_met_by(available)));
    }
}

#[test]
fn a_soft_threshold_waits_for_its_grace_period() {
    let mut sequence =
        Sequence::new(settings(&[("memory.available", "1Gi")], &[("memory.available", "2Gi", "1m")], &[]));
    let first = sequence.step(0, &memory(GI));
    assert_eq!(due(&first), []);
    assert_eq!(first.again, Some(at(60)));
    assert!(
        first.pressure.has(NodeCondition::MemoryPressure),
        "the condition does not wait for the grace period"
    );
    let soft = &first.seen[1];
    assert_eq!(
        (soft.hard, soft.passed, soft.passed_for_ms, soft.grace_ms),
        (false, true, Some(0), Some(60_000))
    );
    assert_eq!((first.seen[0].passed, first.seen[0].grace_ms), (false, None));
    assert_eq!(due(&sequence.step(59, &memory(GI))), []);
    let over = sequence.step(60, &memory(GI));
    assert_eq!(due(&over), [("memory.available", false)]);
    assert_eq!((over.due[0].passed_since, over.due[0].limit), (at(0), 2 * GI));
    assert_eq!(over.seen[1].passed_for_ms, Some(60_000));
    // Hard before soft.
    assert_eq!(
        due(&sequence.step(61, &memory(0))),
        [("memory.available", true), ("memory.available", false)]
    );
    // Not passed for a moment: the grace period starts again.
    assert_eq!(due(&sequence.step(62, &memory(2 * GI))), []);
    assert_eq!(sequence.step(63, &memory(GI)).again, Some(at(123)));
    assert_eq!(due(&sequence.step(122, &memory(GI))), []);
    assert_eq!(due(&sequence.step(123, &memory(GI))), [("memory.available", false)]);
}

#[test]
fn memory_comes_before_processes_before_disks() {
    let names = ["imagefs.available", "memory.available", "nodefs.inodesFree", "pid.available"];
    let hard: Vec<_> =
        names.iter().map(|name| (*name, "50%")).chain([("allocatableMemory.available", "50%")]).collect();
    let soft: Vec<_> = names.iter().map(|name| (*name, "60%", "10s")).collect();
    let mut sequence = Sequence::new(settings(&hard, &soft, &[]));
    let all: Vec<_> = Signal::iter().map(|signal| (signal, 1, 100)).collect();
    assert_eq!(sequence.step(0, &read(&all)).due.len(), 5);
    let order = [
        "memory.available",
        "allocatableMemory.available",
        "pid.available",
        "nodefs.inodesFree",
        "imagefs.available",
    ];
    let hard = order.into_iter().map(|name| (name, true));
    let soft = order.into_iter().filter(|name| !name.starts_with('a')).map(|name| (name, false));
    let found = sequence.step(10, &read(&all));
    assert_eq!(due(&found), hard.chain(soft).collect::<Vec<_>>());
    assert_eq!(found.pressure.0.keys().copied().collect::<Vec<_>>(), NodeCondition::ALL);
}

#[test]
fn a_condition_outlasts_its_threshold() {
    let mut sequence =
        Sequence::new(settings(&[("memory.available", "1Gi"), ("nodefs.available", "10%")], &[], &[]));
    let disk = |available| {
        read(&[(Signal::NodeFsAvailable, available, 100), (Signal::MemoryAvailable, 2 * GI, 4 * GI)])
    };
    assert_eq!(
        sequence.step(0, &memory(0)).pressure.0,
        BTreeMap::from([(NodeCondition::MemoryPressure, at(0))])
    );
    assert_eq!(
        sequence.step(5, &memory(0)).pressure.0,
        BTreeMap::from([(NodeCondition::MemoryPressure, at(0))])
    );
    let both = sequence.step(10, &disk(9));
    assert_eq!(both.again, Some(at(305)));
    let expected =
        BTreeMap::from([(NodeCondition::MemoryPressure, at(0)), (NodeCondition::DiskPressure, at(10))]);
    assert_eq!(both.pressure.0, expected);
    assert_eq!(sequence.step(304, &disk(10)).pressure.0, expected);
    let one = sequence.step(305, &disk(10));
    assert_eq!(one.pressure.0, BTreeMap::from([(NodeCondition::DiskPressure, at(10))]));
    assert_eq!(one.again, Some(at(310)));
    let none = sequence.step(310, &disk(10));
    assert_eq!((none.pressure, none.again), (Pressure::default(), None));
    // Passed again.
    assert_eq!(
        sequence.step(400, &disk(1)).pressure.0,
        BTreeMap::from([(NodeCondition::DiskPressure, at(400))])
    );
}

/// The kubelet does not accept a period of zero, but a condition is true at least while its threshold is
/// passed.
#[test]
fn without_a_transition_period_a_condition_ends_with_its_threshold() {
    let mut settings = settings(&[("memory.available", "1Gi")], &[], &[]);
    settings.transition = Duration::ZERO;
    let mut sequence = Sequence::new(settings);
    assert!(sequence.step(0, &memory(0)).pressure.has(NodeCondition::MemoryPressure));
    assert_eq!(sequence.step(0, &memory(GI)).pressure, Pressure::default());
}

#[test]
fn a_long_gap_between_readings_restarts_the_grace_period() {
    let thresholds = settings(&[], &[("memory.available", "1Gi", "2m")], &[]);
    for (gap, expected) in [(30, 120), (60, 120), (61, 91 + 120)] {
        let mut sequence = Sequence::new(thresholds.clone());
        sequence.step(0, &memory(0));
        sequence.step(30, &memory(0));
        // Without a reading of the signal nothing is reported.
        let blind = sequence.step(30 + gap, &Observations::new());
        assert_eq!((blind.due.len(), blind.seen.len()), (0, 0));
        assert_eq!(sequence.step(30 + gap, &memory(0)).again, Some(at(expected)), "{gap}");
    }
}

/// A threshold with another value or grace period is a new one.
#[test]
fn a_changed_threshold_restarts_its_grace_period() {
    let mut sequence = Sequence::new(settings(&[], &[("memory.available", "1Gi", "1m")], &[]));
    sequence.step(0, &memory(0));
    for changed in [("memory.available", "2Gi", "1m"), ("memory.available", "2Gi", "50s")] {
        sequence.settings = settings(&[], &[changed], &[]);
        assert_eq!(sequence.step(50, &memory(0)).due, []);
    }
}

#[test]
fn a_clock_that_is_set_back_lengthens_the_grace_period() {
    let mut sequence = Sequence::new(settings(&[], &[("memory.available", "1Gi", "1m")], &[]));
    sequence.step(0, &memory(0));
    assert_eq!(sequence.step(-3600, &memory(0)).again, Some(at(-3540)));
    assert_eq!(sequence.step(-3541, &memory(0)).due, []);
    assert_eq!(sequence.step(-3540, &memory(0)).due.len(), 1);
    assert_eq!(sequence.step(-3540, &memory(GI)).again, Some(at(-3240)));
}

/// The wall clock is set by a day, and the grace period and the transition period take as long as they
/// should.
#[test]
fn a_clock_that_is_set_changes_neither_grace_nor_transition() {
    for step in [0, 86_400, -86_400] {
        let mut sequence = Sequence::new(settings(&[], &[("memory.available", "1Gi", "1m")], &[]));
        // Seconds of the clock that is not set; the wall clock is set after 30 s, and back again after 200 s.
        let mut at = |seconds: i64, available| {
            let wall = seconds + if (30..200).contains(&seconds) { step } else { 0 };
            let boot_ns = (seconds + 1000) as u64 * 1_000_000_000;
            let clocks = ClockReading { wall: at(wall), boot_id: "a".into(), boot_ns };
            sequence.state.align(&clocks);
            let found = sequence.step(wall, &memory(available));
            (found.due.len(), found.pressure.has(NodeCondition::MemoryPressure))
        };
        assert_eq!(at(0, 0), (0, true));
        assert_eq!(at(29, 0), (0, true));
        assert_eq!(at(31, 0), (0, true), "{step}");
        assert_eq!(at(59, 0), (0, true), "{step}");
        assert_eq!(at(60, 0), (1, true), "{step}");
        // The transition period is 5 minutes.
        assert_eq!(at(61, GI), (0, true), "{step}");
        assert_eq!(at(201, GI), (0, true), "{step}");
        assert_eq!(at(359, GI), (0, true), "{step}");
        assert_eq!(at(360, GI), (0, false), "{step}");
    }
}

/// UpdateContainerFsThresholds.
#[test]
fn containerfs_thresholds_follow_the_layout() {
    let settings = settings(
        &[
            ("nodefs.available", "10%"),
            ("nodefs.inodesFree", "5%"),
            ("imagefs.available", "15%"),
            ("containerfs.available", "1%"),
        ],
        &[("imagefs.inodesFree", "7%", "1m"), ("containerfs.available", "2%", "1m")],
        &[("nodefs.available", "3%")],
    );
    for (layout, expected) in [
        (DiskLayout::One, vec!["containerfs.available 10% 0 3%", "containerfs.inodesFree 5% 0 "]),
        (
            DiskLayout::ContainersOnNode,
            vec!["containerfs.available 10% 0 3%", "containerfs.inodesFree 5% 0 "],
        ),
        (DiskLayout::ImagesApart, vec!["containerfs.available 15% 0 ", "containerfs.inodesFree 7% 60 "]),
        (DiskLayout::Three, vec!["containerfs.available 1% 0 ", "containerfs.available 2% 60 "]),
    ] {
        let found = for_layout(&settings.thresholds, layout);
        let (containers, others): (Vec<_>, Vec<_>) =
            found.iter().partition(|t| t.signal.name().starts_with("containerfs"));
        assert_eq!(others.len(), 4, "{layout:?}");
        let shown: Vec<_> = containers
            .iter()
            .map(|t| {
                let reclaim = t.min_reclaim.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{} {} {} {reclaim}", t.signal.name(), t.value, t.grace.as_secs())
            })
            .collect();
        assert_eq!(shown, expected, "{layout:?}");
    }
}

proptest! {
    /// Nothing is done for a signal that was not read; a soft threshold is acted on only when it was passed
    /// throughout its grace period; a condition stays true for the transition period after its threshold was
    /// last passed.
    #[test]
    fn every_sequence_of_readings(
        steps in proptest::collection::vec((0..40i64, proptest::option::weighted(0.9, 0..40u64), proptest::option::of(0..40u64)), 1..60),
        grace in 1..90i64,
        transition in 1..200i64,
        reclaim in 0..15u64,
    ) {
        let grace_text = format!("{grace}s");
        let mut settings = settings(
            &[("memory.available", "10"), ("pid.available", "10")],
            &[("memory.available", "20", &grace_text)],
            &[("memory.available", &reclaim.to_string())],
        );
        settings.transition = Duration::from_secs(transition as u64);
        let mut sequence = Sequence::new(settings);
        // Time and what was read of memory, and since when each condition was found last.
        let mut past: Vec<(i64, u64)> = Vec::new();
        let mut last: BTreeMap<NodeCondition, i64> = BTreeMap::new();
        let (mut now, mut acting) = (0, false);
        for (wait, memory, pids) in steps {
            now += wait;
            let memory_read = memory.map(|n| (Signal::MemoryAvailable, n, 100));
            let pids_read = pids.map(|n| (Signal::PidAvailable, n, 100));
            let observations = read(&memory_read.into_iter().chain(pids_read).collect::<Vec<_>>());
            let found = sequence.step(now, &observations);
            past.extend(memory.map(|n| (now, n)));
            for due in &found.due {
                prop_assert!(observations.contains_key(&due.threshold.signal));
                prop_assert_eq!(observations[&due.threshold.signal], due.observed);
                prop_assert!(due.observed.available < due.limit + due.reclaim);
            }
            let soft = found.due.iter().any(|due| !due.threshold.is_hard());
            if soft && !acting {
                let within: Vec<_> = past.iter().rev().take_while(|(_, n)| *n < 20).collect();
                let first = within.last().expect("it was read").0;
                prop_assert!(now - first >= grace, "{} since {}", now, first);
            }
            if memory.is_some() {
                acting = soft;
            }
            // An amount within the minimum reclaim of what is being acted on counts, so `seen` says what was
            // found.
            for seen in found.seen.iter().filter(|seen| seen.passed) {
                last.insert(NodeCondition::of(Signal::parse(&seen.signal).expect("a signal")), now);
            }
            for (condition, at) in &last {
                prop_assert_eq!(found.pressure.has(*condition), now == *at || now - at < transition);
            }
            prop_assert!(found.again.is_none_or(|again| again > at(now)));
        }
    }

    /// A hard memory threshold is acted on in the same assessment, whatever was read before.
    #[test]
    fn hard_thresholds_are_acted_on_at_once(available in 0..10u64, before in proptest::collection::vec(0..40u64, 0..5)) {
        let mut sequence = Sequence::new(settings(&[("memory.available", "10")], &[("memory.available", "20", "1h")], &[]));
        for (i, available) in before.iter().enumerate() {
            sequence.step(i as i64, &memory(*available));
        }
        prop_assert_eq!(due(&sequence.step(10, &memory(available))), [("memory.available", true)]);
    }
}
