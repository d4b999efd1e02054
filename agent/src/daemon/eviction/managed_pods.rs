//! The pods that eviction chooses from in mode manage.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::daemon::context::Context;
use nodewarden_eviction::Subject;
use nodewarden_eviction::engine::Subjects;
use nodewarden_lifecycle::{Adoption, Places};
use nodewarden_model::{EvictionCause, PodPhase, PodView};
use nodewarden_pods::paths::PodPaths;
use nodewarden_pods::status::PodStatusCache;
use tokio::sync::watch;

/// The pods that this agent runs.
pub struct ManagedPods {
    pods: PodStatusCache,
    /// Their cgroups, by uid.
    cgroups: Places,
    pods_dir: PathBuf,
    logs_dir: PathBuf,
    /// Every pod of an earlier agent was looked at once.
    adopted: Arc<AtomicBool>,
}

impl ManagedPods {
    pub fn new(context: Context<'_>, cgroups: Places, adoption: &Adoption) -> Self {
        Self {
            pods: context.pods.clone(),
            cgroups,
            pods_dir: context.config.pods_dir(),
            logs_dir: context.config.pods.logs_dir.clone(),
            adopted: adoption.is_over(),
        }
    }
}

impl Subjects for ManagedPods {
    fn pods(&self) -> Vec<Subject> {
        let cgroups = self.cgroups.borrow().clone();
        let is_over = |view: &PodView| {
            matches!(view.phase, PodPhase::Succeeded | PodPhase::Failed) && view.terminating.is_none()
        };
        let subject = |view: Arc<PodView>| {
            let cgroup = cgroups.get(&view.pod.uid)?;
            let paths = PodPaths::new(&self.pods_dir, &self.logs_dir, &view.pod);
            let known = view.containers.iter().filter(|container| !container.id.is_empty());
            Some(Subject {
                pod: view.pod.clone(),
                cgroup: cgroup.path.to_string(),
                started: view.started,
                pod_dir: paths.pod_dir,
                logs: paths.logs,
                containers: known.map(|c| (c.name.clone(), c.id.clone())).collect(),
            })
        };
        self.pods.pods().into_iter().filter(|view| !is_over(view)).filter_map(subject).collect()
    }

    fn leaving(&self) -> Vec<String> {
        let by_eviction = |view: &PodView| {
            matches!(view.evicted, Some(EvictionCause::NodePressure | EvictionCause::OwnLimit))
        };
        let leaves = |view: &Arc<PodView>| view.terminating.is_some() && by_eviction(view);
        self.pods.pods().iter().filter(|view| leaves(view)).map(|view| view.pod.uid.clone()).collect()
    }

    fn are_known(&self) -> bool {
        self.adopted.load(Ordering::Acquire)
    }

    fn any_change(&self) -> Option<watch::Receiver<()>> {
        Some(self.pods.any_change())
    }
}
