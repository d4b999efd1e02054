//! Where workers hang out how their pods stand, and their manager what the manifests want, for others to read.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::source::Sourced;
use nodewarden_model::PodView;

/// Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<Hung>>);

#[derive(Debug, Default)]
struct Hung {
    /// By uid.
    pods: BTreeMap<String, Arc<PodView>>,
    wanted: Option<Wanted>,
}

/// What the manifests want.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub pods: Arc<[Sourced]>,
    /// Every manifest could be read: what is not wanted is gone.
    pub whole: bool,
}

impl Board {
    pub fn show(&self, view: PodView) {
        let view = Arc::new(view);
        self.lock().pods.insert(view.pod.uid.clone(), view);
    }

    pub fn take_down(&self, uid: &str) {
        self.lock().pods.remove(uid);
    }

    /// From now on this is wanted; every pod that it is about, and every one of an earlier agent, is hung out.
    pub fn want(&self, wanted: Wanted) {
        self.lock().wanted = Some(wanted);
    }

    /// None as long as the agent starts.
    pub fn wanted(&self) -> Option<Wanted> {
        self.lock().wanted.clone()
    }

    /// Whether this pod hangs here.
    pub fn has(&self, uid: &str) -> bool {
        self.lock().pods.contains_key(uid)
    }

    /// By namespace and name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        let mut pods: Vec<_> = self.lock().pods.values().cloned().collect();
        pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
        pods
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Hung> {
        self.0.lock()
    }
}
