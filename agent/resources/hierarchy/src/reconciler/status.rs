//! Publishes the status of the hierarchy for the status command and the metrics.

use super::Reconciler;
use crate::destroyer::Destroyer;
use crate::node_resources::node_resources;
use nodewarden_model::{HierarchyStatus, PodCgroup};

impl Reconciler {
    /// Updates the published status and the pod cgroups.
    pub(super) fn publish_status(&self, destroyer: &Destroyer) {
        let pods = self.wanted.pods.iter().map(|(path, desired)| PodCgroup {
            uid: desired.pod.uid.clone(),
            namespace: desired.pod.namespace.clone(),
            name: desired.pod.name.clone(),
            qos: Some(desired.pod.qos),
            path: path.clone(),
            problem: self.problem_of(&desired.pod.uid, path),
        });
        let removing = destroyer.removing().iter().map(String::as_str);
        let failed =
            self.setup.owned.pods().keys().map(String::as_str).filter(|path| {
                !self.wanted.pods.contains_key(*path) && !destroyer.removing().contains(*path)
            });
        let removing = removing.chain(failed).map(|path| PodCgroup {
            uid: self.setup.owned.pods().get(path).map(|e| e.uid.clone()).unwrap_or_default(),
            namespace: String::new(),
            name: String::new(),
            qos: None,
            path: path.to_owned(),
            problem: self.problems.about(path),
        });
        let owned = self.setup.owned.pods();
        let status = HierarchyStatus {
            driver: self.setup.manager.kind().to_string(),
            driver_from: self.setup.driver_from.to_owned(),
            kubepods: self.setup.manager.path(&self.setup.levels.kubepods),
            pods: pods.collect(),
            removing: removing.collect(),
            foreign: self.foreign.iter().cloned().collect(),
            last_reconcile: self.reconciled,
            corrections: self.corrections,
            resources: node_resources(&self.setup.capacity.borrow(), &self.setup.settings),
            withheld_limits: self.withheld.values().map(|limits| *limits as u64).sum(),
            problems: self.problems.all_but(|about| owned.contains_key(about)),
        };
        self.publish_pod_cgroups(destroyer);
        *self.status.lock() = status;
    }

    /// What is wrong with the cgroup of a wanted pod.
    fn problem_of(&self, uid: &str, path: &str) -> String {
        let former = self.formers.get(uid).map(|former| format!("the pod is ended in {former} before"));
        let own = Some(self.problems.about(path)).filter(|own| !own.is_empty());
        own.into_iter().chain(former).collect::<Vec<_>>().join("; ")
    }
}
