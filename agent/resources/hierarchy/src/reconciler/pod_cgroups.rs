//! Publishes the state of pod cgroups.

use std::sync::Arc;

use super::Reconciler;
use crate::desired::{PodCgroupState, PodCgroupStates};
use crate::destroyer::Destroyer;
use nodewarden_machine::cgroup::control::DriverKind;

impl Reconciler {
    /// Publishes the states if they changed.
    pub(super) fn publish_pod_cgroups(&self, destroyer: &Destroyer) {
        let places = if self.setup.settings.cgroups_per_qos {
            self.per_pod_states(destroyer)
        } else {
            self.shared_states()
        };
        self.pod_cgroups.send_if_modified(|published| {
            let news = **published != places;
            if news {
                *published = Arc::new(places);
            }
            news
        });
    }

    fn per_pod_states(&self, destroyer: &Destroyer) -> PodCgroupStates {
        let pods = &self.wanted.pods;
        let problem = |path: &str| {
            if destroyer.removing().contains(path) {
                return Some(String::from("its cgroup is being removed"));
            }
            if !pods.contains_key(path) {
                return Some(String::from("its cgroup is to be removed"));
            }
            self.failed.get(path).cloned()
        };
        let owned = self.setup.owned.pods().iter().map(|(path, entry)| (path, &entry.uid));
        let wanted = pods.iter().map(|(path, desired)| (path, &desired.pod.uid));
        let is_former = |path: &String| self.formers.values().any(|former| former == path);
        owned
            .filter(|(path, _)| !is_former(path))
            .chain(wanted)
            .filter(|(path, _)| self.existing.contains(*path) || self.failed.contains_key(*path))
            .map(|(path, uid)| {
                let cgroup_parent = match self.setup.manager.kind() {
                    DriverKind::Cgroupfs => path.clone(),
                    DriverKind::Systemd => path.rsplit('/').next().unwrap_or(path).to_owned(),
                };
                let version = self.versions.get(path).copied().unwrap_or(0);
                let former = self.formers.get(uid).cloned();
                let (path, problem) = (path.clone(), problem(path));
                (uid.clone(), PodCgroupState { path, cgroup_parent, problem, former, version })
            })
            .collect()
    }

    /// Without `cgroupsPerQOS` the runtime chooses the cgroup of a pod (the kubelet's
    /// `podContainerManagerNoop`).
    fn shared_states(&self) -> PodCgroupStates {
        let place = |version| PodCgroupState {
            path: self.setup.settings.cgroup_root.clone(),
            cgroup_parent: String::new(),
            problem: None,
            former: None,
            version,
        };
        self.keep
            .iter()
            .flat_map(|k| &k.pods)
            .map(|desired| (desired.pod.uid.clone(), place(desired.version)))
            .collect()
    }
}
