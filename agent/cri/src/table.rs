//! Names from the runtime's listings, by the ids in cgroup paths.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Listing;
use super::labels::CONTAINER_NAME;
use nodewarden_model::{ContainerNames, PodNames};

/// How long the names of removed objects are kept, so that events and series of removed cgroups still have
/// them.
pub const KEPT: Duration = Duration::from_secs(600);

/// A value and the time of the last listing that contained it.
#[derive(Debug, Clone)]
struct Seen<T> {
    value: T,
    last: Instant,
}

/// Names by id.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pods: HashMap<Box<str>, Seen<Arc<PodNames>>>,
    /// The ids of sandboxes.
    sandboxes: HashMap<Box<str>, Seen<()>>,
    containers: HashMap<Box<str>, Seen<Arc<ContainerNames>>>,
    /// Each pair of name and image once: other replicas of a container have the same.
    names: HashSet<Arc<ContainerNames>>,
}

impl Table {
    /// Adds a listing and drops what no listing of the last [`KEPT`] contained. Returns whether any look-up
    /// now has a different result.
    pub fn learn(&mut self, listing: &Listing, now: Instant) -> bool {
        let mut changed = false;
        for sandbox in &listing.sandboxes {
            changed |= put(&mut self.sandboxes, &sandbox.id, now, |()| true, || ());
            if let Some(pod) = &sandbox.metadata {
                let same = |known: &Arc<PodNames>| known.namespace == pod.namespace && known.name == pod.name;
                let names = || PodNames { namespace: pod.namespace.clone(), name: pod.name.clone() };
                changed |= put(&mut self.pods, &pod.uid, now, same, || Arc::new(names()));
            }
        }
        for container in &listing.containers {
            let label = container.labels.get(CONTAINER_NAME);
            let name = label.or_else(|| container.metadata.as_ref().map(|m| &m.name));
            let name = name.map_or("", String::as_str);
            // The reference as the pod's author wrote it; some runtimes have only the one that the kubelet
            // resolved, which may be an image id.
            let references = [&container.user_specified_image, &container.image];
            let image = references.into_iter().find(|image| !image.is_empty());
            let image = image.unwrap_or(&container.image_ref);
            let same = |known: &Arc<ContainerNames>| known.name == name && known.image == *image;
            let names = || ContainerNames { name: name.to_owned(), image: image.clone() };
            let make = || shared(&mut self.names, names());
            changed |= put(&mut self.containers, &container.id, now, same, make);
        }
        changed |= drop_old(&mut self.pods, now);
        changed |= drop_old(&mut self.sandboxes, now);
        changed |= drop_old(&mut self.containers, now);
        self.names.retain(|names| Arc::strong_count(names) > 1);
        changed
    }

    /// Namespace and name of the pod with this uid.
    pub fn pod(&self, uid: &str) -> Option<&Arc<PodNames>> {
        self.pods.get(uid).map(|seen| &seen.value)
    }

    /// Whether the id is that of a pod sandbox.
    pub fn is_sandbox(&self, id: &str) -> bool {
        self.sandboxes.contains_key(id)
    }

    /// Name and image of the container with this id.
    pub fn container(&self, id: &str) -> Option<&Arc<ContainerNames>> {
        self.containers.get(id).map(|seen| &seen.value)
    }
}

/// These names as they are kept already, or kept from now on.
fn shared(all: &mut HashSet<Arc<ContainerNames>>, names: ContainerNames) -> Arc<ContainerNames> {
    if let Some(known) = all.get(&names) {
        return known.clone();
    }
    let names = Arc::new(names);
    all.insert(names.clone());
    names
}

/// Notes that `id` is there with the value that `make` returns; `same` says whether one that is known is that
/// value. Returns whether it is another one than before.
fn put<T>(
    map: &mut HashMap<Box<str>, Seen<T>>,
    id: &str,
    now: Instant,
    same: impl Fn(&T) -> bool,
    make: impl FnOnce() -> T,
) -> bool {
    if id.is_empty() {
        return false;
    }
    match map.get_mut(id) {
        Some(seen) => {
            seen.last = now;
            let changed = !same(&seen.value);
            // The one that is kept is shared with identities.
            if changed {
                seen.value = make();
            }
            changed
        }
        None => map.insert(id.into(), Seen { value: make(), last: now }).is_none(),
    }
}

