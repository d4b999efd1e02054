//! The pod and container of a cgroup's path, by the names that the kubelet and the container runtimes give to
//! their cgroups.
//!
//! Sources: `pkg/kubelet/cm/pod_container_manager_linux.go` (`pod<uid>` below the QoS level, Guaranteed pods
//! right below kubepods), `cgroup_manager_linux.go` (`ToCgroupfs`, `ToSystemd`: a slice's name is its whole
//! path joined by `-`, with `-` in a component written as `_`), and the runtimes: containerd and CRI-O put
//! the container under the pod's cgroup as `<id>` or `crio-<id>` (cgroupfs) or `<runtime>-<id>.scope`
//! (systemd). A containerd on cgroupfs below a kubelet on systemd makes one directory named `<pod's
//! slice>:cri-containerd:<id>`.

use nodewarden_manifest::QosClass;
use nodewarden_model::Identity;

/// The kubelet's node-level cgroup (`defaultNodeAllocatableCgroupName`).
const KUBEPODS: &str = "kubepods";
/// Runtimes' ids have 64 hexadecimal digits; shortened ones 12.
const SHORTEST_ID: usize = 12;

/// The level of the kubelet's tree that the parts of a path have reached.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Above kubepods: in the kubelet's cgroup root, or not in the kubelet's tree at all.
    Outside,
    Kubepods,
    Qos(QosClass),
    Pod {
        qos: QosClass,
        uid: Uid<'a>,
    },
    Container {
        qos: QosClass,
        uid: Uid<'a>,
        runtime: &'a str,
        id: &'a str,
    },
    Nested {
        uid: Uid<'a>,
        id: &'a str,
    },
    /// Below kubepods, with a name that neither the kubelet nor a runtime gives.
    Foreign,
}

/// A pod's uid as it is in the path.
#[derive(Clone, Copy)]
struct Uid<'a> {
    text: &'a str,
    /// From a slice's name, where each `_` is a `-` of the uid.
    slice: bool,
}

impl Uid<'_> {
    fn dashed(self) -> String {
        if self.slice { self.text.replace('_', "-") } else { self.text.to_owned() }
    }
}

/// The pod and container of the cgroup at `path` (below the cgroup mount), by their ids; names are not known
/// here.
///
/// Everything before the kubepods level is assumed to be the kubelet's `cgroupRoot`. A child of a pod whose
/// name holds no container id (CRI-O's `crio-conmon-<id>.scope`, say) is [`Identity::Other`].
pub fn identify(path: &str) -> Identity {
    let mut components = path.split('/').filter(|component| !component.is_empty()).peekable();
    if components.peek().is_none() {
        return Identity::Root;
    }
    match components.fold(Place::Outside, step) {
        Place::Outside | Place::Foreign => Identity::Other,
        Place::Kubepods => Identity::Kubepods,
        Place::Qos(qos) => Identity::Qos(qos),
        Place::Pod { qos, uid } => Identity::Pod { uid: uid.dashed(), qos, names: None },
        Place::Container { qos, uid, runtime, id } => Identity::Container {
            pod_uid: uid.dashed(),
            qos,
            id: id.to_owned(),
            runtime: runtime.to_owned(),
            sandbox: false,
            pod: None,
            names: None,
        },
        Place::Nested { uid, id } => Identity::Nested { pod_uid: uid.dashed(), container_id: id.to_owned() },
    }
}

/// One directory further down.
fn step<'a>(place: Place<'a>, component: &'a str) -> Place<'a> {
    match place {
        Place::Container { uid, id, .. } | Place::Nested { uid, id } => Place::Nested { uid, id },
        Place::Foreign => Place::Foreign,
        Place::Pod { qos, uid } => match container(component) {
            Some((runtime, id)) => Place::Container { qos, uid, runtime, id },
            None => Place::Foreign,
        },
        Place::Outside | Place::Kubepods | Place::Qos(_) => {
            if let Some(name) = component.strip_suffix(".slice") {
                in_slice(place, name)
            } else if let Some((slice, rest)) = component.split_once(".slice:") {
                in_colon_form(slice, rest)
            } else {
                below(place, component, false)
            }
        }
    }
}

/// The name of one level, as in a cgroupfs path or between the dashes of a slice's name.
fn below<'a>(place: Place<'a>, name: &'a str, slice: bool) -> Place<'a> {
    match (place, name) {
        (Place::Outside, KUBEPODS) => Place::Kubepods,
        (Place::Outside, _) => Place::Outside,
        (Place::Kubepods, "burstable") => Place::Qos(QosClass::Burstable),
        (Place::Kubepods, "besteffort") => Place::Qos(QosClass::BestEffort),
        (Place::Kubepods, _) => pod(QosClass::Guaranteed, name, slice),
        (Place::Qos(qos), _) => pod(qos, name, slice),
        _ => Place::Foreign,
    }
}

/// A slice: its name contains all levels from the root of the slices on.
fn in_slice<'a>(before: Place<'a>, name: &'a str) -> Place<'a> {
    match (before, name.split('-').fold(Place::Outside, |place, part| below(place, part, true))) {
        (Place::Outside, Place::Outside) => Place::Outside,
        (_, Place::Outside) => Place::Foreign,
        (_, place) => place,
    }
}

/// `<pod's slice>:<runtime>:<id>`, given without the `.slice:`.
fn in_colon_form<'a>(slice: &'a str, rest: &'a str) -> Place<'a> {
    let Place::Pod { qos, uid } = in_slice(Place::Outside, slice) else { return Place::Outside };
    match rest.split_once(':') {
        Some((runtime, id)) if is_id(id) => Place::Container { qos, uid, runtime, id },
        _ => Place::Foreign,
    }
}

fn pod<'a>(qos: QosClass, name: &'a str, slice: bool) -> Place<'a> {
    match name.strip_prefix("pod") {
        // Not only UUIDs: a static pod's uid is a hash of its manifest, or any text that the manifest sets.
        Some(text) if is_uid(text) => Place::Pod { qos, uid: Uid { text, slice } },
        _ => Place::Foreign,
    }
}

/// Runtime and id of a directory right below a pod.
fn container(component: &str) -> Option<(&str, &str)> {
    let name = component.strip_suffix(".scope").unwrap_or(component);
    let (runtime, id) = match name.rsplit_once('-') {
        Some(("", _)) => return None,
        Some(parts) => parts,
        None => ("", name),
    };
    // CRI-O's and Podman's monitor of a container has a cgroup next to the container's.
    (is_id(id) && !runtime.ends_with("-conmon")).then_some((runtime, id))
}

fn is_uid(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn is_id(text: &str) -> bool {
    text.len() >= SHORTEST_ID && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
