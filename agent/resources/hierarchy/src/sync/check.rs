//! Containers' limits in a turn of the keeper: what somebody changed is put right.

use std::sync::atomic::Ordering;

use super::{Syncer, Wanted, pod_ref};
use crate::containers;
use crate::entry::{entries, only};
use crate::keep::Kept;
use crate::steps::differences;
use crate::timed::{Operation, timed};
use nodewarden_qos as qos;

impl Syncer {
    /// Puts right what somebody changed of containers, but for pods that are being resized.
    pub(super) fn check_containers(&mut self, wanted: &Wanted) {
        let known = std::mem::take(&mut self.containers);
        for (pod_path, kept) in &wanted.pods {
            let checked = !kept.is_resized();
            // What cannot be listed is told as the pod's problem already, or is gone.
            let children = self.setup.manager.children(pod_path).unwrap_or_default();
            for path in children.iter().map(|name| format!("{pod_path}/{name}")) {
                if checked && known.contains(&path) {
                    self.check_container(&path, pod_path, kept, wanted);
                }
                self.containers.insert(path);
            }
        }
    }

    fn check_container(&mut self, path: &str, pod_path: &str, kept: &Kept, wanted: &Wanted) {
        let Some(who) = containers::who(path, &self.setup.namer) else { return };
        let Ok(found) = self.setup.manager.read(path) else { return };
        let setup = &self.setup;
        let node = qos::Node { settings: &setup.settings, capacity: &wanted.capacity, facts: &setup.facts };
        let Some(right) = containers::wanted(&kept.told, &who, &found, &mut self.evidence, node) else {
            return;
        };
        let right = setup.files.settled(&right);
        let wrong: Vec<_> = differences(&right, &found);
        if wrong.is_empty() {
            return;
        }
        let set = only(&right, |limit| wrong.iter().any(|d| d.limit == limit));
        let set = self.without_what_kills(path, &set, &[(path.to_owned(), found)].into(), wanted);
        // What was read may be what a resize has just written.
        if self.words.load(Ordering::Acquire) != self.heard {
            return;
        }
        match timed(Operation::Update, || self.setup.files.set(path, &set)) {
            Ok(()) => {
                // Without what waits.
                let set = entries(&set);
                for difference in wrong.iter().filter(|d| set.iter().any(|(limit, _)| *limit == d.limit)) {
                    self.tell_correction(path, pod_ref(wanted, pod_path), difference);
                }
            }
            Err(error) => self.problems.add(pod_path, error.to_string()),
        }
    }
}
