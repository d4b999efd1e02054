use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::fixture::{at, pod, record};
use nodewarden_eviction::NodeCondition;
use nodewarden_model::ClockReading;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn eviction(grace: Option<u64>) -> Eviction {
    Eviction {
        reason: "Evicted".into(),
        message: "The node was low on resource: memory.".into(),
        grace: grace.map(seconds),
        condition: Some(NodeCondition::MemoryPressure),
        killed: false,
    }
}

fn fresh() -> Record {
    record(&pod(json!({"containers": [{"name": "c"}]})))
}

#[test]
fn a_shorter_grace_cuts_a_longer_one_and_never_the_other_way_round() {
    let mut record = fresh();
    // Never longer than its own.
    assert_eq!(record.evict(&eviction(Some(90)), seconds(30), false, at(100)), EndingChange::Started);
    assert_eq!((record.due(), record.left(at(110))), (Some(at(130)), seconds(20)));
    assert_eq!(record.evict(&eviction(Some(60)), seconds(30), false, at(110)), EndingChange::Unchanged);
    assert_eq!(record.evict(&eviction(None), seconds(30), false, at(110)), EndingChange::Unchanged);
    assert_eq!(record.evict(&eviction(Some(5)), seconds(30), false, at(110)), EndingChange::Shortened);
    assert_eq!(record.left(at(110)), seconds(5));
    assert_eq!(record.evict(&eviction(Some(0)), seconds(30), false, at(111)), EndingChange::Shortened);
    assert_eq!((record.due(), record.left(at(111))), (Some(at(111)), Duration::ZERO));
    assert_eq!(record.evicted().unwrap().times, 1);
    // The manifest goes: it has no more time for that.
    record.ending = Some(Ending { since: at(111), grace_seconds: 30, why: "its manifest is gone".into() });
    assert_eq!(record.left(at(111)), Duration::ZERO);
}

#[test]
fn a_pod_that_ends_for_good_has_less_time_and_is_not_evicted() {
    let mut record = fresh();
    record.ending = Some(Ending { since: at(100), grace_seconds: 600, why: "its manifest is gone".into() });
    assert_eq!(record.evict(&eviction(None), seconds(600), false, at(110)), EndingChange::Unchanged);
    assert_eq!(record.evict(&eviction(Some(10)), seconds(600), false, at(110)), EndingChange::Shortened);
    assert_eq!(record.left(at(110)), seconds(10));
    assert_eq!(record.evict(&eviction(Some(0)), seconds(600), false, at(112)), EndingChange::Shortened);
    assert_eq!(record.left(at(112)), Duration::ZERO);
    assert_eq!(record.evicted(), None);
}

#[test]
fn a_clock_that_goes_back_gives_no_more_time() {
    let mut record = fresh();
    record.evict(&eviction(Some(20)), seconds(30), false, at(1000));
    assert_eq!(record.left(at(0)), seconds(20));
    record.note_gone(at(1000));
    let away = record.evicted().unwrap().restart_delay(&EvictionSettings::default(), at(0));
    assert_eq!(away, Some(seconds(10)));
}

/// The clocks after so many seconds, the wall clock set by `step` seconds.
fn clocks(seconds: i64, step: i64) -> ClockReading {
    let boot_ns = (seconds + 500) as u64 * 1_000_000_000;
    ClockReading { wall: at(seconds + step), boot_id: "a".into(), boot_ns }
}

/// Written to the disk and read by the next agent.
fn restarted(record: &Record) -> Record {
    serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap()
}

#[test]
fn a_clock_that_is_set_changes_neither_grace_nor_back_off() {
    const DAY: i64 = 86_400;
    let settings = EvictionSettings::default();
    let back_off = settings.back_off.as_secs() as i64;
    for step in [0, DAY, -DAY] {
        let mut record = fresh();
        record.align(&clocks(1000, 0));
        record.evict(&eviction(Some(20)), seconds(30), false, at(1000));
        // The clock is set, and another agent goes on.
        let mut record = restarted(&record);
        let now = clocks(1005, step);
        record.align(&now);
        assert_eq!(record.left(now.wall), seconds(15), "{step}");
        assert_eq!(record.due(), Some(at(1020 + step)), "as the clock shows it now");
        record.note_gone(at(1010 + step));
        // The clock is set back to what it was.
        let mut record = restarted(&record);
        let now = clocks(1010 + back_off / 2, 0);
        record.align(&now);
        let wait = record.evicted().unwrap().restart_delay(&settings, now.wall);
        assert_eq!(wait, Some(seconds((back_off - back_off / 2) as u64)), "{step}");
        record.restart(at(2000));
        record.align(&clocks(2000 + 599, step));
        record.evict(&eviction(None), seconds(1), false, at(2000 + 599 + step));
        assert_eq!(record.evicted().unwrap().times, 2, "{step}: evicted again within ten minutes");
    }
}

