//! Which pods are on the node: those that the API server has bound to it, joined with the cgroups that are
//! there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use nodewarden_augment::{SeenContainer, SeenPod};
use nodewarden_kube::Connection;
use nodewarden_kube::source::watch;
use nodewarden_manifest::Pod;
use nodewarden_model::{Identity, PodRef};
use nodewarden_observer::Observer;
use nodewarden_pods::source::{SourceGuard, SourcedPod};
use parking_lot::Mutex;

/// The pods of the API server by uid. Mirror pods are none of them: static pods are not written. Cloning
/// shares it.
#[derive(Debug, Clone, Default)]
pub struct ApiPods(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    pods: Mutex<BTreeMap<String, Known>>,
    /// How often they were replaced.
    version: AtomicU64,
}

#[derive(Debug, Clone)]
struct Known {
    pod: Arc<Pod>,
    stage: Stage,
}

/// How far a pod is, as the API server has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It neither has ended nor is being deleted.
    Stays,
    /// It is being deleted.
    Leaves,
    /// Its phase is final.
    Ended,
}

impl ApiPods {
    /// Follows them until the result is dropped. Must be called inside a tokio runtime.
    pub fn follow(&self, connection: &Connection) -> SourceGuard {
        let known = self.clone();
        watch(connection.clone(), Box::new(move |desired| known.replace(&desired.pods)))
    }

    fn replace(&self, pods: &[SourcedPod]) {
        let known = |own: &SourcedPod| {
            let stage = match (own.over.is_some(), own.deletion.is_some()) {
                (true, _) => Stage::Ended,
                (_, true) => Stage::Leaves,
                _ => Stage::Stays,
            };
            (own.pod.uid.clone(), Known { pod: own.pod.clone(), stage })
        };
        *self.0.pods.lock() = pods.iter().map(known).collect();
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// The pod of this uid, also one that ends.
    pub fn get(&self, uid: &str) -> Option<Arc<Pod>> {
        self.0.pods.lock().get(uid).map(|known| known.pod.clone())
    }

    /// The pod of this uid, and how far it is.
    pub fn staged(&self, uid: &str) -> Option<(Arc<Pod>, Stage)> {
        self.0.pods.lock().get(uid).map(|known| (known.pod.clone(), known.stage))
    }

    /// The pod of this uid, for the journal.
    pub fn place(&self, uid: &str) -> Option<PodRef> {
        let known = self.get(uid)?;
        Some(PodRef {
            uid: uid.to_owned(),
            namespace: known.namespace.clone(),
            name: known.name.clone(),
            ..PodRef::default()
        })
    }

    /// The uid of the pod of this name.
    pub fn uid(&self, namespace: &str, name: &str) -> Option<String> {
        let known = self.0.pods.lock();
        let mut pods = known.values().map(|known| &known.pod);
        pods.find(|pod| pod.namespace == namespace && pod.name == name).map(|pod| pod.uid.clone())
    }

    /// While this stays the same, [`Self::seen_now`] returns the same pods and containers, but for sandboxes
    /// that the runtime has not named yet.
    pub fn version(&self, observer: &Observer) -> (u64, [u64; 2]) {
        (self.0.version.load(Ordering::Acquire), observer.registry.lock().version())
    }

    /// The pods that stay and whose cgroups are there, now.
    pub fn seen_now(&self, observer: &Observer) -> Vec<SeenPod> {
        let pods = self.0.pods.lock().clone();
        seen(observer, &pods)
    }

    /// Returns the pods that may be written: they stay, and their cgroups are there.
    pub fn seen(&self, observer: Arc<Observer>) -> Box<dyn Fn() -> Vec<SeenPod> + Send> {
        let known = self.clone();
        Box::new(move || known.seen_now(&observer))
    }
}

fn seen(observer: &Observer, pods: &BTreeMap<String, Known>) -> Vec<SeenPod> {
    let groups: Vec<(Arc<Identity>, Arc<str>, Timestamp)> = {
        let registry = observer.registry.lock();
        let there = registry.groups().filter(|group| group.removed.is_none());
        let there = there.filter(|group| group.identity.pod_uid().is_some_and(|uid| pods.contains_key(uid)));
        there.map(|group| (group.identity.clone(), group.path.clone(), group.created)).collect()
    };
    let now = Timestamp::now();
    let age = |created: Timestamp| now.duration_since(created).try_into().unwrap_or_default();
    let mut found: BTreeMap<String, SeenPod> = BTreeMap::new();
    for (identity, path, created) in &groups {
        let Identity::Pod { uid, qos, .. } = &**identity else { continue };
        let Some(known) = pods.get(uid).filter(|known| known.stage == Stage::Stays) else { continue };
        let age = age(*created);
        let seen = SeenPod {
            pod: known.pod.clone(),
            qos: *qos,
            cgroup: path.to_string(),
            age,
            containers: Vec::new(),
        };
        found.insert(uid.clone(), seen);
    }
    for (identity, path, created) in &groups {
        let Identity::Container { pod_uid, .. } = &**identity else { continue };
        let Some(pod) = found.get_mut(pod_uid) else { continue };
        if let Identity::Container { id, names, sandbox: false, .. } = &*observer.names.name(identity) {
            let name = names.as_ref().map(|names| names.name.clone()).unwrap_or_default();
            let container =
                SeenContainer { name, id: id.clone(), cgroup: path.to_string(), age: age(*created) };
            pod.containers.push(container);
        }
    }
    found.into_values().collect()
}
