//! Which cgroups a full reconcile compares if the kernel has reported who was written to.

use std::collections::BTreeSet;

use super::{Reconciler, Wanted};
use crate::steps::ByPath;
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
    pub(super) fn in_doubt(&self, wanted: &Wanted, written: &Written, troubled: &BTreeSet<String>) -> ByPath {
        let parents: BTreeSet<&str> = wanted.pods.keys().filter_map(|path| parent(path)).collect();
        let is_reset = |parent: &&str| self.touched.is_in(parent, &written.children);
        let reset: BTreeSet<&str> = parents.into_iter().filter(is_reset).collect();
        let is_in_doubt = |path: &String| {
            !wanted.pods.contains_key(path)
                || !self.everywhere.contains(path)
                || troubled.contains(path)
                || parent(path).is_some_and(|parent| reset.contains(parent))
                || self.touched.is_in(path, &written.limits)
        };
        let limits = wanted.limits.iter().filter(|(path, _)| is_in_doubt(path));
        limits.map(|(path, limits)| (path.clone(), limits.clone())).collect()
    }

    /// Whether the containers of a pod need not be compared: `known` are those of the last full reconcile.
    pub(super) fn are_untouched(&self, pod: &str, known: &BTreeSet<String>, written: &Written) -> bool {
        !self.touched.is_in(pod, &written.limits)
            && !self.touched.is_in(pod, &written.children)
            && below(pod, known).all(|path| !self.touched.is_in(path, &written.limits))
    }
}

fn parent(path: &str) -> Option<&str> {
    Some(path.rsplit_once('/')?.0)
}

/// The containers of a pod's cgroup.
pub(super) fn below<'a>(pod: &'a str, containers: &'a BTreeSet<String>) -> impl Iterator<Item = &'a String> {
    let is_below = move |path: &&String| path.strip_prefix(pod).is_some_and(|rest| rest.starts_with('/'));
    containers.range(format!("{pod}/")..).take_while(is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_below_their_own_pod() {
        let all = ["/k/pod1", "/k/pod1/a", "/k/pod1/b", "/k/pod10/c", "/k/pod2/d"];
        let all: BTreeSet<String> = all.map(String::from).into();
        assert_eq!(below("/k/pod1", &all).collect::<Vec<_>>(), ["/k/pod1/a", "/k/pod1/b"]);
        assert_eq!(below("/k/pod3", &all).count(), 0);
    }
}
