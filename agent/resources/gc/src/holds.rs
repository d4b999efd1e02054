//! Images that are about to be used and images that are being removed exclude each other.
//!
//! Whoever makes a container holds its image from before he looks whether it is there until the container exists and is
//! found by that. Whoever removes an image claims it before he looks who uses it: a holder that came before is seen, one
//! that comes later waits for the removal's end.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Notify;

use nodewarden_cri::image_reference::normalized;
use nodewarden_model::ImageSeen;

/// Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Holds(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Rings when a removal has ended.
    removed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How many hold it, by full name or id.
    held: BTreeMap<String, usize>,
    /// Names and ids of images that are being removed, by removal.
    removing: BTreeMap<u64, Vec<String>>,
    next: u64,
}

/// An image that is about to be used; let go of when dropped.
#[derive(Debug)]
#[must_use]
pub struct Hold {
    holds: Holds,
    names: Vec<String>,
}

/// A removal under way; over when dropped.
#[derive(Debug)]
#[must_use]
pub struct Claim {
    holds: Holds,
    number: u64,
}

impl Holds {
    /// Holds an image by a name or id, and waits for the end of its removal if that is under way.
    pub async fn hold(&self, reference: &str) -> Hold {
        let mut hold = Hold { holds: self.clone(), names: Vec::new() };
        hold.also(reference).await;
        hold
    }

    /// Claims an image for its removal; none if somebody holds it.
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

    /// Whether somebody holds it by one of its names.
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
    /// Holds it by another name or id too. True when that had to wait for a removal: the image may be gone.
    pub async fn also(&mut self, reference: &str) -> bool {
        let name = normalized(reference);
        *self.holds.lock().held.entry(name.clone()).or_default() += 1;
        self.names.push(name.clone());
        let mut waited = false;
        loop {
            let removed = self.holds.0.removed.notified();
            tokio::pin!(removed);
            // Before looking, or a ring between the look and the wait would be missed.
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
    async fn what_is_held_is_not_claimed() {
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
    async fn who_comes_during_a_removal_waits_for_its_end() {
        let holds = Holds::default();
        let busybox = image("sha256:1", &["docker.io/library/busybox:latest"]);
        let claim = holds.claim(&busybox).unwrap();
        let mut other = timeout(Duration::from_secs(1), holds.hold("alpine")).await.unwrap();
        assert!(timeout(Duration::from_secs(1), holds.hold("busybox")).await.is_err());
        // The one who gave up waiting holds nothing.
        assert!(holds.lock().held.keys().eq(["docker.io/library/alpine:latest"]));
        let waiting = tokio::spawn(async move { other.also("sha256:1").await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
        drop(claim);
        assert!(waiting.await.unwrap(), "it is told that it waited");
        assert!(holds.lock().held.is_empty());
    }
}
