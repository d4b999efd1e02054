//! What a container gets with its devices: the plugins' responses put together (kubelet `deviceRunContainerOptions`).

use std::collections::BTreeMap;

use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use prost::Message;

use super::Allocation;
use nodewarden_pods::spec::Given;

/// Of a container's allocations by resource. A response that can't be read counts as empty: it was sent by a plugin
/// and checked when it came.
pub fn injection(allocations: &BTreeMap<String, Allocation>) -> Given {
    let mut given = Given::default();
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
            take(&mut given, &format!("mount {path} ({resource})"), |own| &mut own.mounts, mount);
        }
        for device in response.devices {
            let (path, device) = (
                device.container_path.clone(),
                (device.container_path, device.host_path, device.permissions),
            );
            take(&mut given, &format!("device {path} ({resource})"), |own| &mut own.devices, device);
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

/// Adds something with a path in the container; what was there under the path is replaced.
fn take<T: PartialEq>(
    given: &mut Given,
    what: &str,
    list: impl Fn(&mut Given) -> &mut Vec<(String, String, T)>,
    new: (String, String, T),
) {
    match list(given).iter_mut().find(|(path, _, _)| *path == new.0) {
        None => list(given).push(new),
        Some(same) if *same == new => {}
        Some(other) => {
            *other = new;
            given.conflicts.push(what.to_owned());
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

    use std::collections::BTreeSet;

    use nodewarden_model::DevicesPerNuma;
    use nodewarden_pods::spec::{DEVICES, ids_from_json};

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
        let given = injection(&one);
        assert_eq!(given.envs["A"], "1");
        assert_eq!(given.mounts, [("/m".into(), "/h".into(), true)]);
        assert_eq!(given.devices, [("/dev/x".into(), "/dev/x".into(), "rw".into())]);
        assert_eq!((given.annotations["note"].as_str(), given.cdi.len()), ("1", 1));
        assert!(given.conflicts.is_empty() && !given.is_empty());
        let annotations: BTreeMap<_, _> = given.annotations().collect();
        assert_eq!(annotations[DEVICES], r#"{"a.b/c":{"-1":["d"]}}"#);
        assert_eq!(ids_from_json(&annotations[DEVICES]), Some(given.ids.clone()));

        let two = [("x.y/z".to_owned(), allocation(&answer("2", "/i", "r")))];
        let given = injection(&one.into_iter().chain(two).collect());
        assert_eq!((given.envs["A"].as_str(), given.mounts[0].1.as_str()), ("2", "/i"));
        assert_eq!((given.mounts.len(), given.devices.len(), given.cdi.len()), (1, 1, 2));
        let conflicts = ["environment variable A", "mount /m", "device /dev/x", "annotation note"];
        assert_eq!(given.conflicts, conflicts.map(|what| format!("{what} (x.y/z)")));
    }

    #[test]
    fn nothing_is_nothing() {
        assert!(injection(&BTreeMap::new()).is_empty());
        let unanswered = Allocation { devices: DevicesPerNuma::new(), response: None };
        let given = injection(&BTreeMap::from([("a.b/c".to_owned(), unanswered)]));
        assert_eq!((given.envs.len(), given.is_empty()), (0, false));
    }
}
