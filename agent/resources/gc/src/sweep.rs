//! Removes dead containers, dead sandboxes and the logs of both (kubelet `containerGC.GarbageCollect`).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_cri::{Listing, RuntimeError};
use nodewarden_pods::volume::VolumeError;
use nodewarden_pods::{log_links, log_owner};
use nodewarden_tasks::blocking;
use tracing::debug;

use super::containers::{self, Pods, Present};
use super::first_runs::FirstRuns;
use super::logs::{self, Orphan, PodLogs};
use super::metrics::Part;
use super::run::Run;
use super::shared::Shared;
use super::{GcError, plan};

/// What a run finds of logs and in the runtime.
pub struct Contents {
    logs: Result<Vec<PodLogs>, GcError>,
    /// What the runtime has, read after the logs.
    pub listing: Arc<Listing>,
}

/// When the runtime is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// At once, and others that wait for a list get it too.
    Shared,
}

impl Shared {
    /// Reads the logs and the runtime's list. `remove_links`: links to logs that are gone are removed first,
    /// in the same turn of a blocking thread. The logs of pods in `without` are not looked at, nor the links
    /// to them.
    ///
    /// # Errors
    /// The runtime cannot be listed. That logs cannot be listed is found when they are collected.
    pub async fn contents(
        &self,
        when: When,
        remove_links: bool,
        without: FirstRuns,
    ) -> Result<Contents, GcError> {
        // The logs first: a shared list is never older than the question for it, too.
        let logs = self.find_logs(remove_links, without).await;
        Ok(Contents { logs, listing: self.list(when).await? })
    }

    /// What the runtime has, as of a time after this call.
    pub async fn list(&self, when: When) -> Result<Arc<Listing>, RuntimeError> {
        match (when, &self.list) {
            (When::Shared, Some(shared)) => shared.list().await,
            _ => self.runtime.list().await.map(Arc::new),
        }
    }

    /// Removes dead containers and sandboxes beyond the limits. `all_unused`: also everything of pods that
    /// have ended, and the logs of evicted or preempted pods.
    ///
    /// # Errors
    /// The runtime or the logs cannot be listed. A failed removal is recorded in the run and is not an error.
    pub async fn collect_containers(
        &self,
        run: &mut Run,
        contents: Result<Contents, GcError>,
        all_unused: bool,
    ) -> Result<(), GcError> {
        // The logs are read before the list and the list before the pods: a log that is found has its
        // container in the list and its pod among the pods, unless they are gone.
        let Contents { logs, mut listing } = contents?;
        let facts = containers::facts(&listing, &self.ownership, &self.pods());
        let now = Timestamp::now();
        let plan = plan::containers(&facts.dead, &facts.sandboxes, &self.settings, now, all_unused);
        for id in &plan.containers {
            let name = facts.dead.iter().find(|dead| dead.id == *id);
            let name = name.map(|dead| format!("{} of pod {}", dead.name, dead.uid)).unwrap_or_default();
            if run.dry {
                run.planned(Part::Container, id, name);
                continue;
            }
            match self.runtime.remove_container(id).await {
                Ok(()) => {
                    run.removed(Part::Container, id, name, None);
                    // Others may read the same list; it is copied when there is something to remove.
                    let listing = Arc::make_mut(&mut listing);
                    listing.containers.retain(|container| container.id != *id);
                }
                Err(error) => run.failed(Part::Container, id, name, error.to_string()),
            }
        }
        // The runtime is asked again which containers are left in them.
        if !plan.sandboxes.is_empty() && !run.dry {
            listing = self.list(When::Now).await?;
        }
        for id in &plan.sandboxes {
            let uid = facts.sandboxes.iter().find(|fact| fact.id == *id).map(|fact| fact.uid.as_str());
            let name = format!("of pod {}", uid.unwrap_or_default());
            if run.dry {
                run.planned(Part::Sandbox, id, name);
            } else if containers::is_empty_and_dead(&listing, id) {
                match self.runtime.remove_sandbox(id).await {
                    Ok(()) => {
                        run.removed(Part::Sandbox, id, name, None);
                        Arc::make_mut(&mut listing).sandboxes.retain(|sandbox| sandbox.id != *id);
                    }
                    Err(error) => run.failed(Part::Sandbox, id, name, error.to_string()),
                }
            }
        }
        if run.dry && !plan.containers.is_empty() {
            let listing = Arc::make_mut(&mut listing);
            listing.containers.retain(|container| !plan.containers.contains(&container.id));
        }
        self.collect_logs(run, logs?, &listing, all_unused).await;
        // Those to logs that were gone before are removed with the reading of the logs.
        if run.count(Part::Logs) > 0 {
            self.remove_links().await;
        }
        Ok(())
    }

