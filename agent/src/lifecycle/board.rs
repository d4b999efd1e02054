//! Where workers hang out how their pods stand, for the surfaces to read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::view::PodView;

/// The pods by uid. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<BTreeMap<String, Arc<PodView>>>>);

impl Board {
    pub fn show(&self, view: PodView) {
        let view = Arc::new(view);
        self.lock().insert(view.pod.uid.clone(), view);
    }

    pub fn take_down(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// By namespace and name.
    pub fn pods(&self) -> Vec<Arc<PodView>> {
        let mut pods: Vec<_> = self.lock().values().cloned().collect();
        pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
        pods
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<PodView>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
