//! Containers of one pod whose cgroups are about to be removed, and who waits for that.

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Who waits for the removal of which container's cgroup. Empty for most pods.
#[derive(Debug, Default)]
pub struct Removals(Mutex<Vec<(Box<str>, oneshot::Sender<()>)>>);

impl Removals {
    /// Ends with the removal of the cgroup of this container or sandbox, if it is removed from now on.
    pub fn expect(&self, id: &str) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut all = self.0.lock();
        all.retain(|(_, waits)| !waits.is_closed());
        all.push((id.into(), sender));
        receiver
    }

    /// The kernel has removed the cgroup of this container or sandbox.
    pub fn removed(&self, id: &str) {
        let mut all = self.0.lock();
        for (_, waits) in all.extract_if(.., |(own, _)| **own == *id) {
            let _ = waits.send(());
        }
        if all.is_empty() {
            // A pod that waits for nothing holds nothing for it.
            *all = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_ends_the_waits_for_this_container_alone() {
        let removals = Removals::default();
        let (mut one, mut same, mut other) =
            (removals.expect("one"), removals.expect("one"), removals.expect("other"));
        removals.removed("none");
        assert!(one.try_recv().is_err());
        removals.removed("one");
        assert!(one.try_recv().is_ok() && same.try_recv().is_ok());
        assert!(other.try_recv().is_err());
        drop(other);
        drop(removals.expect("third"));
        assert_eq!(removals.0.lock().len(), 1, "one that has stopped waiting is forgotten");
        removals.removed("third");
        assert_eq!(removals.0.lock().capacity(), 0);
    }
}
