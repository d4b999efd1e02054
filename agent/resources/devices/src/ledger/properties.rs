//! Random histories: plugins that register, die, come back and lie; pods that are planned, reserved, allocated, fail, end
//! and are started anew; agents that die and start from their checkpoint or from what the runtime knows. After every step
//! the ledger is compared with a model that knows only what was said to it and what it answered.

mod model;
mod steps;

use proptest::prelude::*;

use model::World;
use steps::{Step, step};

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn no_device_is_given_twice_and_none_is_lost(history in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in &history {
            world.take(step);
            world.check();
        }
        world.end();
    }
}

/// What a history is worth depends on what happens in it: each kind of outcome is met often enough.
#[test]
fn histories_meet_what_they_are_for() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut met = model::Met::default();
    for _ in 0..500 {
        let history = prop::collection::vec(step(), 1..60).new_tree(&mut runner).unwrap().current();
        let mut world = World::new();
        history.iter().for_each(|step: &Step| {
            world.take(step);
            world.check();
        });
        met.add(&world.met);
    }
    for (what, times) in met.all() {
        println!("{what}: {times}");
        assert!(times >= 20, "{what}: {times} times in 500 histories");
    }
}
