//! What a container gets with its devices: the plugins' responses merged (kubelet
//! `deviceRunContainerOptions`).

use std::collections::BTreeMap;

use nodewarden_pods::spec::DeviceInjection;
use nodewarden_proto::deviceplugin::v1beta1::ContainerAllocateResponse;
use prost::Message;

use crate::Allocation;

/// Merges the responses for a container's allocations, by resource. A response that cannot be decoded counts
/// as empty: it was checked when the plugin sent it.
pub fn injection_of(allocations: &BTreeMap<String, Allocation>) -> DeviceInjection {
    let mut injection = DeviceInjection::default();
    for (resource, allocation) in allocations {
        injection.ids.insert(resource.clone(), allocation.devices.clone());
        let response = response(allocation);
        for (name, value) in response.envs {
            if injection.envs.get(&name).is_some_and(|other| *other != value) {
                injection.conflicts.push(format!("environment variable {name} ({resource})"));
            }
            injection.envs.insert(name, value);
        }
        for mount in response.mounts {
            let (path, mount) =
                (mount.container_path.clone(), (mount.container_path, mount.host_path, mount.read_only));
            put(&mut injection, &format!("mount {path} ({resource})"), |own| &mut own.mounts, mount);
        }
        for device in response.devices {
            let (path, device) = (
                device.container_path.clone(),
                (device.container_path, device.host_path, device.permissions),
            );
            put(&mut injection, &format!("device {path} ({resource})"), |own| &mut own.devices, device);
        }
        for (name, value) in response.annotations {
            if injection.annotations.get(&name).is_some_and(|other| *other != value) {
                injection.conflicts.push(format!("annotation {name} ({resource})"));
            }
            injection.annotations.insert(name, value);
        }
        injection.cdi.extend(response.cdi_devices.into_iter().map(|device| device.name));
    }
    injection
}

/// Adds an entry with a path in the container; an entry with the same path is replaced, and a different one
/// is noted as a conflict.
fn put<T: PartialEq>(
    injection: &mut DeviceInjection,
    what: &str,
    list: impl Fn(&mut DeviceInjection) -> &mut Vec<(String, String, T)>,
    new: (String, String, T),
) {
    match list(injection).iter_mut().find(|(path, _, _)| *path == new.0) {
        None => list(injection).push(new),
        Some(same) if *same == new => {}
        Some(other) => {
            *other = new;
            injection.conflicts.push(what.to_owned());
        }
    }
}

/// The plugin's decoded response; empty if there is none (yet).
pub fn response(allocation: &Allocation) -> ContainerAllocateResponse {
    let bytes = allocation.response.as_deref().unwrap_or_default();
    ContainerAllocateResponse::decode(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nodewarden_model::DevicesPerNuma;
    use nodewarden_pods::spec::{DEVICES, ids_from_json};
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
    fn responses_of_several_resources_are_merged_and_conflicts_noted() {
        let one = BTreeMap::from([("a.b/c".to_owned(), allocation(&answer("1", "/h", "rw")))]);
        let injection = injection_of(&one);
        assert_eq!(injection.envs["A"], "1");
        assert_eq!(injection.mounts, [("/m".into(), "/h".into(), true)]);
        assert_eq!(injection.devices, [("/dev/x".into(), "/dev/x".into(), "rw".into())]);
        assert_eq!((injection.annotations["note"].as_str(), injection.cdi.len()), ("1", 1));
        assert!(injection.conflicts.is_empty() && !injection.is_empty());
        let annotations: BTreeMap<_, _> = injection.annotations().collect();
        assert_eq!(annotations[DEVICES], r#"{"a.b/c":{"-1":["d"]}}"#);
        assert_eq!(ids_from_json(&annotations[DEVICES]), Some(injection.ids.clone()));

        let two = [("x.y/z".to_owned(), allocation(&answer("2", "/i", "r")))];
        let injection = injection_of(&one.into_iter().chain(two).collect());
        assert_eq!((injection.envs["A"].as_str(), injection.mounts[0].1.as_str()), ("2", "/i"));
        assert_eq!((injection.mounts.len(), injection.devices.len(), injection.cdi.len()), (1, 1, 2));
        let conflicts = ["environment variable A", "mount /m", "device /dev/x", "annotation note"];
        assert_eq!(injection.conflicts, conflicts.map(|what| format!("{what} (x.y/z)")));
    }

    #[test]
    fn an_allocation_without_a_response_adds_nothing_but_its_ids() {
        assert!(injection_of(&BTreeMap::new()).is_empty());
        let unanswered = Allocation { devices: DevicesPerNuma::new(), response: None };
        let injection = injection_of(&BTreeMap::from([("a.b/c".to_owned(), unanswered)]));
        assert_eq!((injection.envs.len(), injection.is_empty()), (0, false));
    }
}
