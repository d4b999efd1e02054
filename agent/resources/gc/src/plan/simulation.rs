//! Random nodes whose images share layers, on a simulated file system to which others write: runs that read
//! everything again before each removal, and whose removals may fail. No image in use is ever removed, the
//! order is kept, and a run neither removes more than it needs by more than its last image, nor stops early
//! while something may be removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use nodewarden_model::{FsUse, GcSettings, ImageSeen, Used};
use proptest::prelude::*;

use super::images::keep;
use super::{Goal, ImageFacts, images, reached, wanted};
use crate::users::Users;
use crate::uses::Uses;

const CAPACITY: u64 = 10_000;
const LAYERS: usize = 12;
const IMAGES: usize = 10;

/// An image and its history.
#[derive(Debug, Clone)]
struct ImageState {
    layers: BTreeSet<usize>,
    pinned: bool,
    /// Seconds before the run.
    detected: i64,
    used: Option<i64>,
    user: Option<Used>,
}

/// What happens before the run's next removal.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Bytes that others write.
    written: u64,
    /// An image that a container uses from now on.
    starts: Option<usize>,
    /// The removal fails.
    fails: bool,
}

#[derive(Debug, Clone)]
struct Scenario {
    layers: Vec<u64>,
    images: Vec<ImageState>,
    /// Bytes of other data.
    other: u64,
    steps: Vec<Step>,
    settings: GcSettings,
}

fn scenario(quiet: bool) -> impl Strategy<Value = Scenario> {
    let user = || prop::sample::select(vec![Used::Container, Used::Sandbox, Used::Pinned, Used::Manifest]);
    let image_state = (
        prop::collection::btree_set(0..LAYERS, 1..5),
        prop::bool::weighted(0.05),
        0..2000i64,
        prop::option::of(0..2000i64),
        prop::option::weighted(0.3, user()),
    )
        .prop_map(|(layers, pinned, detected, used, user)| ImageState {
            layers,
            pinned,
            detected,
            // Never used before its detection.
            used: used.map(|used| used.min(detected)),
            user,
        });
    let step = match quiet {
        true => Just(Step { written: 0, starts: None, fails: false }).boxed(),
        false => (
            prop_oneof![Just(0), 0..300u64],
            prop::option::weighted(0.2, 0..IMAGES),
            prop::bool::weighted(0.2),
        )
            .prop_map(|(written, starts, fails)| Step { written, starts, fails })
            .boxed(),
    };
    let percents = (0..99u8).prop_flat_map(|low| (Just(low), low + 1..100));
    (
        prop::collection::vec(1..1500u64, LAYERS),
        prop::collection::vec(image_state, 1..IMAGES),
        0..CAPACITY,
        prop::collection::vec(step, IMAGES),
        prop_oneof![2 => Just((80, 85)), 1 => percents],
        0..600u64,
    )
        .prop_map(|(layers, images, other, steps, (low_percent, high_percent), min_age)| Scenario {
            layers,
            images,
            other,
            steps,
            settings: GcSettings {
                low_percent,
                high_percent,
                min_age: std::time::Duration::from_secs(min_age),
                ..GcSettings::default()
            },
        })
}

/// The simulated node.
struct Simulation {
    scenario: Scenario,
    present: BTreeSet<usize>,
    users: BTreeMap<usize, Used>,
    written: u64,
    now: i64,
    /// When the run made its plan: images that become old enough later belong to the next run.
    planned: i64,
    uses: Uses,
    began: Timestamp,
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

fn id(image: usize) -> String {
    format!("sha256:{image:02}")
}

impl Simulation {
    fn new(scenario: Scenario) -> Self {
        let mut uses = Uses::default();
        let mut past: Vec<i64> =
            scenario.images.iter().flat_map(|i| [Some(i.detected), i.used]).flatten().collect();
        past.sort_unstable();
        for before in past.into_iter().rev() {
            let which = |test: &dyn Fn(&ImageState) -> bool| -> Vec<usize> {
                (0..scenario.images.len()).filter(|i| test(&scenario.images[*i])).collect()
            };
            let present = which(&|image_state| image_state.detected >= before);
            let seen: Vec<_> = present.iter().map(|i| seen(&scenario, *i)).collect();
            let used = which(&|image_state| image_state.used == Some(before));
            uses.detect(&seen, &users(used.into_iter().map(|i| (i, Used::Container))), at(-before));
        }
        let users = scenario
            .images
            .iter()
            .enumerate()
            .filter_map(|(i, image_state)| Some((i, image_state.user?)))
            .collect();
        let present = (0..scenario.images.len()).collect();
        Self { scenario, present, users, written: 0, now: 1, planned: 1, uses, began: at(1) }
    }

