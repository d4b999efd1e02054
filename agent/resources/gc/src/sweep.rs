//! Removing dead containers, dead sandboxes and the logs that they leave (kubelet `containerGC.GarbageCollect`).

use jiff::Timestamp;

use super::collector::Inner;
use super::containers::{self, Pods, Present};
use super::logs::{self, Orphan};
use super::run::Run;
use super::{GcError, plan};
use nodewarden_cri::Listing;
use nodewarden_pods::volume::VolumeError;

impl Inner {
    /// Removes what is too much. `all_unused`: also everything of pods that have ended, and the logs of those
    /// that had to make way.
    ///
    /// # Errors
    /// The runtime or the logs cannot be listed. A removal that fails is told and no error.
    pub async fn collect_containers(&self, run: &mut Run, all_unused: bool) -> Result<(), GcError> {
        // The list first: whatever is in it had its pod on the board, unless that is gone.
        let listing = self.runtime.list().await?;
        let facts = containers::facts(&listing, &self.owner, &self.pods());
        let now = Timestamp::now();
        let plan = plan::containers(&facts.dead, &facts.sandboxes, &self.settings, now, all_unused);
        for id in &plan.containers {
            let name = facts.dead.iter().find(|dead| dead.id == *id);
            let name = name.map(|dead| format!("{} of pod {}", dead.name, dead.uid)).unwrap_or_default();
            if run.dry {
                run.planned("container", id, name);
                continue;
            }
            match self.runtime.remove_container(id).await {
                Ok(()) => run.removed("container", id, name, None),
                Err(error) => run.failed("container", id, name, error.to_string()),
            }
        }
        // What is left in them tells the runtime.
        let listing =
            if plan.sandboxes.is_empty() || run.dry { listing } else { self.runtime.list().await? };
        for id in &plan.sandboxes {
            let uid = facts.sandboxes.iter().find(|fact| fact.id == *id).map(|fact| fact.uid.as_str());
            let name = format!("of pod {}", uid.unwrap_or_default());
            if run.dry {
                run.planned("sandbox", id, name);
            } else if containers::is_empty_and_dead(&listing, id) {
                match self.runtime.remove_sandbox(id).await {
                    Ok(()) => run.removed("sandbox", id, name, None),
                    Err(error) => run.failed("sandbox", id, name, error.to_string()),
                }
            }
        }
        self.collect_logs(run, &plan.containers, all_unused).await
    }

    /// `planned`: containers that would be gone in a run that is only planned.
    async fn collect_logs(&self, run: &mut Run, planned: &[String], all_unused: bool) -> Result<(), GcError> {
        let root = self.logs_dir.clone();
        let found = tokio::task::spawn_blocking(move || logs::scan(&root)).await;
        let found = found.map_err(|_| GcError::Died)??;
        if found.is_empty() {
            return Ok(());
        }
        let Listing { sandboxes, mut containers } = self.runtime.list().await?;
        if run.dry {
            containers.retain(|container| !planned.contains(&container.id));
        }
        let present = Present::new(&Listing { sandboxes, containers });
        for orphan in logs::orphans(&found, &self.pods(), &present, all_unused) {
            let id = self.logs_dir.join(orphan.path()).to_string_lossy().into_owned();
            if run.dry {
                run.planned("logs", &id, String::new());
                continue;
            }
            match self.remove_logs(orphan).await {
                Ok(()) => run.removed("logs", &id, String::new(), None),
                Err(error) => run.failed("logs", &id, String::new(), error.to_string()),
            }
        }
        Ok(())
    }

    async fn remove_logs(&self, orphan: Orphan) -> Result<(), VolumeError> {
        // A pod of the same uid may have begun since.
        if let Orphan::Pod { uid, .. } = &orphan
            && !self.pods().is_forgotten(uid)
        {
            return Ok(());
        }
        let root = self.logs_dir.clone();
        let removed = tokio::task::spawn_blocking(move || logs::remove(&root, &orphan)).await;
        // A panic in there is a fault of ours; it is tried again.
        removed.unwrap_or(Ok(()))
    }

    fn pods(&self) -> Pods {
        // The wanted last: a pod of theirs may have begun since, and is not gone.
        let pods = self.board.pods();
        Pods::new(pods, &self.board.wanted().unwrap_or_default())
    }
}
