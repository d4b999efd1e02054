//! Events of the hierarchy, and the report of what enforces node allocatable.

use jiff::Timestamp;
use nodewarden_model::{Detail, PodRef};
use tracing::info;

use super::{Reconciler, Wanted};
use crate::enforcement::{Enforced, EnforcementResult};

impl Reconciler {
    /// Reports whether the limits that enforce node allocatable are set. Nothing is said of limits that are
    /// held back.
    pub(super) fn report_enforcement(&mut self, wanted: &Wanted) {
        let manager = &self.setup.manager;
        for cgroup in Enforced::of(&self.setup.settings) {
            let path = match &cgroup {
                Enforced::Pods => Ok(manager.path(&self.setup.levels.kubepods)),
                Enforced::Reserved(_, name) => {
                    nodewarden_qos::reserved::name(name, manager.kind()).map(|name| manager.path(&name))
                }
            };
            // A name that is none has been refused at the start.
            let Ok(path) = path else { continue };
            if self.withheld.contains_key(&*path) {
                continue;
            }
            let problem = self.problems.about(&path);
            let result = match (problem.is_empty(), wanted.limits.contains_key(&*path)) {
                (false, _) => EnforcementResult::Failed(problem),
                (true, true) => EnforcementResult::Done,
                (true, false) => continue,
            };
            if let Some((reason, message)) = self.enforcement.report(&cgroup, &path, result) {
                self.node_event(reason, message);
            }
        }
    }

    pub(super) fn node_event(&self, reason: &str, message: String) {
        info!("{reason}: {message}");
        let detail = Detail::Hierarchy { reason: reason.into(), message };
        self.setup.journal.append(Timestamp::now(), "", None, detail);
    }

    pub(super) fn event(&self, path: &str, wanted: &Wanted, reason: &str, message: String) {
        let detail = Detail::Hierarchy { reason: reason.into(), message };
        self.setup.journal.append(Timestamp::now(), path, pod_ref(wanted, path), detail);
    }
}

pub(super) fn pod_ref(wanted: &Wanted, path: &str) -> Option<PodRef> {
    let pod = &wanted.pods.get(path)?.pod;
    Some(PodRef {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        ..PodRef::default()
    })
}
