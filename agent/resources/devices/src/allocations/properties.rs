//! Random histories: plugins that register, stop, register again and send wrong lists; pods that are planned,
//! reserved, allocated, fail, end and start again; agents that are killed and start from their checkpoint or
//! from what the runtime knows. After every step the allocations are compared with a model that knows only
//! the inputs and the results.

mod model;
mod steps;

use proptest::prelude::*;

use model::Model;
use steps::{Step, step};

/// How many histories a run makes; others each time.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(500)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn no_device_is_allocated_twice_and_none_is_lost(history in prop::collection::vec(step(), 1..60)) {
        let mut model = Model::new();
        for step in &history {
            model.apply(step);
            model.check();
        }
        model.end();
    }
}

/// A history is only useful if much happens in it: each kind of outcome must occur often enough.
#[test]
fn random_histories_reach_every_kind_of_outcome() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut coverage = model::Coverage::default();
    for _ in 0..500 {
        let history = prop::collection::vec(step(), 1..60).new_tree(&mut runner).unwrap().current();
        let mut model = Model::new();
        history.iter().for_each(|step: &Step| {
            model.apply(step);
            model.check();
        });
        coverage.add(&model.coverage);
    }
    for (what, times) in coverage.all() {
        println!("{what}: {times}");
        assert!(times >= 20, "{what}: {times} times in 500 histories");
    }
}
