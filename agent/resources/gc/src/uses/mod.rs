//! Since when each image is known, and when something used it last (kubelet: `realImageGCManager.detectImages`).
//! Unlike a kubelet's, these times outlive the agent: an image's age goes on over a restart.

mod file;
#[cfg(test)]
mod file_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::plan::Users;
use nodewarden_model::{ImageSeen, ImageUse};

pub use file::UsesFile;

/// Images in use have their last use moved on at every detection; what is on disk may be behind by this much.
const BEHIND: SignedDuration = SignedDuration::from_secs(60);

/// Times by image id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    images: BTreeMap<String, ImageUse>,
    /// When a detection last said that it is to be saved.
    told: Option<Timestamp>,
}

impl Uses {
    /// Takes in what the runtime has now: new images are detected now, those in use were used now, and those that are
    /// not there any more are forgotten. Times in the future, from a clock that has been set back, become now.
    ///
    /// An image without a record is detected now also at the very first detection, as in the kubelet: it is then kept for
    /// the minimum age, in which the pods of a node that has just started come to use what they need.
    ///
    /// Says whether what changed is worth a write to disk: an image came, went or was used for the first time, a time
    /// was corrected, or last uses have moved on by a minute.
    pub fn detect(&mut self, images: &[ImageSeen], used: &Users, now: Timestamp) -> bool {
        let there: BTreeSet<&str> = images.iter().map(|image| &*image.id).collect();
        let before = self.images.len();
        self.images.retain(|id, _| there.contains(&**id));
        let mut changed = self.images.len() != before;
        let mut moved = false;
        for image in images.iter().filter(|image| !image.id.is_empty()) {
            if !self.images.contains_key(&image.id) {
                changed = true;
            }
            let known = self
                .images
                .entry(image.id.clone())
                .or_insert(ImageUse { first_detected: now, last_used: None });
            changed |= correct(known, now);
            if used.of(image).is_some() {
                changed |= known.last_used.is_none();
                moved |= known.last_used != Some(now);
                known.last_used = Some(now);
            }
        }
        let save =
            changed || (moved && self.told.is_none_or(|told| now.duration_since(told).abs() >= BEHIND));
        if save {
            self.told = Some(now);
        }
        save
    }

    /// What is known of an image.
    pub fn get(&self, id: &str) -> Option<&ImageUse> {
        self.images.get(id)
    }

    /// An image has been removed: one of the same id that is pulled later is a new one.
    pub fn forget(&mut self, id: &str) {
        self.images.remove(id);
    }

    pub fn len(&self) -> usize {
        self.images.len()
    }

    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }
}

/// Takes no time for true that has not come yet.
fn correct(known: &mut ImageUse, now: Timestamp) -> bool {
    let right = ImageUse {
        first_detected: known.first_detected.min(now),
        last_used: known.last_used.map(|time| time.min(now)),
    };
    std::mem::replace(known, right) != right
}
