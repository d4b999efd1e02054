//! Reads a plugin's list of devices and reports its errors. Pure.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nodewarden_model::Health;
use nodewarden_proto::deviceplugin::v1beta1 as api;

use super::request::shown;
use crate::Device;

/// Longest device id according to the protocol's description, in bytes. The kubelet does not enforce it.
const LONGEST_ID: usize = 63;
/// Number of problems that are reported one by one.
const LISTED: usize = 16;

/// The devices of a list, each once and sorted by id, and the problems of the list.
///
/// A device without an id is left out. A device that is listed twice is unhealthy if either entry is. Any
/// health other than `Healthy` counts as `Unhealthy`, as in the kubelet (`genericDeviceUpdateCallback`).
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
    (devices.into_values().collect(), problems.into_list())
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

/// Problems of one list. There may be as many as devices: the first ones are kept, the others counted.
#[derive(Default)]
struct Problems {
    listed: Vec<String>,
    more: usize,
}

impl Problems {
    fn add(&mut self, problem: impl FnOnce() -> String) {
        if self.listed.len() < LISTED {
            self.listed.push(problem());
        } else {
            self.more += 1;
        }
    }

    fn into_list(mut self) -> Vec<String> {
        if self.more > 0 {
            self.listed.push(format!("and {} more", self.more));
        }
        self.listed
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
    fn a_valid_list_has_no_problems() {
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
    fn errors_in_a_list_are_reported() {
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
    fn only_the_first_problems_are_listed_and_the_rest_counted() {
        let (devices, problems) = read(vec![device("same", "Healthy", &[]); 1001]);
        assert_eq!((devices.len(), problems.len()), (1, LISTED + 1));
        assert_eq!(problems.last().unwrap(), "and 984 more");
        let (_, problems) = read(vec![device(&"z".repeat(1 << 20), "Healthy", &[])]);
        assert!(problems[0].len() < 300);
    }
}
