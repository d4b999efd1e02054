//! Pod cgroups that are not wanted any more, and those that this agent has not created.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tracing::{info, warn};

use super::{Reconciler, Setup, Wanted};
use crate::decide::{Known, Verdict, decide};
use crate::destroyer::{Destroyer, Outcome};
use crate::sweeper::Swept;
use crate::timed::{Operation, timed};
use nodewarden_machine::cgroup::control::{CpuShare, Limits, Presence};
use nodewarden_model::{Detail, PodRef};

impl Reconciler {
    /// Sorts the existing pod cgroups. Foreign ones are searched for only in a full reconcile.
    pub(super) fn classify(&mut self, wanted: &Wanted, whole: bool, destroyer: &Destroyer) -> Verdict {
        let paths: BTreeSet<Arc<str>> = wanted.pods.keys().cloned().collect();
        let wanted_uids = wanted.pods.values().map(|desired| &*desired.pod.uid).collect();
        let mut present = if whole { self.pods_below_levels() } else { self.foreign.clone() };
        let owned = self.setup.owned.pods().keys().filter(|path| !paths.contains(*path));
        for path in owned {
            // Others do not remove what is this agent's; where they do, a full reconcile finds it.
            let is_known = !whole && self.existing.contains(path);
            if !is_known && self.setup.manager.presence(path) == Presence::Nowhere {
                self.existing.remove(path);
            } else {
                self.existing.insert(path.clone());
                present.insert(path.clone());
            }
        }
        let known = Known {
            wanted: &paths,
            wanted_uids: &wanted_uids,
            owned: self.setup.owned.pods(),
            present: &present,
            removing: destroyer.removing(),
        };
        decide(&known, self.keep.as_ref())
    }

    /// Children of the levels that are named like pod cgroups. Notes which of them are in every hierarchy.
    fn pods_below_levels(&mut self) -> BTreeSet<Arc<str>> {
        let Self { setup, problems, everywhere, .. } = self;
        let mut present = BTreeSet::new();
        everywhere.clear();
        let levels = [&setup.levels.kubepods, &setup.levels.burstable, &setup.levels.best_effort];
        for level in levels.map(|level| setup.manager.path(level)) {
            match setup.manager.children_by_presence(&level) {
                Ok(children) => {
                    for (name, is_everywhere) in children.into_iter().filter(|(name, _)| is_pod(name)) {
                        let path = setup.owned.path(&format!("{level}/{name}"));
                        if is_everywhere {
                            everywhere.insert(path.clone());
                        }
                        present.insert(path);
                    }
                }
                Err(error) => problems.add(&level, error.to_string()),
            }
        }
        present
    }

    /// Removes our pod cgroups that are not wanted any more.
    pub(super) fn remove_unwanted(
        &mut self,
        verdict: Verdict,
        wanted: &Wanted,
        whole: bool,
        destroyer: &mut Destroyer,
    ) {
        let before = std::mem::take(&mut self.held);
        self.remove_formers(&verdict.former, wanted, destroyer);
        for path in &verdict.remove {
            let uid = self.setup.owned.pods().get(path).map(|e| &*e.uid);
            if uid.is_some_and(|uid| (self.setup.has_volumes)(uid)) {
                self.hold(path, before.contains(path));
                continue;
            }
            info!(path = &**path, "removing a pod's cgroup");
            destroyer.remove(path);
        }
        for path in &verdict.forget {
            self.setup.owned.remove(path);
        }
        self.foreign = verdict.foreign.into_iter().collect();
        if whole {
            self.find_unused();
        }
        if let Err(error) = self.setup.owned.flush() {
            self.problems.add("state", error.to_string());
        }
        self.remove_former_levels();
    }

    /// Removes the levels that this agent created for other settings, as soon as no process and no cgroup is
    /// in them.
    fn remove_former_levels(&mut self) {
        let Setup { manager, settings, levels, own_levels, journal, .. } = &mut self.setup;
        let current = settings.cgroups_per_qos.then_some(&*levels);
        for path in own_levels.former(manager, current) {
            if manager.presence(&path) != Presence::Nowhere {
                match manager.remove_childless(&path) {
                    // The one above it has a cgroup, too.
                    Ok(false) => continue,
                    Ok(true) => {
                        let message = "created with other settings, and nothing is in it any more".to_owned();
                        info!(path, "removed a level: {message}");
                        let detail = Detail::Hierarchy { reason: "FormerLevelRemoved".into(), message };
                        journal.append(Timestamp::now(), path.as_str(), None, detail);
                    }
                    Err(error) => {
                        self.problems.add(&path, error.to_string());
                        continue;
                    }
                }
            }
            if let Err(error) = own_levels.remove(&path) {
                self.problems.add("state", error.to_string());
            }
        }
    }

