//! Random rounds: images are pulled, used and released, and removals fail; no image in use is ever removed.

use proptest::prelude::*;

use crate::fixture::{CAPACITY, Fixture, MB, State, settings};

/// What happens before each removal of a round, and which images are held.
#[derive(Debug, Clone)]
struct Round {
    /// Layers and size in megabytes of each image.
    images: Vec<Vec<(u32, u64)>>,
    other: u64,
    runs: Vec<usize>,
    held: Vec<usize>,
    late: Vec<usize>,
    fails: Vec<usize>,
}

fn rounds() -> impl Strategy<Value = Round> {
    let layer = (0..12_u32).prop_map(|layer| (layer, u64::from(layer % 5) * 17 + 20));
    let images = prop::collection::vec(prop::collection::vec(layer, 1..4), 1..9);
    let some = || prop::collection::vec(0..9_usize, 0..4);
    (images, 0..900_u64, some(), some(), some(), some())
        .prop_map(|(images, other, runs, held, late, fails)| Round { images, other, runs, held, late, fails })
}

/// Plays one round. The fake runtime panics when an image with a container is removed.
async fn play(round: Round) {
    let mut state = State { other: round.other * MB, ..State::default() };
    for (n, layers) in round.images.iter().enumerate() {
        state.image(&format!("i{n}"), layers);
    }
    let name = |n: &usize| format!("i{n}");
    for n in &round.runs {
        state.run(&format!("c{n}"), &name(n));
    }
    state.fails = round.fails.iter().map(name).collect();
    let fixture = Fixture::new(state, &settings());
    let mut holds = Vec::new();
    for n in &round.held {
        holds.push(fixture.holds.hold(&format!("i{n}:1")).await);
    }
    let mut late = round.late.clone();
    let mut largest = 0;
    fixture.runtime.before_removal(move |state, id| {
        if let Some(n) = late.pop().filter(|n| name(n) != id) {
            state.run(&format!("late{n}"), &name(&n));
        }
    });
    let before = fixture.runtime.state().used();
    let sizes: Vec<u64> = round.images.iter().map(|l| l.iter().map(|(_, size)| size * MB).sum()).collect();
    let (steps, _taken) = tokio::sync::mpsc::unbounded_channel();
    let outcome = fixture.collector.collect(false, steps).await.unwrap();
    let state = fixture.runtime.state();
    for n in &round.held {
        assert!(!state.removed.contains(&name(n)), "{n} was held: {:?}", state.removed);
    }
    if let Some(last) = state.removed.last() {
        largest = sizes[last[1..].parse::<usize>().unwrap()];
    }
    let target = CAPACITY / 100 * 80;
    // The kubelet rounds the used percentage up.
    assert!(outcome.wanted == 0 || before > CAPACITY / 100 * 84);
    assert!(outcome.wanted > 0 || before <= CAPACITY / 100 * 85);
    if outcome.wanted == 0 {
        assert!(state.removed.is_empty());
    } else if outcome.reached {
        assert!(state.used() <= target && state.used() + largest > target, "{} {largest}", state.used());
    } else {
        let free = |n: &usize| {
            let id = name(n);
            state.images.contains_key(&id)
                && !state.uses(&id)
                && !state.fails.contains(&id)
                && !round.held.contains(n)
        };
        let left: Vec<_> = (0..round.images.len()).filter(free).collect();
        assert!(left.is_empty(), "{left:?} could have gone");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_image_in_use_is_ever_removed(round in rounds()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(play(round));
    }
}
