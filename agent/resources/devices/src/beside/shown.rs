//! What `nodewarden devices` shows of a kubelet's devices. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nodewarden_model::{DeviceOwner, DeviceResource, DeviceView, DevicesPerNuma, DevicesView, Health};

use super::held::Held;
use super::kubelet::Answer;

/// A device, before its resource is counted.
#[derive(Default)]
struct Entry {
    numa: BTreeSet<i64>,
    is_allocatable: bool,
    owner: Option<DeviceOwner>,
    nodes: Vec<String>,
    problem: String,
}

/// All devices that the kubelet names, with their owners. From a kubelet that does not say what is
/// allocatable, devices without an owner are those of its checkpoint, `registered`. `why` says why a
/// container has lost the device that it was given at a path.
pub fn shown(
    answer: &Answer,
    registered: Option<&BTreeMap<String, Arc<[String]>>>,
    held: &[Held],
    why: impl Fn(&str, &str, &str) -> Option<String>,
    problems: &[String],
) -> DevicesView {
    let mut all: BTreeMap<String, BTreeMap<String, Entry>> = BTreeMap::new();
    for (resource, ids) in answer.allocatable.iter().flatten() {
        let of = all.entry(resource.clone()).or_default();
        add(of, ids, |entry| entry.is_allocatable = true);
    }
    if answer.allocatable.is_none() {
        for (resource, ids) in registered.into_iter().flatten() {
            let of = all.entry(resource.clone()).or_default();
            for id in ids.iter() {
                of.entry(id.clone()).or_default();
            }
        }
    }
    for own in held {
        let of = all.entry(own.resource.clone()).or_default();
        let nodes: BTreeSet<&String> = own.grants.iter().map(|grant| &grant.device.path).collect();
        let lost = |path: &&String| {
            why(&own.uid, &own.container, path).map(|why| format!("{path} can no longer be opened: {why}"))
        };
        let lost = nodes.iter().filter_map(lost);
        let missing = own.missing.iter().map(|path| format!("the machine has no {path}"));
        let problem: Vec<String> = own.unknown.iter().cloned().chain(missing).chain(lost).collect();
        add(of, &own.ids, |entry| {
            entry.owner = Some(DeviceOwner {
                uid: own.uid.clone(),
                namespace: own.namespace.clone(),
                name: own.pod.clone(),
                container: own.container.clone(),
            });
            entry.nodes = nodes.iter().map(|path| (*path).clone()).collect();
            entry.problem = problem.join("; ");
        });
    }
    let says = answer.allocatable.is_some();
    let resources = all.into_iter().map(|(name, devices)| resource(name, devices, says)).collect();
    DevicesView {
        resources,
        removed: Vec::new(),
        problems: problems.to_vec(),
        by_kubelet: true,
        denials: Vec::new(),
    }
}

fn add(of: &mut BTreeMap<String, Entry>, ids: &DevicesPerNuma, mut set: impl FnMut(&mut Entry)) {
    for (node, ids) in ids {
        for id in ids {
            let entry = of.entry(id.clone()).or_default();
            entry.numa.extend(Some(*node).filter(|node| *node >= 0));
            set(entry);
        }
    }
}

/// `says`: the kubelet says which devices are healthy.
fn resource(name: String, devices: BTreeMap<String, Entry>, says: bool) -> DeviceResource {
    let health = |entry: &Entry| match (entry.is_allocatable, says) {
        (true, _) => Health::Healthy,
        (false, true) => Health::Unhealthy,
        (false, false) => Health::Unknown,
    };
    DeviceResource {
        capacity: devices.len(),
        allocatable: says.then(|| devices.values().filter(|entry| entry.is_allocatable).count()),
        allocated: devices.values().filter(|entry| entry.owner.is_some()).count(),
        away_since: None,
        // Claims are not in the list of what is allocatable.
        devices: devices
            .into_iter()
            .map(|(id, entry)| DeviceView {
                id,
                health: if name.contains(' ') { Health::Unknown } else { health(&entry) }.name(),
                numa: entry.numa.into_iter().collect(),
                owner: entry.owner,
                nodes: entry.nodes,
                problem: entry.problem,
            })
            .collect(),
        name,
    }
}

#[cfg(test)]
mod tests;
