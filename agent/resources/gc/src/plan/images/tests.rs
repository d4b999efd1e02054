//! One table for each rule: what is kept and why, what is removed, in which order.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodewarden_model::{GcSettings, ImageSeen, Keep, Used};

use super::{Goal, ImageFacts, ImagePlan, images, keep};
use crate::users::Users;
use crate::uses::Uses;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

fn image(id: &str) -> ImageSeen {
    ImageSeen { id: id.to_owned(), names: vec![format!("{id}:latest")], size: 100, pinned: false }
}

/// Images that were detected and used at given times, with minimum and maximum age of 100 s and 1000 s.
struct Fixture {
    images: Vec<ImageSeen>,
    uses: Uses,
    users: Users,
    settings: GcSettings,
    now: i64,
    run_began: i64,
}

impl Fixture {
    /// Images with the seconds of their detection and last use.
    fn new(known: &[(&str, i64, Option<i64>)]) -> Self {
        let mut uses = Uses::default();
        let mut moments: Vec<i64> = known.iter().flat_map(|(_, d, u)| [Some(*d), *u]).flatten().collect();
        moments.sort_unstable();
        for moment in moments {
            let there: Vec<_> = known.iter().filter(|k| k.1 <= moment).map(|k| image(k.0)).collect();
            let used = known.iter().filter(|k| k.2 == Some(moment)).map(|k| (k.0, Used::Container));
            uses.detect(&there, &users(used), at(moment));
        }
        let settings = GcSettings {
            min_age: Duration::from_secs(100),
            max_age: Some(Duration::from_secs(1000)),
            ..GcSettings::default()
        };
        let images = known.iter().map(|k| image(k.0)).collect();
        Self { images, uses, users: Users::default(), settings, now: 10_000, run_began: 10_000 }
    }

    fn facts(&self) -> ImageFacts<'_> {
        ImageFacts {
            images: &self.images,
            uses: &self.uses,
            users: &self.users,
            now: at(self.now),
            run_began: at(self.run_began),
            settings: &self.settings,
        }
    }

    fn plan(&self, goal: Goal) -> ImagePlan {
        images(&self.facts(), goal)
    }
}

fn users<'a>(used: impl IntoIterator<Item = (&'a str, Used)>) -> Users {
    Users(used.into_iter().map(|(id, used)| (id.to_owned(), (used, vec!["user".to_owned()]))).collect())
}

const SPACE: Goal = Goal::Threshold { wanted: 1 };
const AIMS: [Goal; 3] = [SPACE, Goal::TooOld, Goal::All];

#[test]
fn least_recently_used_first_then_first_detected() {
    for (known, order) in [
        (vec![("a", 3, None), ("b", 1, None), ("c", 2, None)], ["b", "c", "a"]),
        (vec![("a", 1, Some(9)), ("b", 2, Some(8)), ("c", 3, Some(7))], ["c", "b", "a"]),
        // Never used images come before used ones, whatever was detected first.
        (vec![("a", 1, Some(5)), ("b", 900, None), ("c", 2, Some(4))], ["b", "c", "a"]),
        (vec![("a", 3, Some(9)), ("b", 2, Some(9)), ("c", 1, Some(9))], ["c", "b", "a"]),
        // Only the names differ: the order is the same every time.
        (vec![("c", 1, None), ("a", 1, None), ("b", 1, None)], ["a", "b", "c"]),
    ] {
        let fixture = Fixture::new(&known);
        for goal in AIMS {
            let plan = fixture.plan(goal);
            assert_eq!(plan.remove, order, "{known:?} {goal:?}");
            assert_eq!(plan.keep, [], "{known:?} {goal:?}");
        }
        // Kept images have the same order.
        let stay: Vec<_> =
            fixture.plan(Goal::Threshold { wanted: 0 }).keep.into_iter().map(|(id, _)| id).collect();
        assert_eq!(stay, order, "{known:?}");
    }
}

#[test]
fn images_in_use_are_kept_for_each_reason() {
    for used in [Used::Container, Used::Sandbox, Used::Pinned, Used::Manifest] {
        let mut fixture = Fixture::new(&[("a", 1, None), ("b", 2, Some(3))]);
        fixture.users = users([("b", used)]);
        for goal in AIMS {
            let plan = fixture.plan(goal);
            assert_eq!(plan.remove, ["a"], "{used:?} {goal:?}");
            assert_eq!(plan.keep, [("b".to_owned(), Keep::InUse(used))], "{used:?} {goal:?}");
        }
    }
    // Pinned without a user; a user's reason comes first.
    let mut fixture = Fixture::new(&[("a", 1, None)]);
    fixture.images[0].pinned = true;
    assert_eq!(fixture.plan(Goal::All).keep, [("a".to_owned(), Keep::InUse(Used::Pinned))]);
    fixture.users = users([("a", Used::Container)]);
    assert_eq!(fixture.plan(Goal::All).keep, [("a".to_owned(), Keep::InUse(Used::Container))]);
}