    /// Removes the cgroups that pods had with other settings once nothing runs in them any more. Until then
    /// their pods' workers end what runs there (kubelet `syncPod`: a pod whose cgroup is missing and that has
    /// run is killed with its grace period).
    fn remove_formers(&mut self, formers: &[Arc<str>], wanted: &Wanted, destroyer: &mut Destroyer) {
        let before = std::mem::take(&mut self.formers);
        let now: BTreeMap<Arc<str>, Arc<str>> = formers
            .iter()
            .filter_map(|path| Some((self.setup.owned.pods().get(path)?.uid.clone(), path.clone())))
            .collect();
        for (uid, path) in now {
            // One whose processes cannot be read is taken to have some.
            if self.setup.manager.pids(&path).is_ok_and(|pids| pids.is_empty()) {
                info!(path = &*path, "removing the cgroup that a pod had with other settings");
                destroyer.remove(&path);
                continue;
            }
            if before.get(&uid) != Some(&path)
                && let Some(own) = wanted.pods.iter().find(|(_, desired)| *desired.pod.uid == *uid)
            {
                let message =
                    format!("the pod still runs in {path}, its cgroup with other settings: it is ended");
                self.event(own.0, wanted, "PodCgroupChanged", message);
            }
            self.held.insert(path.clone());
            self.formers.insert(uid, path);
        }
    }

    /// Finds foreign cgroups that have been without a process for long enough.
    fn find_unused(&mut self) {
        let manager = &self.setup.manager;
        let is_empty = |path: &&Arc<str>| manager.pids(path).is_ok_and(|pids| pids.is_empty());
        let empty = self.foreign.iter().filter(is_empty).cloned().collect();
        self.unused = self.empty_foreign.observe(&empty, Instant::now(), self.setup.reconcile);
    }

    /// Handles the removal of an unused foreign cgroup. Returns whether another reconcile is needed at once.
    pub fn swept(&mut self, swept: &Swept) -> bool {
        let path = &swept.path;
        match &swept.result {
            Ok(()) => {
                let message = "no process was in it, and the runtime does not know its pod".to_owned();
                info!(path = &**path, "removed an unused pod cgroup: {message}");
                let detail = Detail::Hierarchy { reason: "UnusedPodCgroupRemoved".into(), message };
                self.setup.journal.append(Timestamp::now(), &**path, None, detail);
                self.foreign.remove(path);
                // What waited for it.
                self.again.extend(self.withheld.keys().cloned());
                true
            }
            Err(error) => {
                warn!(path = &**path, "an unused pod cgroup cannot be removed: {error}");
                self.problems.add(path, error.clone());
                false
            }
        }
    }

    /// Syncs the record to disk, for a crash of the machine.
    pub(super) fn sync_records(&mut self) {
        if let Err(error) = self.setup.owned.sync() {
            self.problems.add("state", error.to_string());
        }
    }

    /// Keeps a cgroup, as the kubelet's `cleanupOrphanedPodCgroups` does: while volumes exist, a process may
    /// still write to them.
    fn hold(&mut self, path: &Arc<str>, already: bool) {
        if !already {
            info!(path = &**path, "desired with the least CPU until the pod's volumes are gone");
            if let Err(error) = timed(Operation::Update, || self.setup.manager.reduce_cpu(path)) {
                self.problems.add(path, error.to_string());
                return;
            }
            // If the pod comes back, restoring its share is not a correction.
            let least = Limits { cpu: Some(CpuShare::Shares(2)), ..Limits::default() };
            let written = self.written.entry(path.clone()).or_default();
            Arc::make_mut(written).cpu = self.setup.manager.settled(&least).cpu;
        }
        self.held.insert(path.clone());
    }

    /// Handles the end of a removal. Returns whether another reconcile is needed at once.
    pub fn destroyed(&mut self, outcome: &Outcome, destroyer: &mut Destroyer) -> bool {
        destroyer.finished(&outcome.path);
        let uid = self.setup.owned.pods().get(&outcome.path).map(|e| e.uid.to_string());
        let pod = uid.map(|uid| PodRef { uid, ..PodRef::default() });
        let (reason, message) = match &outcome.result {
            Ok(killed) => {
                self.written.remove(&outcome.path);
                ("PodCgroupDestroyed", format!("gone after {:.0?}, {killed} processes killed", outcome.took))
            }
            Err(why) => ("DestroyFailed", why.clone()),
        };
        info!(path = &*outcome.path, "{reason}: {message}");
        let detail = Detail::Hierarchy { reason: reason.into(), message: message.clone() };
        self.setup.journal.append(Timestamp::now(), &*outcome.path, pod, detail);
        if outcome.result.is_err() {
            // The next reconcile tries again.
            self.problems.add(&outcome.path, message);
            self.publish_status(destroyer);
            return false;
        }
        self.setup.owned.remove(&outcome.path);
        self.existing.remove(&outcome.path);
        // A pod of the same uid may wait for its cgroup.
        self.again.insert(outcome.path.clone());
        true
    }
}

/// Whether a child of a level is named like a pod's cgroup, by either driver.
fn is_pod(name: &str) -> bool {
    name.starts_with("pod") || (name.ends_with(".slice") && name.contains("-pod"))
}
