//! Excludes images that are about to be used from removal.
//!
//! A worker holds an image from before the presence check until its container exists, which then counts as a
//! user. A removal claims the image before it reads the users: an earlier holder is seen, a later one waits
//! for the end of the removal.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodewarden_cri::image_reference::normalized;
use nodewarden_model::ImageSeen;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The holds and removals of images. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Holds(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when a removal has ended.
    removed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Number of holds by full image name or id.
    held: BTreeMap<String, usize>,
    /// Names and ids of images that are being removed, by removal.
    removing: BTreeMap<u64, Vec<String>>,
    next: u64,
}

/// Prevents the removal of an image; dropping it releases the image.
#[derive(Debug)]
#[must_use]
pub struct Hold {
    holds: Holds,
    names: Vec<String>,
}

/// A removal in progress; it ends when this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Claim {
    holds: Holds,
    number: u64,
}

impl Holds {
    /// Holds an image by a name or id; waits for the end of a removal in progress.
    pub async fn hold(&self, reference: &str) -> Hold {
        let mut hold = Hold { holds: self.clone(), names: Vec::new() };
        hold.also(reference).await;
        hold
    }

    /// Claims an image for removal; `None` if it is held.
    pub fn claim(&self, image: &ImageSeen) -> Option<Claim> {
        let names = names(image);
        let mut state = self.lock();
        if names.iter().any(|name| state.held.contains_key(name)) {
            return None;
        }
        state.next += 1;
        let number = state.next;
        state.removing.insert(number, names);
        Some(Claim { holds: self.clone(), number })
    }

    /// Whether the image is held by one of its names.
    pub fn is_held(&self, image: &ImageSeen) -> bool {
        let state = self.lock();
        names(image).iter().any(|name| state.held.contains_key(name))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    fn is_being_removed(&self, name: &str) -> bool {
        self.lock().removing.values().flatten().any(|removing| removing == name)
    }
}

fn names(image: &ImageSeen) -> Vec<String> {
    image.names.iter().chain([&image.id]).map(|name| normalized(name)).collect()
}

impl Hold {
    /// Holds the image by another name or id too. Returns true if it had to wait for a removal, so that the
    /// image may be gone.
    pub async fn also(&mut self, reference: &str) -> bool {
        let name = normalized(reference);
        *self.holds.lock().held.entry(name.clone()).or_default() += 1;
        self.names.push(name.clone());
        let mut waited = false;
        loop {
            let removed = self.holds.0.removed.notified();
            tokio::pin!(removed);
            // Enabled before the check, so that a notification between check and wait is not missed.
            removed.as_mut().enable();
            if !self.holds.is_being_removed(&name) {
                return waited;
            }
            waited = true;
            removed.await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.holds.lock();
        for name in &self.names {
            if let Some(count) = state.held.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    state.held.remove(name);
                }
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.holds.lock().removing.remove(&self.number);
        self.holds.0.removed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn image(id: &str, names: &[&str]) -> ImageSeen {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        ImageSeen { id: id.into(), names, size: 1, pinned: false }
    }

    #[tokio::test]
    async fn a_held_image_cannot_be_claimed() {
        let holds = Holds::default();
        let busybox = image("sha256:1", &["docker.io/library/busybox:latest"]);
        let first = holds.hold("busybox").await;
        let second = holds.hold("sha256:1").await;
        assert!(holds.claim(&image("sha256:2", &["docker.io/library/other:latest"])).is_some());
        assert!(holds.claim(&busybox).is_none());
        drop(first);
        assert!(holds.claim(&busybox).is_none());
        drop(second);
        assert!(holds.claim(&busybox).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_during_a_removal_waits_for_its_end() {
        let holds = Holds::default();
        let busybox = image("sha256:1", &["docker.io/library/busybox:latest"]);
        let claim = holds.claim(&busybox).unwrap();
        let mut other = timeout(Duration::from_secs(1), holds.hold("alpine")).await.unwrap();
        assert!(timeout(Duration::from_secs(1), holds.hold("busybox")).await.is_err());
        // The caller that gave up waiting holds nothing.
        assert!(holds.lock().held.keys().eq(["docker.io/library/alpine:latest"]));
        let waiting = tokio::spawn(async move { other.also("sha256:1").await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        drop(claim);
        assert!(waiting.await.unwrap(), "it reports that it waited");
        assert!(holds.lock().held.is_empty());
    }
}
