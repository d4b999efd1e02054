//! What of a list of the runtime is this agent's, by pod, and what of it can change.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use nodewarden_cri::{Labels, ListedContainer, ListedSandbox, Listing};
use nodewarden_pods::spec::labels::POD_UID;

/// This agent's pods in a list that others may read too, so that nothing of it is copied.
#[derive(Debug, Default)]
pub struct Found {
    listing: Arc<Listing>,
    pods: BTreeMap<String, Indices>,
}

/// Where the list has a pod's sandboxes and containers.
#[derive(Debug, Default)]
struct Indices {
    sandboxes: Vec<usize>,
    containers: Vec<usize>,
}

impl Found {
    /// `is_ours` says whether a sandbox or container with these labels is this agent's.
    pub fn new(listing: Arc<Listing>, is_ours: impl Fn(&Labels) -> bool) -> Self {
        let mut pods: BTreeMap<String, Indices> = BTreeMap::new();
        for (index, sandbox) in listing.sandboxes.iter().enumerate().filter(|(_, own)| is_ours(&own.labels)) {
            let uid = sandbox.metadata.as_ref().map_or("", |metadata| &metadata.uid);
            push(&mut of(&mut pods, uid).sandboxes, index);
        }
        for (index, container) in
            listing.containers.iter().enumerate().filter(|(_, own)| is_ours(&own.labels))
        {
            let uid = container.labels.get(POD_UID).map_or("", String::as_str);
            push(&mut of(&mut pods, uid).containers, index);
        }
        pods.remove("");
        Self { listing, pods }
    }

    /// The uids of the pods.
    pub fn uids(&self) -> impl Iterator<Item = &String> {
        self.pods.keys()
    }

    /// A copy of what there is of this pod.
    pub fn of(&self, uid: &str) -> Listing {
        Listing {
            sandboxes: self.sandboxes(uid).cloned().collect(),
            containers: self.containers(uid).cloned().collect(),
        }
    }

    /// Changes with what of a pod can change at the runtime.
    pub fn fingerprint(&self, uid: &str) -> u64 {
        let mut hash = DefaultHasher::new();
        let mut sandboxes: Vec<_> = self.sandboxes(uid).map(|s| (&s.id, s.state)).collect();
        let mut containers: Vec<_> = self.containers(uid).map(|c| (&c.id, c.state)).collect();
        sandboxes.sort();
        containers.sort();
        (sandboxes, containers).hash(&mut hash);
        hash.finish()
    }

    /// Whether it is of this very list.
    #[cfg(test)]
    pub fn is_of(&self, listing: &Arc<Listing>) -> bool {
        Arc::ptr_eq(&self.listing, listing)
    }

    fn sandboxes(&self, uid: &str) -> impl Iterator<Item = &ListedSandbox> {
        let indices = self.pods.get(uid).into_iter().flat_map(|own| &own.sandboxes);
        indices.filter_map(|index| self.listing.sandboxes.get(*index))
    }

    fn containers(&self, uid: &str) -> impl Iterator<Item = &ListedContainer> {
        let indices = self.pods.get(uid).into_iter().flat_map(|own| &own.containers);
        indices.filter_map(|index| self.listing.containers.get(*index))
    }
}

fn of<'a>(pods: &'a mut BTreeMap<String, Indices>, uid: &str) -> &'a mut Indices {
    pods.entry(uid.to_owned()).or_default()
}

/// Without room for more, which a pod has only a few of: a vector begins with room for four.
fn push(of_pod: &mut Vec<usize>, index: usize) {
    of_pod.reserve_exact(1);
    of_pod.push(index);
}

#[cfg(test)]
mod tests {
    use nodewarden_pods::spec::labels::OWNER;
    use nodewarden_proto::runtime::v1 as cri;

    use super::*;

    fn sandbox(id: &str, uid: &str, owner: &str) -> ListedSandbox {
        ListedSandbox {
            id: id.into(),
            metadata: Some(cri::PodSandboxMetadata { uid: uid.into(), ..Default::default() }),
            labels: [(OWNER, owner), (POD_UID, uid)].into(),
            ..Default::default()
        }
    }

    fn container(id: &str, uid: &str, owner: &str) -> ListedContainer {
        ListedContainer {
            id: id.into(),
            labels: [(OWNER, owner), (POD_UID, uid)].into(),
            ..Default::default()
        }
    }

    fn found(listing: Listing) -> Found {
        Found::new(Arc::new(listing), |labels| labels.get(OWNER).is_some_and(|owner| owner == "me"))
    }

    #[test]
    fn only_what_is_this_agents_is_found_by_pod() {
        let found = found(Listing {
            sandboxes: vec![sandbox("s1", "u", "other"), sandbox("s2", "u", "me"), sandbox("s3", "", "me")],
            containers: vec![
                container("c1", "v", "me"),
                container("c2", "u", "me"),
                container("c3", "w", "other"),
                container("c4", "u", "me"),
            ],
        });
        assert_eq!(found.uids().collect::<Vec<_>>(), ["u", "v"]);
        let ids = |uid: &str| {
            let own = found.of(uid);
            let sandboxes = own.sandboxes.into_iter().map(|sandbox| sandbox.id);
            sandboxes.chain(own.containers.into_iter().map(|container| container.id)).collect::<Vec<_>>()
        };
        assert_eq!(ids("u"), ["s2", "c2", "c4"]);
        assert_eq!(ids("v"), ["c1"]);
        assert!(ids("w").is_empty() && ids("").is_empty());
    }

    #[test]
    fn a_fingerprint_changes_with_what_there_is_and_not_with_its_order() {
        let of = |containers: Vec<ListedContainer>| {
            found(Listing { sandboxes: vec![sandbox("s", "u", "me")], containers }).fingerprint("u")
        };
        let (a, b) = (container("a", "u", "me"), container("b", "u", "me"));
        let one = of(vec![a.clone(), b.clone()]);
        assert_eq!(one, of(vec![b.clone(), a.clone()]));
        assert_eq!(one, of(vec![container("z", "u", "other"), a.clone(), b.clone()]));
        assert_ne!(one, of(vec![a.clone()]));
        assert_ne!(one, of(vec![a, ListedContainer { state: 1, ..b }]));
    }
}
