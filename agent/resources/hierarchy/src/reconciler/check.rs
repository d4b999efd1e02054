//! Checks container limits in a full reconcile, and corrects those changed from outside.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::report::pod_ref;
use super::{Reconciler, Wanted};
use crate::containers;
use crate::desired::DesiredCgroup;
use crate::entry::{entries, only};
use crate::steps::differences;
use crate::timed::{Operation, timed};
use crate::touched::Compare;
use nodewarden_qos as qos;

impl Reconciler {
    /// Corrects the limits of containers that may have changed, except those of pods that are being resized.
    pub(super) fn check_containers(&mut self, wanted: &Wanted, touched: &Compare) {
        let mut seen = std::mem::take(&mut self.containers);
        seen.retain(|pod| wanted.pods.contains_key(pod));
        let unchecked = std::mem::take(&mut self.unchecked);
        let formula = self.evidence.formula();
        for (pod_path, desired) in &*wanted.pods {
            if let Compare::Some(written) = touched
                && !unchecked.contains(pod_path)
                && self.are_untouched(pod_path, &seen, written)
            {
                continue;
            }
            let checked = !desired.is_resized();
            // An error here was already recorded as the pod's problem, or the cgroup is gone.
            let children = self.setup.manager.containers(pod_path).unwrap_or_default();
            for name in &children {
                let known = checked && seen.contains(pod_path, name);
                if !known || !self.check_container(&format!("{pod_path}/{name}"), pod_path, desired, wanted) {
                    self.unchecked.insert(pod_path.clone());
                }
            }
            seen.set(pod_path, &children);
        }
        self.containers = seen;
        // Weights that were left alone can be compared now.
        if self.evidence.formula() != formula {
            self.touched.doubt();
        }
    }

    /// Returns whether the container's limits were compared, and are right now.
    fn check_container(
        &mut self,
        path: &str,
        pod_path: &str,
        desired: &DesiredCgroup,
        wanted: &Wanted,
    ) -> bool {
        let Some(container) = containers::container_at(path, &self.setup.namer) else { return false };
        let setup = &self.setup;
        let node = qos::Node { settings: &setup.settings, capacity: &wanted.capacity, facts: &setup.facts };
        // Of its limits the runtime decides all but those of CPU and memory, which are those of a sandbox.
        let comparable = qos::container::sandbox_limits(node);
        let Ok(found) = setup.manager.read_for(path, &comparable) else { return false };
        let Some(right) = containers::wanted(&desired.applied, &container, &found, &mut self.evidence, node)
        else {
            return false;
        };
        let right = setup.files.settled(&right);
        let wrong: Vec<_> = differences(&right, &found);
        if wrong.is_empty() {
            return true;
        }
        let set = Arc::new(only(&right, |limit| wrong.iter().any(|d| d.limit == limit)));
        let set = self.without_deadly_limits(path, &set, found.memory_max, wanted);
        // The limits read may be those that a resize has just written.
        if self.pending_updates.load(Ordering::Acquire) != self.applied_updates {
            return false;
        }
        match timed(Operation::Update, || self.setup.files.set(path, &set)) {
            Ok(()) => {
                // Without deferred limits.
                let set = entries(&set);
                for difference in wrong.iter().filter(|d| set.iter().any(|(limit, _)| *limit == d.limit)) {
                    self.record_correction(path, pod_ref(wanted, pod_path), difference);
                }
            }
            Err(error) => self.problems.add(pod_path, error.to_string()),
        }
        // Whether it has them now is for the next reconcile to see.
        false
    }
}
