//! Which images may go, in which order, and why the others stay (`realImageGCManager.imagesInEvictionOrder`,
//! `freeSpace`, `freeOldImages`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::Uses;
use nodewarden_model::GcSettings;
use nodewarden_model::{ImageSeen, ImageUse, Keep, Used};

/// What uses each image, by its id: the strongest reason, and who, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users(pub BTreeMap<String, (Used, Vec<String>)>);

impl Users {
    /// Why the image is in use; none: it is not. What the runtime has pinned is, whoever else uses it or not.
    pub fn of(&self, image: &ImageSeen) -> Option<Used> {
        let pinned = image.pinned.then_some(Used::Pinned);
        self.0.get(&image.id).map(|(used, _)| *used).or(pinned)
    }
}

/// What is decided on.
#[derive(Debug, Clone, Copy)]
pub struct ImageFacts<'a> {
    pub images: &'a [ImageSeen],
    pub uses: &'a Uses,
    pub users: &'a Users,
    pub now: Timestamp,
    pub run_began: Timestamp,
    pub settings: &'a GcSettings,
}

/// What for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Until so many bytes more are available; 0: nothing goes.
    Threshold { wanted: u64 },
    /// What is older than `imageMaximumGCAge`, whatever is free.
    TooOld,
    /// Everything that nothing uses (`DeleteUnusedImages`). The minimum age counts here too, as in the kubelet: a younger
    /// image may be waiting for its container.
    All,
}

/// The decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImagePlan {
    /// Ids of what may go, in order. How many of them do, the file system tells after each.
    pub go: Vec<String>,
    /// In the same order.
    pub stay: Vec<(String, Keep)>,
}

/// Looks at every image, each id once. One without an id can be neither told apart nor removed, and is passed over.
///
/// The order is the kubelet's (`byLastUsedAndDetected`): least recently used first, what was never used before
/// everything that was, and among equals what was detected first.
pub fn images(facts: &ImageFacts<'_>, aim: Aim) -> ImagePlan {
    let mut judged: BTreeMap<&str, Option<Keep>> = BTreeMap::new();
    for image in facts.images.iter().filter(|image| !image.id.is_empty()) {
        let reason = keep(facts, aim, image);
        // Listed twice, one reason to stay is enough.
        let known = judged.entry(&image.id).or_insert(reason);
        *known = match (*known, reason) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
    let mut ordered: Vec<_> = judged.into_iter().collect();
    ordered.sort_by_key(|(id, _)| (order(facts, id), *id));
    let mut plan = ImagePlan::default();
    for (id, reason) in ordered {
        match reason {
            None => plan.go.push(id.to_owned()),
            Some(reason) => plan.stay.push((id.to_owned(), reason)),
        }
    }
    plan
}

/// Why one image stays; none: it may go. To be asked again with fresh facts right before a removal.
pub fn keep(facts: &ImageFacts<'_>, aim: Aim, image: &ImageSeen) -> Option<Keep> {
    if let Some(used) = facts.users.of(image) {
        return Some(Keep::InUse(used));
    }
    // What no detection has seen is as young as can be.
    let Some(known) = facts.uses.get(&image.id) else { return Some(Keep::Young) };
    if known.last_used.is_some_and(|time| time >= facts.run_began) {
        return Some(Keep::JustUsed);
    }
    // Who asks for all of them has a pod to end otherwise; the kubelet spares young ones then too.
    if aim != Aim::All && age(facts.now, known.first_detected) < signed(facts.settings.min_age) {
        return Some(Keep::Young);
    }
    let needed = match aim {
        Aim::Threshold { wanted } => wanted > 0,
        Aim::TooOld => facts.settings.max_age.is_some_and(|most| unused(facts.now, known) > signed(most)),
        Aim::All => true,
    };
    (!needed).then_some(Keep::NotNeeded)
}

/// By this images are sorted; `None` is least.
fn order(facts: &ImageFacts<'_>, id: &str) -> (Option<Timestamp>, Timestamp) {
    let known = facts.uses.get(id);
    (known.and_then(|k| k.last_used), known.map_or(facts.now, |k| k.first_detected))
}

/// How long nothing has used the image; from its detection on if nothing ever has. The kubelet reckons that from its own
/// start on, because it does not remember what was before.
fn unused(now: Timestamp, known: &ImageUse) -> SignedDuration {
    age(now, known.last_used.unwrap_or(known.first_detected))
}

fn age(now: Timestamp, since: Timestamp) -> SignedDuration {
    now.duration_since(since)
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
