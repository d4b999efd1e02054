//! The pods that eviction chooses from in mode manage.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nodewarden_eviction::EVICTED;
use nodewarden_eviction::engine::Subjects;
use nodewarden_eviction::gather::Subject;
use nodewarden_lifecycle::Places;
use nodewarden_model::{PodPhase, PodView};
use nodewarden_pods::paths::PodPaths;
use nodewarden_pods::status::Board;

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
