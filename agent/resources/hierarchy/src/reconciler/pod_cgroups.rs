//! Publishes the state of pod cgroups.

use std::sync::Arc;

use super::Reconciler;
use crate::desired::{PodCgroupState, PodCgroupStates};
use crate::destroyer::Destroyer;

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
        let (pods, owned) = (&self.wanted.pods, self.setup.owned.pods());
        let problem = |path: &str| {
            if destroyer.removing().contains(path) {
                return Some(String::from("its cgroup is being removed"));
            }
            if !pods.contains_key(path) {
                return Some(String::from("its cgroup is to be removed"));
            }
            self.failed.get(path).cloned()
        };
        let is_former = |path: &Arc<str>| self.formers.values().any(|former| former == path);
        let is_wanted = |path: &str, uid: &str| pods.get(path).is_some_and(|own| own.pod.uid == uid);
        let unwanted = owned.iter().filter(|(path, entry)| !is_former(path) && !is_wanted(path, &entry.uid));
        // The record holds the same uid.
        let shared = |path: &str, uid: &str| {
            let recorded = owned.get(path).map(|entry| &entry.uid).filter(|own| ***own == *uid);
            recorded.cloned().unwrap_or_else(|| uid.into())
        };
        unwanted
            .map(|(path, entry)| (path, &*entry.uid))
            .chain(pods.iter().map(|(path, desired)| (path, &*desired.pod.uid)))
            .filter(|(path, _)| self.existing.contains(*path) || self.failed.contains_key(*path))
            .map(|(path, uid)| {
                let state = PodCgroupState {
                    path: path.clone(),
                    driver: Some(self.setup.manager.kind()),
                    problem: problem(path),
                    former: self.formers.get(uid).map(ToString::to_string),
                    version: self.version(path),
                };
                (shared(path, uid), state)
            })
            .collect()
    }

    /// [`DesiredCgroup::version`] of the pod that the cgroup's limits were last written for.
    ///
    /// [`DesiredCgroup::version`]: crate::desired::DesiredCgroup::version
    fn version(&self, path: &str) -> u64 {
        let written = match &self.earlier {
            Some(earlier) if !self.created.contains(path) => earlier,
            _ => &self.wanted,
        };
        written.pods.get(path).map_or(0, |desired| desired.version)
    }

    /// Without `cgroupsPerQOS` the runtime chooses the cgroup of a pod (the kubelet's
    /// `podContainerManagerNoop`).
    fn shared_states(&self) -> PodCgroupStates {
        let path: Arc<str> = self.setup.settings.cgroup_root.as_str().into();
        let place = |version| PodCgroupState {
            path: path.clone(),
            driver: None,
            problem: None,
            former: None,
            version,
        };
        self.keep
            .iter()
            .flat_map(|k| &k.pods)
            .map(|desired| (desired.pod.uid.as_str().into(), place(desired.version)))
            .collect()
    }
}
