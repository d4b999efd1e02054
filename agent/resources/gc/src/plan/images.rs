//! Which images may be removed, in which order, and why the others are kept
//! (`realImageGCManager.imagesInEvictionOrder`, `freeSpace`, `freeOldImages`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodewarden_model::{GcSettings, ImageSeen, ImageUse, Keep};

use crate::users::Users;
use crate::uses::Uses;

/// The facts of the decision.
#[derive(Debug, Clone, Copy)]
pub struct ImageFacts<'a> {
    pub images: &'a [ImageSeen],
    pub uses: &'a Uses,
    pub users: &'a Users,
    pub now: Timestamp,
    pub run_began: Timestamp,
    pub settings: &'a GcSettings,
}

/// What images are removed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Until so many more bytes are available; with 0 nothing is removed.
    Threshold { wanted: u64 },
    /// Images unused for longer than `imageMaximumGCAge`, whatever is free.
    TooOld,
    /// All unused images that are not young (`DeleteUnusedImages`).
    All,
}

/// The decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImagePlan {
    /// Ids of images to remove, in order. After each removal the file system shows whether more are needed.
    pub remove: Vec<String>,
    /// Ids of images to keep with the reason, in the same order.
    pub keep: Vec<(String, Keep)>,
}

/// Plans every image, each id once. An image without an id can be neither identified nor removed, and is
/// ignored.
///
/// The order is the kubelet's (`byLastUsedAndDetected`): least recently used first, never used images before
/// all used ones, and among equals the first detected one.
pub fn images(facts: &ImageFacts<'_>, goal: Goal) -> ImagePlan {
    let mut judged: BTreeMap<&str, Option<Keep>> = BTreeMap::new();
    for image in facts.images.iter().filter(|image| !image.id.is_empty()) {
        let reason = keep(facts, goal, image);
        // If it is listed twice, one reason to keep it is enough.
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
            None => plan.remove.push(id.to_owned()),
            Some(reason) => plan.keep.push((id.to_owned(), reason)),
        }
    }
    plan
}

/// Why an image is kept; `None` if it may be removed. To be called again with fresh facts right before a
/// removal.
pub fn keep(facts: &ImageFacts<'_>, goal: Goal, image: &ImageSeen) -> Option<Keep> {
    if let Some(used) = facts.users.of(image) {
        return Some(Keep::InUse(used));
    }
    // An image that no detection has seen counts as young.
    let Some(known) = facts.uses.get(&image.id) else { return Some(Keep::Young) };
    if known.last_used.is_some_and(|time| time >= facts.run_began) {
        return Some(Keep::JustUsed);
    }
    // For every goal, as in the kubelet: it was pulled a moment ago, and will be used by a container soon.
    if age(facts.now, known.first_detected) < signed(facts.settings.min_age) {
        return Some(Keep::Young);
    }
    let needed = match goal {
        Goal::Threshold { wanted } => wanted > 0,
        Goal::TooOld => facts.settings.max_age.is_some_and(|most| unused(facts.now, known) > signed(most)),
        Goal::All => true,
    };
    (!needed).then_some(Keep::NotNeeded)
}

/// The key for sorting images; `None` comes first.
fn order(facts: &ImageFacts<'_>, id: &str) -> (Option<Timestamp>, Timestamp) {
    let known = facts.uses.get(id);
    (known.and_then(|k| k.last_used), known.map_or(facts.now, |k| k.first_detected))
}

/// How long the image was unused; since its detection if it was never used. The kubelet counts from its own
/// start, because it does not remember what was before.
fn unused(now: Timestamp, known: &ImageUse) -> SignedDuration {
    age(now, known.last_used.unwrap_or(known.first_detected))
}

fn age(now: Timestamp, since: Timestamp) -> SignedDuration {
    now.duration_since(since)
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
