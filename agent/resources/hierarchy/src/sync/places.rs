//! Telling where pods' cgroups are.

use std::sync::Arc;

use super::Syncer;
use crate::destroyer::Destroyer;
use crate::keep::{Place, Places};
use nodewarden_machine::cgroup::control::DriverKind;

impl Syncer {
    /// Tells where cgroups are, if that is not what was told last.
    pub(super) fn tell_places(&self, destroyer: &Destroyer) {
        let places = if self.setup.settings.cgroups_per_qos {
            self.own_places(destroyer)
        } else {
            self.shared_places()
        };
        self.places.send_if_modified(|told| {
            let news = **told != places;
            if news {
                *told = Arc::new(places);
            }
            news
        });
    }

    fn own_places(&self, destroyer: &Destroyer) -> Places {
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
        let wanted = pods.iter().map(|(path, kept)| (path, &kept.pod.uid));
        owned
            .chain(wanted)
            .filter(|(path, _)| self.standing.contains(*path) || self.failed.contains_key(*path))
            .map(|(path, uid)| {
                let cgroup_parent = match self.setup.manager.kind() {
                    DriverKind::Cgroupfs => path.clone(),
                    DriverKind::Systemd => path.rsplit('/').next().unwrap_or(path).to_owned(),
                };
                let version = self.versions.get(path).copied().unwrap_or(0);
                (uid.clone(), Place { path: path.clone(), cgroup_parent, problem: problem(path), version })
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
