//! Publishes the status of the hierarchy for the status command and the metrics.

use std::sync::Arc;

use super::Reconciler;
use crate::destroyer::Destroyer;
use crate::node_resources::node_resources;
use crate::status::PublishedStatus;
use nodewarden_model::{HierarchyStatus, PodCgroup};

impl Reconciler {
    /// Updates the published status and the pod cgroups.
    pub(super) fn publish_status(&self, destroyer: &Destroyer) {
        let pods = self.wanted.pods.clone();
        let problem = |path: &Arc<str>, uid: &str| Some((path.clone(), self.problem_of(uid, path)?));
        let problems = pods.iter().filter_map(|(path, desired)| problem(path, &desired.pod.uid)).collect();
        let removing = destroyer.removing().iter();
        let failed = self.setup.owned.pods().keys();
        let failed = failed.filter(|path| !pods.contains_key(*path) && !destroyer.removing().contains(*path));
        let removing = removing.chain(failed).map(|path| PodCgroup {
            uid: self.setup.owned.pods().get(path).map(|e| e.uid.to_string()).unwrap_or_default(),
            namespace: String::new(),
            name: String::new(),
            qos: None,
            path: path.to_string(),
            problem: self.problems.about(path),
        });
        let owned = self.setup.owned.pods();
        let rest = HierarchyStatus {
            driver: self.setup.manager.kind().to_string(),
            driver_from: self.setup.driver_from.to_owned(),
            kubepods: self.setup.manager.path(&self.setup.levels.kubepods),
            pods: Vec::new(),
            removing: removing.collect(),
            foreign: self.foreign.iter().map(ToString::to_string).collect(),
            last_reconcile: self.reconciled,
            corrections: self.corrections,
            resources: node_resources(&self.setup.capacity.borrow(), &self.setup.settings),
            withheld_limits: self.withheld.values().map(|limits| *limits as u64).sum(),
            problems: self.problems.all_but(|about| owned.contains_key(about)),
        };
        self.publish_pod_cgroups(destroyer);
        self.status.publish(PublishedStatus { rest, pods, problems });
    }

    /// What is wrong with the cgroup of a wanted pod, if anything is.
    fn problem_of(&self, uid: &str, path: &str) -> Option<String> {
        let former = self.formers.get(uid).map(|former| format!("the pod is ended in {former} before"));
        let own = Some(self.problems.about(path)).filter(|own| !own.is_empty());
        let all: Vec<_> = own.into_iter().chain(former).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
