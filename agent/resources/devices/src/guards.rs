//! Which devices each pod may open: computed again whenever it gets devices, and when the health of one of
//! them changes. That looks at the paths which the pod names, and blocks as long as their file systems do.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nodewarden_config::{DeviceSettings, Enforcement};
use nodewarden_machine::device_nodes;
use nodewarden_manifest::Pod;
use nodewarden_model::{Health, HostDevice};
use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use parking_lot::{Mutex, MutexGuard};

use crate::enforce::{EnforceError, Enforcer};
use crate::injection::response;
use crate::policy::{self, PodPolicy, Scope};
use crate::{Allocation, Devices};

/// The pods whose device accesses are checked. Clones share one state.
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
    pods: Mutex<BTreeMap<String, GuardedPod>>,
    turns: AtomicU64,
}

/// A pod whose device accesses are checked.
#[derive(Clone)]
struct GuardedPod {
    pod: Arc<Pod>,
    /// Path of its cgroup.
    cgroup: String,
    mode: Enforcement,
    /// Counts how often the policy was to be applied: one that was made slowly never replaces a newer one.
    turn: u64,
    /// Devices that the runtime added by CDI, by container name.
    runtime_devices: BTreeMap<String, Vec<HostDevice>>,
}

impl Guards {
    /// Starts without any pod; `enforcer` applies the policies.
    pub fn new(enforcer: Enforcer, settings: &DeviceSettings) -> Self {
        let pods = Mutex::new(BTreeMap::new());
        Self(Arc::new(Inner { enforcer, settings: settings.clone(), pods, turns: AtomicU64::new(0) }))
    }

    /// The enforcement mode for a pod: off, audit or enforce.
    pub fn mode(&self, pod: &Pod) -> Enforcement {
        policy::mode(pod, &self.0.settings)
    }

    /// Applies the pod's policy to its cgroup from now on; without effect in mode Off.
    ///
    /// # Errors
    /// The kernel refuses the policy. In mode Enforce the pod must not start then.
    pub fn guard(&self, devices: &Devices, pod: &Arc<Pod>, cgroup: &str) -> Result<(), EnforceError> {
        let mode = self.mode(pod);
        if mode == Enforcement::Off {
            return Ok(());
        }
        let guarded = {
            let mut pods = self.lock();
            let runtime_devices =
                pods.remove(&pod.uid).map(|before| before.runtime_devices).unwrap_or_default();
            let (cgroup, turn) = (cgroup.to_owned(), self.turn());
            let guarded = GuardedPod { pod: pod.clone(), cgroup, mode, turn, runtime_devices };
            pods.insert(pod.uid.clone(), guarded.clone());
            guarded
        };
        self.apply(devices, &guarded)
    }

    /// Records the devices that the runtime added to a container, and allows them to its pod.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn add_runtime_devices(
        &self,
        devices: &Devices,
        uid: &str,
        container: &str,
        found: Vec<HostDevice>,
    ) -> Result<(), EnforceError> {
        let guarded = {
            let mut pods = self.lock();
            let Some(guarded) = pods.get_mut(uid) else { return Ok(()) };
            guarded.runtime_devices.insert(container.to_owned(), found);
            guarded.turn = self.turn();
            guarded.clone()
        };
        self.apply(devices, &guarded)
    }

    /// Applies the policy again after devices of the pod turned healthy or unhealthy.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn health_changed(&self, devices: &Devices, uid: &str) -> Result<(), EnforceError> {
        if !self.0.settings.cut_unhealthy {
            return Ok(());
        }
        let guarded = self.lock().get_mut(uid).map(|guarded| {
            guarded.turn = self.turn();
            guarded.clone()
        });
        guarded.map_or(Ok(()), |guarded| self.apply(devices, &guarded))
    }

    /// The pod of this uid, if its device accesses are checked.
    pub fn pod(&self, uid: &str) -> Option<Arc<Pod>> {
        self.lock().get(uid).map(|guarded| guarded.pod.clone())
    }

    /// Removes a pod that no longer exists.
    pub fn forget(&self, uid: &str) {
        if self.lock().remove(uid).is_some() {
            self.0.enforcer.forget(uid);
        }
    }

    /// The enforcer that applies the policies.
    pub fn enforcer(&self) -> &Enforcer {
        &self.0.enforcer
    }

    fn apply(&self, devices: &Devices, guarded: &GuardedPod) -> Result<(), EnforceError> {
        let uid = &guarded.pod.uid;
        let allocations = devices.allocations(uid);
        let cut = |resource: &str, id: &str| {
            self.0.settings.cut_unhealthy && devices.health_of(resource, id) == Health::Unhealthy
        };
        let mut responses = Vec::new();
        let mut extra: Vec<HostDevice> = guarded.runtime_devices.values().flatten().cloned().collect();
        for (resource, allocation) in allocations.values().flatten() {
            responses.push(usable(resource, allocation, &cut));
            let paths = self.0.settings.extra.get(resource).into_iter().flatten();
            extra.extend(paths.flat_map(|path| device_nodes::matching_nodes(path)));
        }
        let rules = policy::rules(&guarded.pod, &responses, &extra, device_nodes::device_nodes);
        let policy = PodPolicy { mode: guarded.mode, rules, scope: Scope::Everything };
        let pods = self.lock();
        if pods.get(uid).is_none_or(|newest| newest.turn != guarded.turn) {
            // The pod is gone, or a newer policy was or will be applied.
            return Ok(());
        }
        self.0.enforcer.guard(uid, &guarded.cgroup, policy)
    }

    fn turn(&self) -> u64 {
        self.0.turns.fetch_add(1, Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, GuardedPod>> {
        self.0.pods.lock()
    }
}

/// A plugin's answer without the device nodes of unhealthy devices that are to be cut off.
///
/// The protocol does not say which node belongs to which device. It is clear when a container has a single
/// device of the resource, and when a node is named like the device id; a node whose device is not clear is
/// never cut off.
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
            answer.devices.retain(|device| !is_named(&device.host_path, id));
        }
    }
    answer
}

fn is_named(path: &str, id: &str) -> bool {
    path.rsplit('/').next() == Some(id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nodewarden_model::DevicesPerNuma;
    use nodewarden_proto::deviceplugin::v1beta1::DeviceSpec;
    use prost::Message;

    use super::*;

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
    fn only_nodes_that_clearly_belong_to_the_unhealthy_device_are_cut_off() {
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
