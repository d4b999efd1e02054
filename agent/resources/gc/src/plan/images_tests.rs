//! One table a rule: what stays and why, what goes, in which order.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Aim, ImageFacts, ImagePlan, Users, images, keep};
use crate::Uses;
use nodewarden_model::GcSettings;
use nodewarden_model::{ImageSeen, Keep, Used};

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_700_000_000 + second)
}

fn image(id: &str) -> ImageSeen {
    ImageSeen { id: id.to_owned(), names: vec![format!("{id}:latest")], size: 100, pinned: false }
}

/// A node on which images were detected and used, with minimum and maximum age of 100 s and 1000 s.
struct Node {
    images: Vec<ImageSeen>,
    uses: Uses,
    users: Users,
    settings: GcSettings,
    now: i64,
    run_began: i64,
}

impl Node {
    /// Images with the second of their detection and of their last use.
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

    fn plan(&self, aim: Aim) -> ImagePlan {
        images(&self.facts(), aim)
    }
}

fn users<'a>(used: impl IntoIterator<Item = (&'a str, Used)>) -> Users {
    Users(used.into_iter().map(|(id, used)| (id.to_owned(), (used, vec!["somebody".to_owned()]))).collect())
}

const SPACE: Aim = Aim::Threshold { wanted: 1 };
const AIMS: [Aim; 3] = [SPACE, Aim::TooOld, Aim::All];

#[test]
fn least_recently_used_first_then_first_detected() {
    for (known, order) in [
        (vec![("a", 3, None), ("b", 1, None), ("c", 2, None)], ["b", "c", "a"]),
        (vec![("a", 1, Some(9)), ("b", 2, Some(8)), ("c", 3, Some(7))], ["c", "b", "a"]),
        // Never used goes before used, whatever was detected first.
        (vec![("a", 1, Some(5)), ("b", 900, None), ("c", 2, Some(4))], ["b", "c", "a"]),
        (vec![("a", 3, Some(9)), ("b", 2, Some(9)), ("c", 1, Some(9))], ["c", "b", "a"]),
        // No difference but the name: the same order every time.
        (vec![("c", 1, None), ("a", 1, None), ("b", 1, None)], ["a", "b", "c"]),
    ] {
        let node = Node::new(&known);
        for aim in AIMS {
            let plan = node.plan(aim);
            assert_eq!(plan.go, order, "{known:?} {aim:?}");
            assert_eq!(plan.stay, [], "{known:?} {aim:?}");
        }
        // What stays has the same order.
        let stay: Vec<_> =
            node.plan(Aim::Threshold { wanted: 0 }).stay.into_iter().map(|(id, _)| id).collect();
        assert_eq!(stay, order, "{known:?}");
    }
}

#[test]
fn what_is_in_use_stays_for_each_reason() {
    for used in [Used::Container, Used::Sandbox, Used::Pinned, Used::Manifest] {
        let mut node = Node::new(&[("a", 1, None), ("b", 2, Some(3))]);
        node.users = users([("b", used)]);
        for aim in AIMS {
            let plan = node.plan(aim);
            assert_eq!(plan.go, ["a"], "{used:?} {aim:?}");
            assert_eq!(plan.stay, [("b".to_owned(), Keep::InUse(used))], "{used:?} {aim:?}");
        }
    }
    // Pinned without a user, and a user's reason before that.
    let mut node = Node::new(&[("a", 1, None)]);
    node.images[0].pinned = true;
    assert_eq!(node.plan(Aim::All).stay, [("a".to_owned(), Keep::InUse(Used::Pinned))]);
    node.users = users([("a", Used::Container)]);
    assert_eq!(node.plan(Aim::All).stay, [("a".to_owned(), Keep::InUse(Used::Container))]);
}

#[test]
fn what_was_used_since_the_run_began_stays() {
    for (last_used, reason) in [(9_499, None), (9_500, Some(Keep::JustUsed)), (9_501, Some(Keep::JustUsed))] {
        let mut node = Node::new(&[("a", 1, Some(last_used))]);
        node.run_began = 9_500;
        for aim in [SPACE, Aim::All] {
            assert_eq!(keep(&node.facts(), aim, &node.images[0]), reason, "{last_used} {aim:?}");
        }
    }
}

#[test]
fn what_is_young_stays() {
    for (detected, reason) in [
        (9_899, None),
        (9_900, None),
        (9_901, Some(Keep::Young)),
        (10_000, Some(Keep::Young)),
        // Detected later than now.
        (10_500, Some(Keep::Young)),
    ] {
        let node = Node::new(&[("a", detected, None)]);
        assert_eq!(keep(&node.facts(), SPACE, &node.images[0]), reason, "{detected}");
        assert_eq!(keep(&node.facts(), Aim::All, &node.images[0]), None, "{detected}");
    }
    // The age that counts is that of its detection, not of its use.
    assert_eq!(Node::new(&[("a", 1, Some(9_999))]).plan(SPACE).go, ["a"]);
    // What no detection has seen has no age, not even without a minimum.
    let mut node = Node::new(&[]);
    node.images.push(image("new"));
    node.settings.min_age = Duration::ZERO;
    for aim in AIMS {
        assert_eq!(node.plan(aim).stay, [("new".to_owned(), Keep::Young)], "{aim:?}");
    }
}

#[test]
fn what_is_too_old_goes() {
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
        let node = Node::new(&[known]);
        assert_eq!(keep(&node.facts(), Aim::TooOld, &node.images[0]), reason, "{known:?}");
    }
    // Off.
    let mut node = Node::new(&[("a", 1, None)]);
    node.settings.max_age = None;
    assert_eq!(node.plan(Aim::TooOld).stay, [("a".to_owned(), Keep::NotNeeded)]);
    // A minimum age that is larger than the maximum one counts.
    node.settings.min_age = Duration::from_secs(20_000);
    node.settings.max_age = Some(Duration::from_secs(1));
    assert_eq!(node.plan(Aim::TooOld).stay, [("a".to_owned(), Keep::Young)]);
}

#[test]
fn nothing_goes_when_nothing_is_wanted() {
    let mut node = Node::new(&[("a", 1, None), ("b", 9_999, None), ("c", 2, Some(5))]);
    node.users = users([("c", Used::Sandbox)]);
    let plan = node.plan(Aim::Threshold { wanted: 0 });
    assert_eq!(plan.go, Vec::<String>::new());
    let stay = [("a", Keep::NotNeeded), ("b", Keep::Young), ("c", Keep::InUse(Used::Sandbox))];
    assert_eq!(plan.stay, stay.map(|(id, reason)| (id.to_owned(), reason)));
}

#[test]
fn an_image_counts_once() {
    let mut node = Node::new(&[("a", 1, None)]);
    node.images[0].names = vec!["x:1".into(), "x:2".into(), "x@sha256:0".into()];
    node.images.push(ImageSeen { names: vec!["y:1".into()], ..image("a") });
    assert_eq!(node.plan(SPACE).go, ["a"]);
    // One reason to stay is enough, in whichever place.
    for pinned in [0, 1] {
        let mut node = Node::new(&[("a", 1, None), ("a", 1, None)]);
        node.images[pinned].pinned = true;
        assert_eq!(node.plan(SPACE).stay, [("a".to_owned(), Keep::InUse(Used::Pinned))]);
    }
    // Without an id it cannot be removed.
    let node = Node::new(&[("", 1, None)]);
    assert_eq!(node.plan(Aim::All), ImagePlan::default());
}
