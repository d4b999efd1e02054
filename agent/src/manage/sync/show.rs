//! The hierarchy's state where the status command and the metrics see it.

use std::sync::{Arc, PoisonError};

use super::Syncer;
use crate::cgroup::control::{DriverKind, Presence};
use crate::manage::destroyer::Destroyer;
use crate::manage::keep::{Place, Places};
use crate::view::{HierarchyStatus, PodCgroup};

impl Syncer {
    /// Puts the status where others see it.
    pub(super) fn show(&self, destroyer: &Destroyer) {
        let pods = self.pods.iter().map(|(path, kept)| PodCgroup {
            uid: kept.pod.uid.clone(),
            namespace: kept.pod.namespace.clone(),
            name: kept.pod.name.clone(),
            qos: Some(kept.pod.qos),
            path: path.clone(),
            problem: self.problems.about(path),
        });
        let removing = destroyer.removing().iter().map(String::as_str);
        let failed = self
            .setup
            .owned
            .pods()
            .keys()
            .map(String::as_str)
            .filter(|path| !self.pods.contains_key(*path) && !destroyer.removing().contains(*path));
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
            problems: self.problems.all_but(|about| owned.contains_key(about)),
        };
        self.tell_places(destroyer);
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    /// Tells where cgroups are, if that is not what was told last.
    fn tell_places(&self, destroyer: &Destroyer) {
        let places = Arc::new(if self.setup.settings.cgroups_per_qos {
            self.own_places(destroyer)
        } else {
            self.shared_places()
        });
        self.places.send_if_modified(|told| {
            let news = *told != places;
            *told = places;
            news
        });
    }

    fn own_places(&self, destroyer: &Destroyer) -> Places {
        let problem = |path: &str| {
            if destroyer.removing().contains(path) {
                return Some(String::from("its cgroup is being removed"));
            }
            if !self.pods.contains_key(path) {
                return Some(String::from("its cgroup is to be removed"));
            }
            self.failed.get(path).cloned()
        };
        let there = |path: &str| self.setup.manager.presence(path) != Presence::Nowhere;
        let owned = self.setup.owned.pods().iter().map(|(path, entry)| (path, &entry.uid));
        let wanted = self.pods.iter().map(|(path, kept)| (path, &kept.pod.uid));
        owned
            .chain(wanted)
            .map(|(path, uid)| (path, uid, problem(path)))
            .filter(|(path, _, problem)| there(path) || problem.is_some() && self.pods.contains_key(*path))
            .map(|(path, uid, problem)| {
                let cgroup_parent = match self.setup.manager.kind() {
                    DriverKind::Cgroupfs => path.clone(),
                    DriverKind::Systemd => path.rsplit('/').next().unwrap_or(path).to_owned(),
                };
                let version = self.pods.get(path).map_or(0, |kept| kept.version);
                (uid.clone(), Place { path: path.clone(), cgroup_parent, problem, version })
            })
            .collect()
    }

    /// Without `cgroupsPerQOS` the runtime puts pods where it likes (the kubelet's `podContainerManagerNoop`).
    fn shared_places(&self) -> Places {
        let place = |version| Place {
            path: self.setup.settings.cgroup_root.clone(),
            cgroup_parent: String::new(),
            problem: None,
            version,
        };
        self.keep
            .iter()
            .flat_map(|k| &k.pods)
            .map(|kept| (kept.pod.uid.clone(), place(kept.version)))
            .collect()
    }
}
