//! A list of the runtime by pod, and what of it can change.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use nodewarden_cri::Listing;
use nodewarden_pods::spec::labels::POD_UID;

/// Sandboxes and containers by their pod.
pub fn by_uid(listing: Listing) -> BTreeMap<String, Listing> {
    let mut pods: BTreeMap<String, Listing> = BTreeMap::new();
    for sandbox in listing.sandboxes {
        let uid = sandbox.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default();
        push(&mut pods.entry(uid).or_default().sandboxes, sandbox);
    }
    for container in listing.containers {
        let uid = container.labels.get(POD_UID).cloned().unwrap_or_default();
        push(&mut pods.entry(uid).or_default().containers, container);
    }
    pods.remove("");
    pods
}

/// Without room for more, which a pod has only a few of: a vector begins with room for four.
fn push<T>(of_pod: &mut Vec<T>, item: T) {
    of_pod.reserve_exact(1);
    of_pod.push(item);
}

/// Changes with what of a pod can change at the runtime.
pub fn fingerprint(listing: &Listing) -> u64 {
    let mut hash = DefaultHasher::new();
    let mut sandboxes: Vec<_> = listing.sandboxes.iter().map(|s| (&s.id, s.state)).collect();
    let mut containers: Vec<_> = listing.containers.iter().map(|c| (&c.id, c.state)).collect();
    sandboxes.sort();
    containers.sort();
    (sandboxes, containers).hash(&mut hash);
    hash.finish()
}