    /// A layer takes space as long as one image has it.
    fn fs(&self) -> FsUse {
        let layers: BTreeSet<usize> =
            self.present.iter().flat_map(|i| self.scenario.images[*i].layers.iter().copied()).collect();
        let used =
            layers.iter().map(|l| self.scenario.layers[*l]).sum::<u64>() + self.scenario.other + self.written;
        FsUse {
            path: PathBuf::from("/images"),
            device: 1,
            capacity: CAPACITY,
            available: CAPACITY.saturating_sub(used),
            inodes: 1,
            inodes_free: 1,
            used: None,
            inodes_used: None,
        }
    }

    fn seen(&self) -> Vec<ImageSeen> {
        self.present.iter().map(|i| seen(&self.scenario, *i)).collect()
    }

    fn users(&self) -> Users {
        users(self.users.iter().map(|(i, used)| (*i, *used)))
    }

    fn decide_with<T>(&self, decide: impl FnOnce(&ImageFacts<'_>) -> T) -> T {
        let (images, users) = (self.seen(), self.users());
        decide(&ImageFacts {
            images: &images,
            uses: &self.uses,
            users: &users,
            now: at(self.now),
            run_began: self.began,
            settings: &self.scenario.settings,
        })
    }

    /// Whether an image is in use, without the code under test.
    fn in_use(&self, image: usize) -> bool {
        self.users.contains_key(&image) || self.scenario.images[image].pinned
    }

    fn apply(&mut self, step: Step) {
        self.now += 1;
        self.written += step.written;
        if let Some(image) = step.starts.filter(|image| self.present.contains(image)) {
            self.users.insert(image, Used::Container);
        }
        let (images, users) = (self.seen(), self.users());
        self.uses.detect(&images, &users, at(self.now));
    }
}

fn seen(scenario: &Scenario, image: usize) -> ImageSeen {
    let image_state = &scenario.images[image];
    let size = image_state.layers.iter().map(|l| scenario.layers[*l]).sum();
    ImageSeen { id: id(image), names: vec![], size, pinned: image_state.pinned }
}

fn users(used: impl Iterator<Item = (usize, Used)>) -> Users {
    Users(used.map(|(image, used)| (id(image), (used, vec![]))).collect())
}

/// The result of a run.
#[derive(Debug, Default)]
struct Outcome {
    removed: Vec<usize>,
    failed: BTreeSet<usize>,
}

/// One run: plans once, and reads the file system, the users and the times again before each removal.
fn run(simulation: &mut Simulation, goal: Goal) -> Result<Outcome, TestCaseError> {
    simulation.apply(Step { written: 0, starts: None, fails: false });
    simulation.planned = simulation.now;
    let plan = simulation.decide_with(|facts| images(facts, goal));
    let mut outcome = Outcome::default();
    let steps = simulation.scenario.steps.clone();
    for (next, step) in plan.remove.iter().zip(steps.into_iter().cycle()) {
        if matches!(goal, Goal::Threshold { .. }) && reached(&simulation.fs(), &simulation.scenario.settings)
        {
            break;
        }
        simulation.apply(step);
        let image = (0..simulation.scenario.images.len()).find(|i| id(*i) == *next).expect("one of them");
        let again = simulation.decide_with(|facts| keep(facts, goal, &seen(&simulation.scenario, image)));
        prop_assert_eq!(again.is_some(), simulation.in_use(image), "{:?}", again);
        if again.is_some() {
            continue;
        }
        if step.fails {
            outcome.failed.insert(image);
            continue;
        }
        prop_assert!(!simulation.in_use(image));
        simulation.present.remove(&image);
        simulation.uses.forget(next);
        outcome.removed.push(image);
    }
    Ok(outcome)
}

/// The image's rank by last use and detection, lowest first, without the code under test.
fn rank(image_state: &ImageState) -> (i64, i64) {
    (image_state.used.map_or(i64::MIN, |before| -before), -image_state.detected)
}

fn may_go(simulation: &Simulation, image: usize) -> bool {
    let image_state = &simulation.scenario.images[image];
    let age = simulation.planned + image_state.detected;
    simulation.present.contains(&image)
        && !simulation.in_use(image)
        && age >= i64::try_from(simulation.scenario.settings.min_age.as_secs()).unwrap_or(i64::MAX)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever happens during the run.
    #[test]
    fn runs_keep_the_order_and_free_neither_too_little_nor_too_much(scenario in scenario(false)) {
        let mut simulation = Simulation::new(scenario);
        let before = simulation.fs();
        let wanted = wanted(&before, &simulation.scenario.settings).unwrap();
        let outcome = run(&mut simulation, Goal::Threshold { wanted })?;
        prop_assert!(wanted > 0 || outcome.removed.is_empty());
        let ranks: Vec<_> = outcome.removed.iter().map(|i| rank(&simulation.scenario.images[*i])).collect();
        prop_assert!(ranks.is_sorted(), "{:?}", ranks);
        let done = reached(&simulation.fs(), &simulation.scenario.settings);
        // Too little is only freed if nothing is left that may be removed and could be.
        let left = |i: &usize| may_go(&simulation, *i) && !outcome.failed.contains(i);
        let open: Vec<_> = (0..simulation.scenario.images.len()).filter(left).collect();
        prop_assert!(done || wanted == 0 || open.is_empty(), "{:?}", open);
        // Without the last removal it would not have been enough.
        if let Some(last) = outcome.removed.last() {
            simulation.present.insert(*last);
            prop_assert!(!reached(&simulation.fs(), &simulation.scenario.settings));
        }
    }

    /// Without other changes the run removes exactly the shortest prefix of the order that is enough.
    #[test]
    fn without_other_changes_exactly_as_many_as_needed_are_removed(scenario in scenario(true)) {
        let mut simulation = Simulation::new(scenario.clone());
        simulation.planned = simulation.now + 1;
        let mut candidates: Vec<usize> = (0..scenario.images.len()).filter(|i| may_go(&simulation, *i)).collect();
        candidates.sort_by_key(|i| (rank(&scenario.images[*i]), *i));
        let wanted = wanted(&simulation.fs(), &scenario.settings).unwrap();
        let mut expected = Vec::new();
        let mut model = Simulation::new(scenario.clone());
        for image in candidates {
            let low = CAPACITY * u64::from(100 - scenario.settings.low_percent) / 100;
            if wanted == 0 || model.fs().available >= low {
                break;
            }
            model.present.remove(&image);
            expected.push(image);
        }
        let mut simulation = Simulation::new(scenario);
        let outcome = run(&mut simulation, Goal::Threshold { wanted })?;
        prop_assert_eq!(outcome.removed, expected);
    }

    /// Everything unused that is not young is removed, whatever is free, and nothing else.
    #[test]
    fn all_unused_images_are_removed(scenario in scenario(false)) {
        let mut simulation = Simulation::new(scenario);
        let outcome = run(&mut simulation, Goal::All)?;
        let left: Vec<_> = (0..simulation.scenario.images.len()).filter(|i| may_go(&simulation, *i)).collect();
        // An image that could not be removed may have been used since.
        let failed: Vec<_> = outcome.failed.into_iter().filter(|i| !simulation.in_use(*i)).collect();
        prop_assert_eq!(left, failed);
    }
}

/// Scenarios are only useful if much happens in them: runs that stop at the target, that free too little,
/// that share layers, failures, and images that come into use must all occur often.
#[test]
fn random_scenarios_reach_every_kind_of_outcome() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut coverage: BTreeMap<&str, u32> = BTreeMap::new();
    for _ in 0..500 {
        let scenario = scenario(false).new_tree(&mut runner).unwrap().current();
        let mut simulation = Simulation::new(scenario);
        let wanted = wanted(&simulation.fs(), &simulation.scenario.settings).unwrap();
        let users = simulation.users.len();
        let full = simulation.fs().available;
        let outcome = run(&mut simulation, Goal::Threshold { wanted }).unwrap();
        let sizes: u64 = outcome.removed.iter().map(|i| seen(&simulation.scenario, *i).size).sum();
        let freed = (simulation.fs().available + simulation.written).saturating_sub(full);
        let done = reached(&simulation.fs(), &simulation.scenario.settings);
        for (what, is) in [
            ("nothing wanted", wanted == 0),
            ("reached", wanted > 0 && done && !outcome.removed.is_empty()),
            ("too little", wanted > 0 && !done),
            ("several removed", outcome.removed.len() > 2),
            ("layers shared with what stays", !outcome.removed.is_empty() && freed < sizes),
            ("failures", !outcome.failed.is_empty()),
            ("used meanwhile", simulation.users.len() > users),
        ] {
            *coverage.entry(what).or_default() += u32::from(is);
        }
    }
    for (what, times) in coverage {
        println!("{what}: {times}");
        assert!(times >= 20, "{what}: {times} times in 500 scenarios");
    }
}
