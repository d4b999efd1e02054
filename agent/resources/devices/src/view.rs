//! What the API and PodResources show of devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use nodewarden_manifest::ContainerKind;
use nodewarden_model::{
    DeviceOwner, DeviceResource, DeviceView, DevicesPerNuma, DevicesView, Health, PodPhase, PodView,
};

use crate::Devices;
use crate::allocations::ResourceState;
use crate::pod_resources::{AllocatableDevices, ContainerDevices, PodDevices};

impl Devices {
    /// All devices with their owners, for the API, without denials; `pods` are only used for names.
    pub fn view(&self, pods: &[Arc<PodView>]) -> DevicesView {
        let names: BTreeMap<&str, &PodView> =
            pods.iter().map(|view| (view.pod.uid.as_str(), view.as_ref())).collect();
        let (resources, removed, problems) = {
            let state = self.0.lock();
            let mut problems: Vec<String> = state.closed.iter().cloned().collect();
            if state.recovering {
                problems.push("the checkpoint was damaged, and the runtime has not been asked yet which containers have which devices".to_owned());
            }
            (state.allocations.resources(), state.removed.clone(), problems)
        };
        let owner = |(uid, container): (String, String)| {
            let pod = names.get(uid.as_str()).map(|view| &view.pod);
            DeviceOwner {
                namespace: pod.map(|pod| pod.namespace.clone()).unwrap_or_default(),
                name: pod.map(|pod| pod.name.clone()).unwrap_or_default(),
                uid,
                container,
            }
        };
        let resource = |state: ResourceState| DeviceResource {
            name: state.name,
            capacity: state.capacity,
            allocatable: Some(state.allocatable),
            allocated: state.allocated,
            away_since: state.away_since.map(wall),
            devices: state
                .devices
                .into_iter()
                .map(|device| DeviceView {
                    id: device.id,
                    health: device.health.name(),
                    numa: device.numa.into_iter().collect(),
                    owner: device.owner.map(owner),
                    nodes: Vec::new(),
                    problem: String::new(),
                })
                .collect(),
        };
        DevicesView {
            resources: resources.into_iter().map(resource).collect(),
            removed: removed.into_iter().collect(),
            problems,
            by_kubelet: false,
            denials: Vec::new(),
        }
    }
}

impl Devices {
    /// Pods for PodResources: those that have not ended, with their sidecars and regular containers,
    /// including those without devices.
    pub fn pod_devices(&self, pods: &[Arc<PodView>]) -> Vec<PodDevices> {
        let active = |view: &&Arc<PodView>| !matches!(view.phase, PodPhase::Succeeded | PodPhase::Failed);
        let pod = |view: &Arc<PodView>| {
            let mut own = self.allocations(&view.pod.uid);
            let started = view.containers.iter().filter(|container| container.kind != ContainerKind::Init);
            let containers = started.map(|container| {
                let owned = own.remove(&container.name).unwrap_or_default().into_iter();
                let devices = owned.map(|(resource, allocation)| (resource, allocation.devices)).collect();
                ContainerDevices { name: container.name.clone(), devices, ..ContainerDevices::default() }
            });
            let containers = containers.collect();
            PodDevices {
                uid: view.pod.uid.clone(),
                namespace: view.pod.namespace.clone(),
                name: view.pod.name.clone(),
                containers,
            }
        };
        pods.iter().filter(active).map(pod).collect()
    }

    /// Healthy devices by NUMA node for PodResources, allocated or not.
    pub fn allocatable(&self) -> Vec<AllocatableDevices> {
        let resources = self.0.lock().allocations.resources();
        let of = |state: ResourceState| {
            let mut devices = DevicesPerNuma::new();
            for device in state.devices.into_iter().filter(|device| device.health == Health::Healthy) {
                let nodes: Vec<i64> =
                    if device.numa.is_empty() { vec![-1] } else { device.numa.into_iter().collect() };
                for node in nodes {
                    devices.entry(node).or_default().insert(device.id.clone());
                }
            }
            AllocatableDevices { resource: state.name, devices }
        };
        resources.into_iter().map(of).collect()
    }
}

/// The wall-clock time of a past instant.
fn wall(instant: Instant) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(instant.elapsed()).unwrap_or(now)
}
