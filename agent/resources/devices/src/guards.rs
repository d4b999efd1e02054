//! Which devices each pod may open: worked out anew whenever it was given some, and when the health of one changes.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;

use super::enforce::{self, EnforceError, Enforcer};
use super::injection::response;
use super::policy::{self, PodPolicy};
use super::{Allocation, Devices};
use nodewarden_config::{DeviceSettings, Enforcement};
use nodewarden_manifest::Pod;
use nodewarden_model::{Health, HostDevice};

/// The pods that are guarded. Cloning shares them.
#[derive(Clone)]
pub struct Guards(Arc<Inner>);

impl fmt::Debug for Guards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guards").finish_non_exhaustive()
    }
}

struct Inner {
    enforcer: Enforcer,
    settings: DeviceSettings,
    pods: Mutex<BTreeMap<String, Guarded>>,
}

/// One pod.
#[derive(Clone)]
struct Guarded {
    pod: Arc<Pod>,
    /// Path of its cgroup.
    cgroup: String,
    mode: Enforcement,
    /// What the runtime added to containers by CDI, by container.
    added: BTreeMap<String, Vec<HostDevice>>,
}

impl Guards {
    pub fn new(enforcer: Enforcer, settings: &DeviceSettings) -> Self {
        let pods = Mutex::new(BTreeMap::new());
        Self(Arc::new(Inner { enforcer, settings: settings.clone(), pods }))
    }

    /// What is to be done about the pod's accesses.
    pub fn mode(&self, pod: &Pod) -> Enforcement {
        policy::mode(pod, &self.0.settings)
    }

    /// Guards a pod from now on, in its cgroup.
    ///
    /// # Errors
    /// The kernel refuses. In mode Enforce the pod must not start then.
    pub fn guard(&self, devices: &Devices, pod: &Arc<Pod>, cgroup: &str) -> Result<(), EnforceError> {
        let mode = self.mode(pod);
        if mode == Enforcement::Off {
            return Ok(());
        }
        let guarded = {
            let mut pods = self.lock();
            let added = pods.remove(&pod.uid).map(|before| before.added).unwrap_or_default();
            let guarded = Guarded { pod: pod.clone(), cgroup: cgroup.to_owned(), mode, added };
            pods.insert(pod.uid.clone(), guarded.clone());
            guarded
        };
        self.apply(devices, &guarded)
    }

    /// What the runtime added to a container.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn added(
        &self,
        devices: &Devices,
        uid: &str,
        container: &str,
        added: Vec<HostDevice>,
    ) -> Result<(), EnforceError> {
        let guarded = {
            let mut pods = self.lock();
            let Some(guarded) = pods.get_mut(uid) else { return Ok(()) };
            guarded.added.insert(container.to_owned(), added);
            guarded.clone()
        };
        self.apply(devices, &guarded)
    }

    /// Devices of the pod have turned healthy or unhealthy.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn health_changed(&self, devices: &Devices, uid: &str) -> Result<(), EnforceError> {
        if !self.0.settings.cut_unhealthy {
            return Ok(());
        }
        let guarded = self.lock().get(uid).cloned();
        guarded.map_or(Ok(()), |guarded| self.apply(devices, &guarded))
    }

    /// The pod is gone.
    pub fn forget(&self, uid: &str) {
        if self.lock().remove(uid).is_some() {
            self.0.enforcer.forget(uid);
        }
    }

    pub fn enforcer(&self) -> &Enforcer {
        &self.0.enforcer
    }

    fn apply(&self, devices: &Devices, guarded: &Guarded) -> Result<(), EnforceError> {
        let uid = &guarded.pod.uid;
        let allocations = devices.allocations(uid);
        let cut = |resource: &str, id: &str| {
            self.0.settings.cut_unhealthy && devices.health_of(resource, id) == Health::Unhealthy
        };
        let mut responses = Vec::new();
        let mut extra: Vec<HostDevice> = guarded.added.values().flatten().cloned().collect();
        for (resource, allocation) in allocations.values().flatten() {
            responses.push(usable(resource, allocation, &cut));
            let paths = self.0.settings.extra.get(resource).into_iter().flatten();
            extra.extend(paths.flat_map(|path| enforce::expand(path)));
        }
        let rules = policy::rules(&guarded.pod, &responses, &extra, enforce::look);
        let policy = PodPolicy { mode: guarded.mode, rules };
        self.0.enforcer.guard(uid, &guarded.cgroup, policy)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Guarded>> {
        self.0.pods.lock()
    }
}

/// A plugin's answer without the nodes of devices that are cut off.
///
/// The protocol does not say which node is which device's. It is known where one device was given alone, and where a
/// node is called as the device; what cannot be told apart is never cut.
fn usable(
    resource: &str,
    allocation: &Allocation,
    cut: &impl Fn(&str, &str) -> bool,
) -> ContainerAllocateResponse {
    let mut answer = response(allocation);
    let ids = allocation.ids();
    for id in ids.iter().filter(|id| cut(resource, id)) {
        if ids.len() == 1 {
            answer.devices.clear();
        } else {
            answer.devices.retain(|device| !is_called(&device.host_path, id));
        }
    }
    answer
}

fn is_called(path: &str, id: &str) -> bool {
    path.rsplit('/').next() == Some(id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nodewarden_proto::deviceplugin::v1beta1::DeviceSpec;
    use prost::Message;

    use super::*;
    use nodewarden_model::DevicesPerNuma;

    fn allocation(ids: &[&str], paths: &[&str]) -> Allocation {
        let spec = |path: &&str| DeviceSpec {
            container_path: (*path).to_owned(),
            host_path: (*path).to_owned(),
            permissions: "rw".into(),
        };
        let response =
            ContainerAllocateResponse { devices: paths.iter().map(spec).collect(), ..Default::default() };
        let ids: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
        Allocation { devices: DevicesPerNuma::from([(-1, ids)]), response: Some(response.encode_to_vec()) }
    }

    #[test]
    fn only_what_can_be_told_apart_is_cut() {
        for (ids, paths, unhealthy, left) in [
            (vec!["a"], vec!["/dev/x", "/dev/y"], "a", vec![]),
            (vec!["a"], vec!["/dev/x"], "b", vec!["/dev/x"]),
            (vec!["a", "b"], vec!["/dev/a", "/dev/b"], "a", vec!["/dev/b"]),
            (vec!["a", "b"], vec!["/dev/x0", "/dev/x1"], "a", vec!["/dev/x0", "/dev/x1"]),
        ] {
            let own = allocation(&ids, &paths);
            let answer = usable("r", &own, &|_, id| id == unhealthy);
            let kept: Vec<_> = answer.devices.iter().map(|device| device.host_path.as_str()).collect();
            assert_eq!(kept, left, "{ids:?} {paths:?} {unhealthy}");
        }
    }
}