fn drop_old<T>(map: &mut HashMap<Box<str>, Seen<T>>, now: Instant) -> bool {
    let before = map.len();
    map.retain(|_, seen| now.duration_since(seen.last) <= KEPT);
    map.len() != before
}

#[cfg(test)]
pub(super) mod tests {
    use nodewarden_proto::runtime::v1 as cri;

    use super::super::{Labels, ListedContainer, ListedSandbox};
    use super::*;

    pub fn listing() -> Listing {
        Listing {
            sandboxes: vec![ListedSandbox {
                id: "5a5a5a5a5a5a".into(),
                metadata: Some(cri::PodSandboxMetadata {
                    name: "web-0".into(),
                    uid: "uid-1".into(),
                    namespace: "shop".into(),
                    attempt: 0,
                }),
                ..Default::default()
            }],
            containers: vec![ListedContainer {
                id: "c0c0c0c0c0c0".into(),
                metadata: Some(cri::ContainerMetadata { name: "metadata".into(), attempt: 3 }),
                labels: [(CONTAINER_NAME, "nginx")].into(),
                image: "sha256:1".into(),
                image_ref: "sha256:2".into(),
                ..Default::default()
            }],
        }
    }

    #[test]
    fn a_changed_listing_is_reported() {
        let (mut table, now) = (Table::default(), Instant::now());
        assert!(table.learn(&listing(), now));
        assert_eq!(
            table.pod("uid-1"),
            Some(&Arc::new(PodNames { namespace: "shop".into(), name: "web-0".into() }))
        );
        assert!(table.is_sandbox("5a5a5a5a5a5a"));
        let nginx = Arc::new(ContainerNames { name: "nginx".into(), image: "sha256:1".into() });
        assert_eq!(table.container("c0c0c0c0c0c0"), Some(&nginx));
        assert!(!table.learn(&listing(), now));

        let mut renamed = listing();
        renamed.containers[0].labels = Labels::default();
        renamed.containers[0].user_specified_image = "nginx:1.27".into();
        assert!(table.learn(&renamed, now));
        let metadata = Arc::new(ContainerNames { name: "metadata".into(), image: "nginx:1.27".into() });
        assert_eq!(table.container("c0c0c0c0c0c0"), Some(&metadata));
    }

    #[test]
    fn containers_of_one_name_and_image_share_both() {
        let (mut table, now) = (Table::default(), Instant::now());
        let mut two = listing();
        let mut other = two.containers[0].clone();
        other.id = "d0d0d0d0d0d0".into();
        two.containers.push(other);
        table.learn(&two, now);
        let [one, other] = ["c0c0c0c0c0c0", "d0d0d0d0d0d0"].map(|id| table.container(id).unwrap());
        assert!(Arc::ptr_eq(one, other));
        table.learn(&Listing::default(), now + KEPT + Duration::from_secs(1));
        assert!(table.names.is_empty());
    }

    #[test]
    fn removed_objects_keep_their_names_for_ten_minutes() {
        let (mut table, now) = (Table::default(), Instant::now());
        table.learn(&listing(), now);
        assert!(!table.learn(&Listing::default(), now + KEPT));
        assert!(table.pod("uid-1").is_some() && table.container("c0c0c0c0c0c0").is_some());
        assert!(table.learn(&Listing::default(), now + KEPT + Duration::from_secs(1)));
        assert!(table.pod("uid-1").is_none() && table.container("c0c0c0c0c0c0").is_none());
        assert!(!table.is_sandbox("5a5a5a5a5a5a"));
    }

    #[test]
    fn an_empty_answer_names_nothing() {
        let mut table = Table::default();
        let empty = Listing { sandboxes: vec![Default::default()], containers: vec![Default::default()] };
        assert!(!table.learn(&empty, Instant::now()));
    }
}
