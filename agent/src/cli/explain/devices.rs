//! What is to be said of a pod's devices: those that it has, and its accesses to others. Pure.

use std::fmt::Write as _;

use nodewarden_proto::nodewarden::v1::{DeviceOwner, ListDevicesResponse};

use super::printable;

/// The devices and accesses of the pod of this name, `namespace/name` or uid, one a line; empty if there are
/// none.
pub fn of_pod(pod: &str, answer: &ListDevicesResponse) -> String {
    let is_it = |uid: &str, namespace: &str, name: &str| {
        [uid, name].contains(&pod) || pod.split_once('/') == Some((namespace, name))
    };
    let mut out = String::new();
    for resource in &answer.resources {
        for device in &resource.devices {
            let own = |own: &&DeviceOwner| is_it(&own.uid, &own.namespace, &own.name);
            let Some(owner) = device.owner.as_ref().filter(own) else { continue };
            let nodes = if device.nodes.is_empty() {
                String::new()
            } else {
                format!(" ({})", device.nodes.join(", "))
            };
            let what = format!("{} has {} {}{nodes}", owner.container, resource.name, device.id);
            // Writing to a String cannot fail.
            let _ = match device.problem.as_str() {
                "" => writeln!(out, "{}", printable(&what)),
                problem => writeln!(out, "{}", printable(&format!("{what}: {problem}"))),
            };
        }
    }
    for own in answer.denials.iter().filter(|own| is_it(&own.uid, &own.namespace, &own.name)) {
        let times = |count: u64, what: &str| (count > 0).then(|| format!("{count} times {what}"));
        let both = [times(own.audited, "let pass (Audit)"), times(own.denied, "denied")];
        let both: Vec<String> = both.into_iter().flatten().collect();
        let what = format!("it wanted device {}, which it was not given: {}", own.device, both.join(", "));
        let _ = writeln!(out, "{}", printable(&what));
    }
    out
}

#[cfg(test)]
mod tests {
    use nodewarden_proto::nodewarden::v1::{Device, DeviceDenial, DeviceResource};

    use super::*;

    #[test]
    fn devices_of_the_pod_and_its_accesses_to_others() {
        let device = |id: &str, name: &str, problem: &str| Device {
            id: id.into(),
            health: "Healthy".into(),
            numa: Vec::new(),
            owner: Some(DeviceOwner {
                uid: format!("uid-{name}"),
                namespace: "ml".into(),
                name: name.into(),
                container: "main".into(),
            }),
            nodes: vec!["/dev/x".into(), "/dev/y".into()],
            problem: problem.into(),
        };
        let resource = DeviceResource {
            name: "a.b/c".into(),
            devices: vec![
                device("d0", "train", ""),
                device("d1", "train", "/dev/x: gone"),
                device("d2", "other", ""),
            ],
            ..DeviceResource::default()
        };
        let denial = DeviceDenial {
            uid: "uid-train".into(),
            namespace: "ml".into(),
            name: "train".into(),
            device: "c 240:1".into(),
            audited: 2,
            denied: 3,
        };
        let answer = ListDevicesResponse {
            resources: vec![resource],
            denials: vec![denial],
            ..ListDevicesResponse::default()
        };
        let expected = "\
main has a.b/c d0 (/dev/x, /dev/y)
main has a.b/c d1 (/dev/x, /dev/y): /dev/x: gone
it wanted device c 240:1, which it was not given: 2 times let pass (Audit), 3 times denied
";
        for pod in ["train", "ml/train", "uid-train"] {
            assert_eq!(of_pod(pod, &answer), expected, "{pod}");
        }
        assert_eq!(of_pod("none", &answer), "");
        assert_eq!(of_pod("shop/train", &answer), "");
    }
}
