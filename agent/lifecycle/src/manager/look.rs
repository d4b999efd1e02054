//! What is due by the time alone, and what a look at the runtime and the pods' directories has found.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::warn;

use super::Manager;
use crate::act::housekeeping::LookResult;
use crate::act::look;
use crate::orders::Order;
use nodewarden_manifest::Pod;

impl Manager {
    /// Does what is due by the time alone. Returns whether that is to be done again after the housekeeping
    /// period even if nothing happens.
    pub(super) fn look(&mut self) -> bool {
        let refused = self.resize_refused();
        let limited = self.end_overdue();
        let env = self.env.clone();
        self.housekeeping.look_if_due(&env);
        refused || limited || self.housekeeping.is_in_doubt(&env)
    }

    /// Tries again what there was no room for, by priority. Returns whether there was any.
    fn resize_refused(&mut self) -> bool {
        let here = self.workers.values().filter(|entry| !entry.ending);
        let mut refused: Vec<Arc<Pod>> = here.filter_map(|entry| entry.resize.refused().cloned()).collect();
        refused.sort_by_key(|pod| std::cmp::Reverse(pod.priority));
        let (before, any) = (self.version, !refused.is_empty());
        refused.into_iter().for_each(|pod| self.resize(pod));
        if self.version != before {
            self.send();
        }
        any
    }

    pub(super) fn take_listing(&mut self, found: LookResult) {
        if found.tidied {
            // A pod may wait for it.
            self.assign();
        }
        for uid in found.changed {
            let listed = found.present.pods.of(&uid);
            // After a start most of the list is what the workers have seen already.
            let state = self.workers.get(&uid).and_then(|entry| entry.state.upgrade());
            if state.is_none_or(|state| look::differs(&state.read().observed, &listed)) {
                self.order(&uid, Order::Listed(Box::new(listed)));
            }
        }
        let known: BTreeSet<&str> = self.workers.keys().map(String::as_str).collect();
        // A pod without a worker may be one whose record was lost and whose manifest cannot be read right
        // now.
        if self.desired.is_complete() {
            match found.present.asked {
                true => self.housekeeping.tidy(&self.env, &self.sink, &known, &found.present),
                false => self.housekeeping.searched(&self.env, &known, &found.present),
            }
        }
        if let Some(problem) = found.problem {
            warn!("{problem}");
        }
    }
}