#[test]
fn a_clock_that_is_set_does_not_change_the_time_that_a_removed_pod_has() {
    for step in [86_400, -86_400] {
        let mut record = fresh();
        record.align(&clocks(0, 0));
        record.end(Ending { since: at(0), grace_seconds: 30, why: "its manifest is gone".into() });
        let mut record = restarted(&record);
        record.align(&clocks(10, step));
        assert_eq!(record.left(at(10 + step)), seconds(20), "{step}");
    }
}

#[test]
fn a_record_without_the_clocks_is_taken_as_it_is() {
    let mut record = fresh();
    record.end(Ending { since: at(0), grace_seconds: 30, why: "its manifest is gone".into() });
    let mut record = restarted(&record);
    assert_eq!(record.clock, None);
    record.align(&clocks(10, 0));
    assert_eq!(record.left(at(10)), seconds(20));
}

#[test]
fn the_back_off_doubles_and_is_reset_after_ten_minutes_without_eviction() {
    let settings = EvictionSettings::default();
    let mut record = fresh();
    let mut now = 0;
    let mut away = |record: &mut Record, quiet: i64| {
        now += quiet;
        assert_eq!(record.evict(&eviction(Some(0)), seconds(30), false, at(now)), EndingChange::Started);
        assert_eq!(record.evicted().unwrap().restart_delay(&settings, at(now)), None);
        now += 7;
        assert!(record.note_gone(at(now)) && !record.note_gone(at(now + 1)));
        assert_eq!(record.evict(&eviction(Some(0)), seconds(30), false, at(now)), EndingChange::Unchanged);
        let away = record.evicted().unwrap().restart_delay(&settings, at(now)).unwrap();
        now += i64::try_from(away.as_secs()).unwrap();
        assert_eq!(record.evicted().unwrap().restart_delay(&settings, at(now)), Some(Duration::ZERO));
        record.restart(at(now));
        assert!(!record.is_leaving() && record.due().is_none());
        away.as_secs()
    };
    let waits = [1, 1, 1, 599, 1, 1, 1, 600, 1].map(|quiet| away(&mut record, quiet));
    assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300, 10, 20]);
}

#[test]
fn a_pod_that_had_finished_or_may_not_restart_has_no_delay() {
    let settings = EvictionSettings::default();
    for (finished, restart_evicted) in [(true, true), (false, false)] {
        let mut record = fresh();
        record.evict(&eviction(Some(0)), seconds(30), finished, at(0));
        record.note_gone(at(1));
        let settings = EvictionSettings { restart_evicted, ..settings.clone() };
        let evicted = record.evicted().unwrap();
        assert_eq!((evicted.restart_delay(&settings, at(9999)), evicted.has_failed()), (None, !finished));
    }
}

#[test]
fn an_eviction_is_written_and_read_as_json() {
    let mut record = fresh();
    let pids = Eviction { condition: Some(NodeCondition::PidPressure), ..eviction(Some(0)) };
    record.evict(&pids, seconds(30), false, at(0));
    let mut saved = serde_json::to_value(&record).unwrap();
    assert_eq!(saved["eviction"]["condition"], "PIDPressure");
    assert_eq!(serde_json::from_value::<Record>(saved.clone()).unwrap(), record);
    saved["eviction"]["condition"] = json!("SwapPressure");
    assert_eq!(serde_json::from_value::<Record>(saved).unwrap().evicted().unwrap().condition, None);
    // Most pods have none, and so had all of earlier agents.
    assert!(serde_json::to_value(fresh()).unwrap().get("eviction").is_none());
}

/// What happens to a pod and to the agent.
#[derive(Debug, Clone)]
enum Step {
    Evict {
        grace: Option<u64>,
        own: u64,
        condition: Option<NodeCondition>,
        finished: bool,
    },
    Removed {
        grace: u64,
    },
    Gone,
    /// Time for it to come back, with the node pressed or not.
    Look {
        pressed: bool,
    },
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let condition = prop::option::of(prop::sample::select(NodeCondition::ALL.to_vec()));
    prop_oneof![
        4 => (prop::option::of(0_u64..60), 0_u64..60, condition, prop::bool::weighted(0.1)).prop_map(
            |(grace, own, condition, finished)| Step::Evict { grace, own, condition, finished }
        ),
        1 => (0_u64..60).prop_map(|grace| Step::Removed { grace }),
        4 => Just(Step::Gone),
        4 => any::<bool>().prop_map(|pressed| Step::Look { pressed }),
        4 => (0_i64..400).prop_map(Step::Pass),
    ]
}