    /// The directories of logs, and what is in them.
    async fn find_logs(&self, remove_links: bool, without: FirstRuns) -> Result<Vec<PodLogs>, GcError> {
        let root = self.logs_dir.clone();
        let found = blocking::TIDYING.run(move || {
            if remove_links {
                remove_dangling(&root, &without.links());
            }
            logs::scan(&root, &without.uids())
        });
        let found = found.await;
        Ok(found.map_err(|_| GcError::Panicked)??)
    }

    /// Removes the logs of `found` whose containers or pods are gone. `listing`: what the runtime has, read
    /// after them.
    async fn collect_logs(&self, run: &mut Run, found: Vec<PodLogs>, listing: &Listing, all_unused: bool) {
        if found.is_empty() {
            return;
        }
        let present = Present::new(listing);
        let pods = self.pods();
        if !run.dry {
            self.mark_logs(logs::unmarked(&found, &pods).map(|name| self.logs_dir.join(name)).collect())
                .await;
        }
        for orphan in logs::orphans(&found, self.ownership.owner(), &pods, &present, all_unused) {
            let id = self.logs_dir.join(orphan.path()).to_string_lossy().into_owned();
            if run.dry {
                run.planned(Part::Logs, &id, String::new());
                continue;
            }
            match self.remove_logs(orphan).await {
                Ok(()) => run.removed(Part::Logs, &id, String::new(), None),
                Err(error) => run.failed(Part::Logs, &id, String::new(), error.to_string()),
            }
        }
    }

    /// Removes the links to logs that are gone ([`log_links`]).
    async fn remove_links(&self) {
        let logs = self.logs_dir.clone();
        // A panic is a bug of the agent; it is tried again.
        let _ = blocking::TIDYING.run(move || remove_dangling(&logs, &HashSet::new())).await;
    }

    /// Notes in these directories that their logs are this agent's.
    async fn mark_logs(&self, directories: Vec<PathBuf>) {
        if directories.is_empty() {
            return;
        }
        let owner = self.ownership.owner().to_owned();
        let marked = blocking::TIDYING.run(move || {
            for directory in directories {
                // Tried again by the next run; the logs stay until then.
                if let Err(error) = log_owner::mark(&directory, &owner) {
                    debug!("cannot note the owner of {}: {error}", directory.display());
                }
            }
        });
        // A panic is a bug of the agent; it is tried again.
        let _ = marked.await;
    }

    async fn remove_logs(&self, orphan: Orphan) -> Result<(), VolumeError> {
        // A pod with the same uid may have started since.
        if let Orphan::Pod { uid, .. } = &orphan
            && !self.pods().no_longer_exists(uid)
        {
            return Ok(());
        }
        let root = self.logs_dir.clone();
        let removed = blocking::TIDYING.run(move || logs::remove(&root, &orphan)).await;
        // A panic is a bug of the agent; the removal is tried again.
        removed.unwrap_or(Ok(()))
    }

    fn pods(&self) -> Pods {
        // Desired pods are read last: a pod may have started since, and is not gone.
        let pods = self.board.pods();
        Pods::new(pods, &self.board.desired().unwrap_or_default())
    }
}

fn remove_dangling(logs: &Path, without: &HashSet<String>) {
    let directory = log_links::directory(logs);
    if let Err(error) = log_links::remove_dangling(&directory, logs, without) {
        debug!("cannot remove links to logs in {}: {error}", directory.display());
    }
}
