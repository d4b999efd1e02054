//! What a container gets with its devices: the plugins' responses put together (kubelet `deviceRunContainerOptions`).

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use nodewarden_proto::runtime::v1 as cri;
use prost::Message;

use super::{Allocation, DevicesPerNuma};

/// Annotation of a container with its devices: resource → NUMA node → ids, as JSON. By it they are found again at the
/// runtime when the checkpoint is damaged.
pub const DEVICES: &str = "nodewarden.io/devices";

fn ids_to_json(ids: &BTreeMap<String, DevicesPerNuma>) -> String {
    // Maps of texts and numbers can be written.
    serde_json::to_string(ids).unwrap_or_default()
}

/// Reads the annotation [`DEVICES`]; `None` if it is not one of ours.
pub fn ids_from_json(text: &str) -> Option<BTreeMap<String, DevicesPerNuma>> {
    serde_json::from_str(text).ok()
}

/// For the container's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Given {
    pub envs: BTreeMap<String, String>,
    /// Path in the container, on the host, and whether it is read only. In the resources' order.
    pub mounts: Vec<(String, String, bool)>,
    /// Path in the container, on the host, and permissions.
    pub devices: Vec<(String, String, String)>,
    pub annotations: BTreeMap<String, String>,
    /// Fully qualified CDI names.
    pub cdi: BTreeSet<String>,
    /// What it is made of, by resource.
    pub ids: BTreeMap<String, DevicesPerNuma>,
    /// Where two resources say different things of one name or path: the later one's counts, as in the kubelet.
    pub conflicts: Vec<String>,
}

impl Given {
    /// Of a container's allocations by resource. A response that can't be read counts as empty: it was sent by a plugin
    /// and checked when it came.
    pub fn of(allocations: &BTreeMap<String, Allocation>) -> Self {
        let mut given = Self::default();
        for (resource, allocation) in allocations {
            given.ids.insert(resource.clone(), allocation.devices.clone());
            let response = response(allocation);
            for (name, value) in response.envs {
                if given.envs.get(&name).is_some_and(|other| *other != value) {
                    given.conflicts.push(format!("environment variable {name} ({resource})"));
                }
                given.envs.insert(name, value);
            }
            for mount in response.mounts {
                let (path, mount) =
                    (mount.container_path.clone(), (mount.container_path, mount.host_path, mount.read_only));
                given.take(&format!("mount {path} ({resource})"), |own| &mut own.mounts, mount);
            }
            for device in response.devices {
                let (path, device) = (
                    device.container_path.clone(),
                    (device.container_path, device.host_path, device.permissions),
                );
                given.take(&format!("device {path} ({resource})"), |own| &mut own.devices, device);
            }
            for (name, value) in response.annotations {
                if given.annotations.get(&name).is_some_and(|other| *other != value) {
                    given.conflicts.push(format!("annotation {name} ({resource})"));
                }
                given.annotations.insert(name, value);
            }
            given.cdi.extend(response.cdi_devices.into_iter().map(|device| device.name));
        }
        given
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Mounts as CRI has them.
    pub fn mounts(&self) -> impl Iterator<Item = cri::Mount> {
        self.mounts.iter().map(|(container_path, host_path, readonly)| cri::Mount {
            container_path: container_path.clone(),
            host_path: host_path.clone(),
            readonly: *readonly,
            propagation: cri::MountPropagation::PropagationPrivate.into(),
            ..Default::default()
        })
    }

    /// Device nodes as CRI has them.
    pub fn devices(&self) -> impl Iterator<Item = cri::Device> {
        self.devices.iter().map(|(container_path, host_path, permissions)| cri::Device {
            container_path: container_path.clone(),
            host_path: host_path.clone(),
            permissions: permissions.clone(),
        })
    }

    /// The plugins' annotations, and [`DEVICES`].
    pub fn annotations(&self) -> impl Iterator<Item = (String, String)> {
        let own = (!self.is_empty()).then(|| (DEVICES.to_owned(), ids_to_json(&self.ids)));
        self.annotations.iter().map(|(name, value)| (name.clone(), value.clone())).chain(own)
    }

    /// Adds something with a path in the container; what was there under the path is replaced.
    fn take<T: PartialEq>(
        &mut self,
        what: &str,
        list: impl Fn(&mut Self) -> &mut Vec<(String, String, T)>,
        new: (String, String, T),
    ) {
        match list(self).iter_mut().find(|(path, _, _)| *path == new.0) {
            None => list(self).push(new),
            Some(same) if *same == new => {}
            Some(other) => {
                *other = new;
                self.conflicts.push(what.to_owned());
            }
        }
    }
}

/// A plugin's answer; empty where there is none (yet).
pub fn response(allocation: &Allocation) -> ContainerAllocateResponse {
    let bytes = allocation.response.as_deref().unwrap_or_default();
    ContainerAllocateResponse::decode(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use nodewarden_proto::deviceplugin::v1beta1::{CdiDevice, DeviceSpec, Mount};

    use super::*;

    fn allocation(response: &ContainerAllocateResponse) -> Allocation {
        let devices = DevicesPerNuma::from([(-1, BTreeSet::from(["d".to_owned()]))]);
        Allocation { devices, response: Some(response.encode_to_vec()) }
    }

    fn answer(env: &str, host: &str, permissions: &str) -> ContainerAllocateResponse {
        ContainerAllocateResponse {
            envs: [("A".to_owned(), env.to_owned())].into(),
            mounts: vec![Mount { container_path: "/m".into(), host_path: host.into(), read_only: true }],
            devices: vec![DeviceSpec {
                container_path: "/dev/x".into(),
                host_path: "/dev/x".into(),
                permissions: permissions.into(),
            }],
            annotations: [("note".to_owned(), env.to_owned())].into(),
            cdi_devices: vec![CdiDevice { name: format!("v.com/c={env}") }],
        }
    }

    #[test]
    fn responses_are_put_together() {
        let one = BTreeMap::from([("a.b/c".to_owned(), allocation(&answer("1", "/h", "rw")))]);
        let given = Given::of(&one);
        assert_eq!(given.envs["A"], "1");
        assert_eq!(given.mounts, [("/m".into(), "/h".into(), true)]);
        assert_eq!(given.devices, [("/dev/x".into(), "/dev/x".into(), "rw".into())]);
        assert_eq!((given.annotations["note"].as_str(), given.cdi.len()), ("1", 1));
        assert!(given.conflicts.is_empty() && !given.is_empty());
        let annotations: BTreeMap<_, _> = given.annotations().collect();
        assert_eq!(annotations[DEVICES], r#"{"a.b/c":{"-1":["d"]}}"#);
        assert_eq!(ids_from_json(&annotations[DEVICES]), Some(given.ids.clone()));

        let two = [("x.y/z".to_owned(), allocation(&answer("2", "/i", "r")))];
        let given = Given::of(&one.into_iter().chain(two).collect());
        assert_eq!((given.envs["A"].as_str(), given.mounts[0].1.as_str()), ("2", "/i"));
        assert_eq!((given.mounts.len(), given.devices.len(), given.cdi.len()), (1, 1, 2));
        let conflicts = ["environment variable A", "mount /m", "device /dev/x", "annotation note"];
        assert_eq!(given.conflicts, conflicts.map(|what| format!("{what} (x.y/z)")));
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(Given::of(&BTreeMap::new()).is_empty());
        let unanswered = Allocation { devices: DevicesPerNuma::new(), response: None };
        let given = Given::of(&BTreeMap::from([("a.b/c".to_owned(), unanswered)]));
        assert_eq!((given.envs.len(), given.is_empty()), (0, false));
    }
}
