//! What a plugin's list of devices says, and where it lies. Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nodewarden_proto::deviceplugin::v1beta1 as api;

use super::request::shown;
use crate::Device;
use nodewarden_model::Health;

/// Longest device id of the protocol's description, in bytes. The kubelet does not hold plugins to it.
const LONGEST_ID: usize = 63;
/// Problems that are told one by one.
const TOLD: usize = 16;

/// The devices of a list, each once and in the order of their ids, and what is wrong with it.
///
/// A device without an id is left out. One that is there twice is unhealthy if either is. Any health but `Healthy` is
/// `Unhealthy`, as the kubelet has it (`genericDeviceUpdateCallback`).
pub fn devices(list: api::ListAndWatchResponse) -> (Vec<Device>, Vec<String>) {
    let mut devices: BTreeMap<String, Device> = BTreeMap::new();
    let mut problems = Problems::default();
    for (place, device) in list.devices.into_iter().enumerate() {
        if device.id.is_empty() {
            problems.add(|| format!("device {place} of the list has no id: it is left out"));
            continue;
        }
        let device = read(device, &mut problems);
        match devices.entry(device.id.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(device);
            }
            Entry::Occupied(mut entry) => {
                problems.add(|| format!("device {:?} is listed more than once", shown(&device.id)));
                if device.health != Health::Healthy {
                    entry.get_mut().health = device.health;
                }
            }
        }
    }
    (devices.into_values().collect(), problems.told())
}

fn read(device: api::Device, problems: &mut Problems) -> Device {
    let id = device.id;
    if id.len() > LONGEST_ID {
        problems.add(|| format!("the id {:?} has {} bytes, more than {LONGEST_ID}", shown(&id), id.len()));
    }
    let health = match device.health.as_str() {
        "Healthy" => Health::Healthy,
        "Unhealthy" => Health::Unhealthy,
        other => {
            problems.add(|| {
                let (id, other) = (shown(&id), shown(other));
                format!(
                    "device {id:?}: health {other:?} is neither Healthy nor Unhealthy: taken as Unhealthy"
                )
            });
            Health::Unhealthy
        }
    };
    let nodes = device.topology.unwrap_or_default().nodes;
    let (numa, wrong): (Vec<i64>, Vec<i64>) = nodes.iter().map(|node| node.id).partition(|id| *id >= 0);
    if let Some(node) = wrong.first() {
        problems.add(|| format!("device {:?}: there is no NUMA node {node}: it is left out", shown(&id)));
    }
    Device { id, health, numa: numa.into_iter().collect() }
}

/// A list may have as many problems as it has devices: the first are told, the others counted.
#[derive(Default)]
struct Problems {
    told: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, problem: impl FnOnce() -> String) {
        if self.told.len() < TOLD {
            self.told.push(problem());
        } else {
            self.more += 1;
        }
    }

    fn told(mut self) -> Vec<String> {
        if self.more > 0 {
            self.told.push(format!("and {} more", self.more));
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(id: &str, health: &str, nodes: &[i64]) -> api::Device {
        let nodes: Vec<_> = nodes.iter().map(|id| api::NumaNode { id: *id }).collect();
        let topology = (!nodes.is_empty()).then_some(api::TopologyInfo { nodes });
        api::Device { id: id.into(), health: health.into(), topology }
    }

    fn read(devices: Vec<api::Device>) -> (Vec<Device>, Vec<String>) {
        super::devices(api::ListAndWatchResponse { devices })
    }

    #[test]
    fn an_honest_list() {
        let (devices, problems) = read(vec![
            device("b", "Unhealthy", &[]),
            device("a", "Healthy", &[1, 0, 1]),
            device(&"x".repeat(63), "Healthy", &[0]),
        ]);
        assert_eq!(problems, [""; 0]);
        let shown: Vec<_> = devices.iter().map(|d| (d.id.len(), d.health, d.numa.len())).collect();
        assert_eq!(shown, [(1, Health::Healthy, 2), (1, Health::Unhealthy, 0), (63, Health::Healthy, 1)]);
        assert_eq!(read(vec![]), (vec![], vec![]));
    }

    #[test]
    fn lies_are_named() {
        let long = "y".repeat(64);
        let (devices, problems) = read(vec![
            device("", "Healthy", &[]),
            device("a", "Healthy", &[]),
            device("a", "Unhealthy", &[3]),
            device("a", "Healthy", &[]),
            device("b", "fine", &[-1, 2]),
            device(&long, "Healthy", &[]),
        ]);
        let shown: Vec<_> = devices.iter().map(|d| (d.id.as_str(), d.health, d.numa.clone())).collect();
        assert_eq!(
            shown,
            [
                ("a", Health::Unhealthy, [].into()),
                ("b", Health::Unhealthy, [2].into()),
                (long.as_str(), Health::Healthy, [].into())
            ]
        );
        for (problem, says) in problems.iter().zip([
            "device 0 of the list has no id",
            "device \"a\" is listed more than once",
            "device \"a\" is listed more than once",
            "health \"fine\" is neither",
            "there is no NUMA node -1",
            "64 bytes, more than 63",
        ]) {
            assert!(problem.contains(says), "{problem}");
        }
        assert_eq!(problems.len(), 6);
    }

    #[test]
    fn a_thousand_lies_are_counted() {
        let (devices, problems) = read(vec![device("same", "Healthy", &[]); 1001]);
        assert_eq!((devices.len(), problems.len()), (1, TOLD + 1));
        assert_eq!(problems.last().unwrap(), "and 984 more");
        let (_, problems) = read(vec![device(&"z".repeat(1 << 20), "Healthy", &[])]);
        assert!(problems[0].len() < 300);
    }
}
