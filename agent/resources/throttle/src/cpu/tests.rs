use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const BOUND: u64 = 50_000_000;
const BASE: u64 = 10;
const MOST: u64 = 300;

fn control(idle: bool) -> Control {
    let hold = ReleaseDelay::new(Duration::from_secs(BASE), Duration::from_secs(MOST));
    Control::new(ladder(idle, 2000, 50), Duration::from_nanos(BOUND), 50, hold)
}

fn seen(second: u64, waited: u64, best_effort_milli: u64) -> Reading {
    Reading { at: SECOND * second as u32, waited, best_effort_milli }
}

#[test]
fn the_steps_halve_the_quota_down_to_the_minimum() {
    let quotas =
        |all: &[u64]| all.iter().map(|milli| LadderStep::Quota { milli: *milli }).collect::<Vec<_>>();
    assert_eq!(ladder(false, 2000, 50), quotas(&[1000, 500, 250, 125, 62, 50]));
    assert_eq!(ladder(true, 2000, 600)[..], [&[LadderStep::Idle][..], &quotas(&[1000, 600])].concat());
    assert_eq!(ladder(false, 1, 50), quotas(&[50]));
    assert_eq!(ladder(false, 0, 0), quotas(&[1]));
}

#[test]
fn two_periods_too_long_are_a_step_and_one_is_none() {
    let mut c = control(true);
    assert_eq!(c.update(seen(1, BOUND + 1, 1900)), None);
    assert_eq!(c.update(seen(2, BOUND, 1900)), None);
    assert_eq!(c.update(seen(3, BOUND + 1, 1900)), None);
    assert_eq!(c.update(seen(4, BOUND + 1, 1900)), Some(1));
    assert_eq!(c.in_force(), (true, None));
    // Each step is given time to show an effect.
    assert_eq!(c.update(seen(5, BOUND + 1, 1900)), None);
    assert_eq!(c.update(seen(6, BOUND + 1, 1900)), Some(2));
    assert_eq!(c.in_force(), (true, Some(1000)));
}

#[test]
fn steps_that_take_nothing_away_are_left_out() {
    let mut c = control(false);
    c.update(seen(1, BOUND * 2, 300));
    assert_eq!(c.update(seen(2, BOUND * 2, 300)), Some(3));
    assert_eq!(c.in_force(), (false, Some(250)));
}

#[test]
fn an_idle_best_effort_level_is_not_throttled() {
    let mut c = control(true);
    for second in 0..100 {
        assert_eq!(c.update(seen(second, BOUND * 10, 49)), None);
    }
}

#[test]
fn the_last_step_is_the_last() {
    let mut c = control(true);
    for second in 0..100 {
        c.update(seen(second, BOUND * 10, 2000));
    }
    assert_eq!((c.step(), c.in_force()), (c.ladder().len(), (true, Some(50))));
}

#[test]
fn it_is_released_step_by_step_and_at_once_when_the_load_is_over() {
    let squeezed = || {
        let mut c = control(true);
        let steps = (0..6).filter_map(|second| c.update(seen(second, BOUND * 2, 2000)));
        assert_eq!(steps.collect::<Vec<_>>(), [1, 2, 3]);
        c
    };
    let mut c = squeezed();
    // Less than the bound is not yet calm.
    assert!((6..100).all(|second| c.update(seen(second, BOUND / 2 + 1, 500)).is_none()));
    assert!((100..110).all(|second| c.update(seen(second, BOUND / 2, 500)).is_none()));
    assert_eq!(c.update(seen(110, BOUND / 2, 500)), Some(2));
    let later: Vec<_> = (111..130).filter_map(|s| Some((s, c.update(seen(s, 0, 1000))?))).collect();
    assert_eq!(later, [(115, 1), (120, 0)], "faster from then on");

    let mut c = squeezed();
    let over: Vec<_> = (6..100).filter_map(|s| Some((s, c.update(seen(s, 0, 10))?))).collect();
    assert_eq!(over, [(16, 0)]);
}

#[test]
fn throttling_ends_when_best_effort_is_not_the_cause_of_the_wait() {
    let mut c = control(true);
    let mut steps = (0..6).filter_map(|second| c.update(seen(second, BOUND * 2, 2000)));
    assert_eq!(steps.by_ref().last(), Some(3));
    let over: Vec<_> = (6..100).filter_map(|s| Some((s, c.update(seen(s, BOUND * 2, 10))?))).collect();
    assert_eq!(over, [(16, 0)]);
}

/// A machine that always does the same: what is waited and used at each step, both falling.
#[derive(Debug, Clone)]
struct Plant {
    waited: Vec<u64>,
    demand_milli: u64,
}

impl Plant {
    fn seen(&self, second: u64, c: &Control) -> Reading {
        let milli = c.in_force().1.map_or(self.demand_milli, |quota| quota.min(self.demand_milli));
        seen(second, self.waited[c.step()], milli)
    }
}

fn plants() -> impl Strategy<Value = Plant> {
    (prop::collection::vec(0..BOUND * 4, 8), 0..2000u64).prop_map(|(mut waited, demand_milli)| {
        waited.sort_unstable_by(|a, b| b.cmp(a));
        Plant { waited, demand_milli }
    })
}

/// CPUs went offline or came back.
#[test]
fn other_cpus_are_another_ladder_and_the_step_stays() {
    let hold = ReleaseDelay::new(Duration::from_secs(BASE), Duration::from_secs(MOST));
    let mut c = Control::new(ladder(true, 8000, 500), Duration::from_secs(1), 500, hold);
    c.step = c.ladder().len();
    assert_eq!((c.step(), c.in_force()), (5, (true, Some(500))));
    c.step = 2;
    c.set_ladder(ladder(true, 4000, 500));
    assert_eq!((c.step(), c.in_force()), (2, (true, Some(2000))));
    // There are fewer steps than are in force.
    c.step = 4;
    c.set_ladder(ladder(true, 1000, 500));
    assert_eq!((c.step(), c.in_force()), (2, (true, Some(500))));
}

proptest! {
    /// Under a load that does not change, releases that fail become rare: no more than doubling allows.
    #[test]
    fn it_never_oscillates(plant in plants(), idle: bool) {
        const SECONDS: u64 = 20_000;
        let mut c = control(idle);
        let (mut turns_up, mut falling) = (0u64, false);
        for second in 0..SECONDS {
            let before = c.step();
            if let Some(to) = c.update(plant.seen(second, &c)) {
                prop_assert!(to != before && to <= c.ladder().len());
                turns_up += u64::from(falling && to > before);
                falling = to < before;
            }
        }
        let doublings = (MOST / BASE).ilog2() as u64 + 1;
        prop_assert!(turns_up <= doublings + SECONDS / MOST + 1, "{turns_up} times back up");
    }

    /// It throttles only while a pod waits longer than the bound, and always ends throttling when none does.
    #[test]
    fn it_begins_only_above_the_bound_and_always_ends(
        noise in prop::collection::vec((0..BOUND * 3, 0..2000u64), 0..400),
        after in 0..2000u64,
        idle: bool,
    ) {
        let mut c = control(idle);
        let mut second = 0;
        for (waited, milli) in noise {
            let before = c.step();
            second += 1;
            let to = c.update(seen(second, waited, milli));
            prop_assert!(to.is_none_or(|to| to < before) || waited > BOUND);
        }
        for _ in 0..MOST + 100 {
            second += 1;
            c.update(seen(second, 0, after));
        }
        prop_assert_eq!(c.step(), 0);
    }
}