#[test]
fn images_used_since_the_run_began_are_kept() {
    for (last_used, reason) in [(9_499, None), (9_500, Some(Keep::JustUsed)), (9_501, Some(Keep::JustUsed))] {
        let mut fixture = Fixture::new(&[("a", 1, Some(last_used))]);
        fixture.run_began = 9_500;
        for goal in [SPACE, Goal::All] {
            assert_eq!(keep(&fixture.facts(), goal, &fixture.images[0]), reason, "{last_used} {goal:?}");
        }
    }
}

#[test]
fn young_images_are_kept() {
    for (detected, reason) in [
        (9_899, None),
        (9_900, None),
        (9_901, Some(Keep::Young)),
        (10_000, Some(Keep::Young)),
        // Detected later than now.
        (10_500, Some(Keep::Young)),
    ] {
        let fixture = Fixture::new(&[("a", detected, None)]);
        for goal in [SPACE, Goal::All] {
            assert_eq!(keep(&fixture.facts(), goal, &fixture.images[0]), reason, "{detected} {goal:?}");
        }
    }
    // The age counts from the detection, not from the last use.
    assert_eq!(Fixture::new(&[("a", 1, Some(9_999))]).plan(SPACE).remove, ["a"]);
    // An image that no detection has seen is young even without a minimum age.
    let mut fixture = Fixture::new(&[]);
    fixture.images.push(image("new"));
    fixture.settings.min_age = Duration::ZERO;
    for goal in AIMS {
        assert_eq!(fixture.plan(goal).keep, [("new".to_owned(), Keep::Young)], "{goal:?}");
    }
}

#[test]
fn images_unused_for_too_long_are_removed() {
    for (known, reason) in [
        // Since the last use.
        (("a", 1, Some(8_999)), None),
        (("a", 1, Some(9_000)), Some(Keep::NotNeeded)),
        (("a", 1, Some(9_999)), Some(Keep::NotNeeded)),
        // Never used: since the detection.
        (("a", 8_999, None), None),
        (("a", 9_000, None), Some(Keep::NotNeeded)),
        (("a", 9_950, None), Some(Keep::Young)),
    ] {
        let fixture = Fixture::new(&[known]);
        assert_eq!(keep(&fixture.facts(), Goal::TooOld, &fixture.images[0]), reason, "{known:?}");
    }
    // No maximum age.
    let mut fixture = Fixture::new(&[("a", 1, None)]);
    fixture.settings.max_age = None;
    assert_eq!(fixture.plan(Goal::TooOld).keep, [("a".to_owned(), Keep::NotNeeded)]);
    // A minimum age larger than the maximum age wins.
    fixture.settings.min_age = Duration::from_secs(20_000);
    fixture.settings.max_age = Some(Duration::from_secs(1));
    assert_eq!(fixture.plan(Goal::TooOld).keep, [("a".to_owned(), Keep::Young)]);
}

#[test]
fn nothing_is_removed_when_no_space_is_wanted() {
    let mut fixture = Fixture::new(&[("a", 1, None), ("b", 9_999, None), ("c", 2, Some(5))]);
    fixture.users = users([("c", Used::Sandbox)]);
    let plan = fixture.plan(Goal::Threshold { wanted: 0 });
    assert_eq!(plan.remove, Vec::<String>::new());
    let stay = [("a", Keep::NotNeeded), ("b", Keep::Young), ("c", Keep::InUse(Used::Sandbox))];
    assert_eq!(plan.keep, stay.map(|(id, reason)| (id.to_owned(), reason)));
}

#[test]
fn an_image_counts_once() {
    let mut fixture = Fixture::new(&[("a", 1, None)]);
    fixture.images[0].names = vec!["x:1".into(), "x:2".into(), "x@sha256:0".into()];
    fixture.images.push(ImageSeen { names: vec!["y:1".into()], ..image("a") });
    assert_eq!(fixture.plan(SPACE).remove, ["a"]);
    // One reason to keep it is enough, in either entry.
    for pinned in [0, 1] {
        let mut fixture = Fixture::new(&[("a", 1, None), ("a", 1, None)]);
        fixture.images[pinned].pinned = true;
        assert_eq!(fixture.plan(SPACE).keep, [("a".to_owned(), Keep::InUse(Used::Pinned))]);
    }
    // Without an id it cannot be removed.
    let fixture = Fixture::new(&[("", 1, None)]);
    assert_eq!(fixture.plan(Goal::All), ImagePlan::default());
}