proptest! {
    /// The agent dies after every step.
    #[test]
    fn evictions_at_any_moment(steps in prop::collection::vec(step(), 0..60)) {
        let settings = EvictionSettings::default();
        let mut record = fresh();
        let mut now = 0;
        for step in steps {
            let before = record.clone();
            match step {
                Step::Evict { grace, own, condition, finished } => {
                    let order = Eviction { condition, ..eviction(grace) };
                    let taken = record.evict(&order, seconds(own), finished, at(now));
                    prop_assert!(record.is_leaving());
                    prop_assert_eq!(taken == EndingChange::Started, !before.is_leaving());
                    prop_assert_eq!(taken == EndingChange::Shortened, before.due() > record.due() && before.is_leaving());
                    if let (Some(old), Some(new)) = (before.due(), record.due()) {
                        prop_assert!(new <= old, "it got more time");
                    }
                    let under_way = record.evicted().is_none_or(|evicted| evicted.gone.is_none());
                    if under_way {
                        let given = grace.map_or(own, |longest| longest.min(own));
                        prop_assert!(record.left(at(now)) <= seconds(given));
                    }
                }
                Step::Removed { grace } => {
                    let ending = Ending { since: at(now), grace_seconds: grace, why: "gone".into() };
                    record.ending.get_or_insert(ending);
                }
                Step::Gone => {
                    let news = record.note_gone(at(now));
                    prop_assert_eq!(news, before.evicted().is_some_and(|evicted| evicted.gone.is_none()));
                }
                Step::Look { pressed } => {
                    let evicted = record.evicted().cloned();
                    let due = evicted.as_ref().and_then(|evicted| evicted.restart_delay(&settings, at(now)));
                    let held = pressed && evicted.as_ref().is_some_and(|evicted| evicted.condition.is_some());
                    if let Some(evicted) = evicted
                        && due == Some(Duration::ZERO)
                        && !held
                        && record.ending.is_none()
                    {
                        prop_assert!(!evicted.finished);
                        let away = between(evicted.gone.unwrap(), at(now));
                        let back_off = 10_u64.saturating_mul(1 << (evicted.times - 1).min(10)).min(300);
                        prop_assert!(away >= seconds(back_off), "back after {away:?}");
                        record.restart(at(now));
                        prop_assert!(!record.is_leaving() && record.containers.is_empty());
                    }
                }
                Step::Pass(seconds) => now += seconds,
            }
            prop_assert!(before.ending.is_none() || record.ending.is_some(), "an end is for good");
            let next: Record = serde_json::from_value(serde_json::to_value(&record).unwrap()).unwrap();
            prop_assert_eq!(&next, &record);
            record = next;
        }
    }
}

/// A kubelet's graceful node shutdown: pods of a group get the group's time, or their own if it is shorter.
mod golden {
    use nodewarden_testing::golden;
    use serde_json::Value;

    use super::*;

    #[test]
    fn pods_of_a_shutdown_get_the_kubelets_grace() {
        let Some(recording) = golden::load("resource_managers/shutdown.json") else { return };
        let mut compared = 0;
        for case in recording["cases"].as_array().unwrap() {
            let list = |key: &str| case[key].as_array().cloned().unwrap_or_default();
            let own = |uid: &str| {
                let pods = list("pods");
                let pod = pods.iter().find(|pod| pod["uid"] == uid).unwrap();
                // Where a pod names none, the recording has the group's; behind an API server every pod names
                // one.
                pod.get("termination_grace_period_s").and_then(Value::as_u64).unwrap_or(u64::from(u32::MAX))
            };
            let groups = list("groups");
            let with_pods =
                groups.iter().filter(|group| group["pods"].as_array().is_some_and(|p| !p.is_empty()));
            for (group, killed) in with_pods.zip(list("killed_in_order_with_grace_s")) {
                for (uid, expected) in killed.as_object().unwrap() {
                    let mut record = fresh();
                    let order = eviction(group["seconds"].as_u64());
                    record.evict(&order, seconds(own(uid)), false, at(100));
                    assert_eq!(record.left(at(100)), seconds(expected.as_u64().unwrap()), "{uid} of {case}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 0 || !golden::are_our_own());
    }
}
