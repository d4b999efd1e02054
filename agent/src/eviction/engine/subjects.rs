//! Which pods there are to choose from.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::container::PodPaths;
use crate::eviction::gather::Subject;
use crate::lifecycle::{Board, EVICTED, Places};
use crate::view::{PodPhase, PodView};

/// Who knows the pods.
pub trait Subjects: Send + Sync + 'static {
    /// Every pod that may have processes, files or volumes.
    fn pods(&self) -> Vec<Subject>;

    /// Pods by uid that are on their way out because they were evicted.
    fn leaving(&self) -> Vec<String>;

    /// Whether those of an earlier agent are all among them. Until then nobody is chosen: it would be whoever happens to be
    /// known first.
    fn are_known(&self) -> bool {
        true
    }
}

/// Those that this agent runs.
pub struct Managed {
    pub board: Board,
    pub places: Places,
    pub homes: PathBuf,
    pub logs_dir: PathBuf,
    /// Every pod of an earlier agent was looked at once.
    pub adopted: Arc<AtomicBool>,
}

impl Subjects for Managed {
    fn pods(&self) -> Vec<Subject> {
        let places = self.places.borrow().clone();
        let is_over = |view: &PodView| {
            matches!(view.phase, PodPhase::Succeeded | PodPhase::Failed) && view.terminating.is_none()
        };
        let subject = |view: Arc<PodView>| {
            let place = places.get(&view.pod.uid)?;
            let paths = PodPaths::new(&self.homes, &self.logs_dir, &view.pod);
            let known = view.containers.iter().filter(|container| !container.id.is_empty());
            Some(Subject {
                pod: view.pod.clone(),
                cgroup: place.path.clone(),
                started: view.started,
                home: paths.home,
                logs: paths.logs,
                containers: known.map(|c| (c.name.clone(), c.id.clone())).collect(),
            })
        };
        self.board.pods().into_iter().filter(|view| !is_over(view)).filter_map(subject).collect()
    }

    fn leaving(&self) -> Vec<String> {
        let leaves = |view: &Arc<PodView>| view.terminating.is_some() && view.reason == EVICTED;
        self.board.pods().iter().filter(|view| leaves(view)).map(|view| view.pod.uid.clone()).collect()
    }

    fn are_known(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }
}
