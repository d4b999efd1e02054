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
        pods.entry(uid).or_default().sandboxes.push(sandbox);
    }
    for container in listing.containers {
        let uid = container.labels.get(POD_UID).cloned().unwrap_or_default();
        pods.entry(uid).or_default().containers.push(container);
    }
    pods.remove("");
    pods
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
