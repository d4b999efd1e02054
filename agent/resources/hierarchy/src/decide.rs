//! Decides which pod cgroups to remove and which to leave alone. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::desired::DesiredCgroups;

/// The state of the pod cgroups.
#[derive(Debug)]
pub struct Known<'a> {
    /// Paths wanted now.
    pub wanted: &'a BTreeSet<Arc<str>>,
    /// Uids of the pods that have these paths.
    pub wanted_uids: &'a BTreeSet<&'a str>,
    /// Recorded as created by this agent, by path.
    pub owned: &'a BTreeMap<Arc<str>, super::owned::Entry>,
    /// Existing below kubepods and named like a pod's cgroup.
    pub present: &'a BTreeSet<Arc<str>>,
    /// Being removed now.
    pub removing: &'a BTreeSet<Arc<str>>,
}

/// The decision.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Created by this agent and no longer wanted.
    pub remove: Vec<Arc<str>>,
    /// Created by this agent, of a pod that is wanted and has another path since the settings changed
    /// (`cgroupRoot`, `cgroupDriver`). The pod's processes may still be in it: they end with grace before it
    /// is removed.
    pub former: Vec<Arc<str>>,
    /// Created by this agent and not wanted, but kept because their manifest cannot be read now.
    pub withheld: Vec<Arc<str>>,
    /// Existing, but not created by this agent.
    pub foreign: Vec<Arc<str>>,
    /// Created by this agent, not wanted and already removed: their record is deleted.
    pub forget: Vec<Arc<str>>,
}

/// Sorts every pod cgroup. `keep` is `None` before the desired pods are known: then nothing is removed.
pub fn decide(known: &Known<'_>, keep: Option<&DesiredCgroups>) -> Verdict {
    let mut verdict = Verdict::default();
    for (path, pod) in known.owned {
        if known.wanted.contains(path) || known.removing.contains(path) {
            continue;
        }
        let moved = known.wanted_uids.contains(&*pod.uid);
        let gone = moved || keep.is_some_and(|k| k.is_gone(&pod.origin));
        if !gone {
            verdict.withheld.push(path.clone());
        } else if moved && known.present.contains(path) {
            verdict.former.push(path.clone());
        } else if known.present.contains(path) {
            verdict.remove.push(path.clone());
        } else {
            verdict.forget.push(path.clone());
        }
    }
    let foreign = |path: &&Arc<str>| !known.owned.contains_key(*path) && !known.wanted.contains(*path);
    verdict.foreign = known.present.iter().filter(foreign).cloned().collect();
    verdict
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::owned::Entry;
    use nodewarden_pods::source::Unread;

    fn set(paths: &[&str]) -> BTreeSet<Arc<str>> {
        paths.iter().map(|p| Arc::from(*p)).collect()
    }

    fn owned(paths: &[(&str, &str)]) -> BTreeMap<Arc<str>, Entry> {
        let entry = |origin: &str| Entry { uid: "u".into(), origin: origin.into() };
        paths.iter().map(|(p, origin)| (Arc::from(*p), entry(origin))).collect()
    }

    fn texts(paths: &[Arc<str>]) -> Vec<&str> {
        paths.iter().map(|path| &**path).collect()
    }

    #[test]
    fn each_kind_of_pod_cgroup() {
        let (wanted, present) = (set(&["/a"]), set(&["/a", "/b", "/c", "/d", "/x"]));
        let owned = owned(&[("/a", "f"), ("/b", "f"), ("/c", "broken"), ("/d", "f"), ("/gone", "f")]);
        let removing = set(&["/d"]);
        let known = Known {
            wanted: &wanted,
            wanted_uids: &BTreeSet::from(["of-a"]),
            owned: &owned,
            present: &present,
            removing: &removing,
        };
        let keep = DesiredCgroups { unread: Unread::of_origin("broken"), ..DesiredCgroups::default() };
        let expected = Verdict {
            remove: vec!["/b".into()],
            former: Vec::new(),
            withheld: vec!["/c".into()],
            foreign: vec!["/x".into()],
            forget: vec!["/gone".into()],
        };
        assert_eq!(decide(&known, Some(&keep)), expected);
        for blind in [
            None,
            Some(&DesiredCgroups { unread: Unread::of_source("manifests"), ..DesiredCgroups::default() }),
        ] {
            let verdict = decide(&known, blind);
            assert!(verdict.remove.is_empty() && verdict.forget.is_empty());
            assert_eq!(texts(&verdict.withheld), ["/b", "/c", "/gone"]);
        }
    }

    /// Of a pod that is wanted at another path, whether its manifest can be read or not.
    #[test]
    fn the_cgroup_that_a_wanted_pod_had_with_other_settings_is_not_removed_at_once() {
        let (wanted, present) = (set(&["/new/podu"]), set(&["/old/podu", "/old/podv"]));
        let mut owned = owned(&[("/old/podu", "f"), ("/older/podu", "f"), ("/old/podv", "f")]);
        owned.get_mut("/old/podv").unwrap().uid = "v".into();
        let known = Known {
            wanted: &wanted,
            wanted_uids: &BTreeSet::from(["u"]),
            owned: &owned,
            present: &present,
            removing: &set(&[]),
        };
        let verdict = decide(&known, Some(&DesiredCgroups::default()));
        assert_eq!(texts(&verdict.former), ["/old/podu"]);
        assert_eq!(texts(&verdict.forget), ["/older/podu"]);
        assert_eq!(texts(&verdict.remove), ["/old/podv"]);
        let keep = DesiredCgroups { unread: Unread::of_origin("f"), ..DesiredCgroups::default() };
        let verdict = decide(&known, Some(&keep));
        assert_eq!(texts(&verdict.former), ["/old/podu"]);
        assert_eq!(texts(&verdict.withheld), ["/old/podv"]);
    }

    fn paths() -> impl Strategy<Value = BTreeSet<Arc<str>>> {
        prop::collection::btree_set("/[a-f]".prop_map(Arc::from), 0..6)
    }

    proptest! {
        #[test]
        fn only_our_own_unwanted_is_ever_removed(
            wanted in paths(), ours in paths(), present in paths(), removing in paths(), blind in any::<bool>(),
        ) {
            let owned = ours.iter().map(|p| (p.clone(), Entry { uid: "u".into(), origin: "o".into() })).collect();
            let uids = BTreeSet::new();
            let known =
                Known { wanted: &wanted, wanted_uids: &uids, owned: &owned, present: &present, removing: &removing };
            let unread = if blind { Unread::of_source("manifests") } else { Unread::default() };
            let keep = DesiredCgroups { unread, ..DesiredCgroups::default() };
            let verdict = decide(&known, Some(&keep));
            for path in &verdict.remove {
                prop_assert!(!blind && ours.contains(path) && present.contains(path));
                prop_assert!(!wanted.contains(path) && !removing.contains(path));
            }
            for path in &verdict.foreign {
                prop_assert!(!ours.contains(path) && !wanted.contains(path) && present.contains(path));
            }
        }
    }
}
