//! When each image was first detected and last used (kubelet: `realImageGCManager.detectImages`). Unlike in
//! the kubelet, these times survive a restart of the agent.

mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use nodewarden_model::{ImageSeen, ImageUse};

use super::users::Users;

pub use file::UsesFile;

/// The last use of images in use is updated at every detection, but written to disk only this often.
const SAVE_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// The times of images by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    images: BTreeMap<String, ImageUse>,
    /// When a detection last asked for a save.
    last_save: Option<Timestamp>,
}

impl Uses {
    /// Updates the times from the runtime's images: new images are detected now, images in use were used now,
    /// and images that no longer exist are forgotten. Times in the future (the clock was set back) become
    /// now.
    ///
    /// An image without a record is detected now even at the very first detection, as in the kubelet: it is
    /// then kept for the minimum age, in which the pods of a starting node begin to use their images.
    ///
    /// Returns whether the change should be written to disk: an image was added, removed or used for the
    /// first time, a time was corrected, or last uses have moved on by a minute.
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
        let save = changed
            || (moved && self.last_save.is_none_or(|last| now.duration_since(last).abs() >= SAVE_INTERVAL));
        if save {
            self.last_save = Some(now);
        }
        save
    }

    /// The times of an image.
    pub fn get(&self, id: &str) -> Option<&ImageUse> {
        self.images.get(id)
    }

    /// Forgets a removed image: if the same id is pulled again later, it is a new image.
    pub fn forget(&mut self, id: &str) {
        self.images.remove(id);
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.images.len()
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }
}

/// Replaces times in the future by now. Returns whether there were any.
fn correct(known: &mut ImageUse, now: Timestamp) -> bool {
    let right = ImageUse {
        first_detected: known.first_detected.min(now),
        last_used: known.last_used.map(|time| time.min(now)),
    };
    std::mem::replace(known, right) != right
}
