//! Which cgroups a full reconcile compares if the kernel has reported who was written to.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Reconciler, Wanted};
use crate::seen::SeenContainers;
use crate::shared::ByPath;
use crate::touched::{Compare, Written};

impl Reconciler {
    /// What a full reconcile compares; `None` for a partial one. `other_machine`: its capacity changed, on
    /// which limits of containers depend.
    pub(super) fn touched(&mut self, whole: bool, other_machine: bool) -> Option<Compare> {
        if other_machine {
            self.touched.doubt();
        }
        if !whole {
            self.touched.drain();
        }
        whole.then(|| self.touched.take())
    }

    /// The limits of cgroups that may have others than they should, though the wanted ones are as before:
    /// they were written to, they were `troubled` in the last reconcile, they do not exist everywhere, or
    /// they are no pod's, which are few.
    pub(super) fn in_doubt(
        &self,
        wanted: &Wanted,
        written: &Written,
        troubled: &BTreeSet<Arc<str>>,
    ) -> ByPath {
        let parents: BTreeSet<&str> = wanted.pods.keys().filter_map(|path| parent(path)).collect();
        let is_reset = |parent: &&str| self.touched.is_in(parent, [&written.children]);
        let reset: BTreeSet<&str> = parents.into_iter().filter(is_reset).collect();
        let is_in_doubt = |path: &Arc<str>| {
            !wanted.pods.contains_key(path)
                || !self.everywhere.contains(path)
                || troubled.contains(path)
                || parent(path).is_some_and(|parent| reset.contains(parent))
                || self.touched.is_in(path, [&written.limits])
        };
        let limits = wanted.limits.iter().filter(|(path, _)| is_in_doubt(path));
        limits.map(|(path, limits)| (path.clone(), limits.clone())).collect()
    }

    /// Whether the containers of a pod need not be compared: `known` are those of the last full reconcile.
    pub(super) fn are_untouched(&self, pod: &str, known: &SeenContainers, written: &Written) -> bool {
        !self.touched.is_in(pod, [&written.limits, &written.parents, &written.children])
            && (written.limits.is_empty()
                || known
                    .names(pod)
                    .all(|name| !self.touched.is_in(&format!("{pod}/{name}"), [&written.limits])))
    }
}

fn parent(path: &str) -> Option<&str> {
    Some(path.rsplit_once('/')?.0)
}
