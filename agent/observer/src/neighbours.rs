//! The kernel's sums of waits between cgroups, joined to those of containers and whom they waited for. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use nodewarden_ebpf_abi::{EARLIER, NODE, Space, WAIT_CPU, WAIT_DISK, WAIT_MEMORY, WaitKey};
use nodewarden_machine::cgroup::identify;
use nodewarden_machine::ebpf::PairWait;
use nodewarden_model::{Identity, Neighbour, NeighbourWait, WaitResource};

/// What a cgroup belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    /// A container, by the path of its cgroup.
    Container(Arc<str>),
    /// A pod's own cgroup, by its path.
    Pod(Arc<str>),
    /// Anything else, by the path of the systemd unit or of the cgroup.
    Cgroup(Arc<str>),
    /// The machine.
    Node,
    /// It is not known.
    Unknown,
}

/// What a sum is of, and the hierarchy in which its cgroups have their ids; `None` for a number that no
/// program writes.
pub fn resource(key: WaitKey) -> Option<(WaitResource, Space)> {
    match key.resource {
        WAIT_CPU => Some((WaitResource::Cpu, Space::Cpu)),
        WAIT_MEMORY => Some((WaitResource::Memory, Space::Memory)),
        WAIT_DISK => Some((WaitResource::Disk, Space::Io)),
        _ => None,
    }
}

/// The waits of each container by the path of its cgroup, longest first. `path_of` has the path of a cgroup
/// by its kernel id in a hierarchy, `named` the identity with names of a container or pod by the path of its
/// cgroup.
///
/// Cgroups that a container made count as the container. What it waited for itself is left out.
pub fn by_container(
    pairs: &[PairWait],
    path_of: impl Fn(Space, u64) -> Option<Arc<str>>,
    named: impl Fn(&Arc<str>) -> Arc<Identity>,
) -> HashMap<Arc<str>, Arc<[NeighbourWait]>> {
    let mut owners: HashMap<(WaitResource, u64), Owner> = HashMap::new();
    let mut owner = |what: WaitResource, space: Space, id: u64| {
        let find = || match id {
            EARLIER => Owner::Unknown,
            NODE => Owner::Node,
            id => path_of(space, id).map_or(Owner::Unknown, |path| owner_of(&path)),
        };
        owners.entry((what, id)).or_insert_with(find).clone()
    };
    let mut sums: HashMap<Arc<str>, HashMap<(WaitResource, Owner), u64>> = HashMap::new();
    for PairWait { key, ns } in pairs {
        let Some((what, space)) = resource(*key) else { continue };
        let Owner::Container(path) = owner(what, space, key.waiting) else { continue };
        let by = owner(what, space, key.neighbour);
        if by != Owner::Container(path.clone()) {
            let sum = sums.entry(path).or_default().entry((what, by)).or_default();
            *sum = sum.saturating_add(*ns);
        }
    }
    sums.into_iter().map(|(path, by)| (path, waits(by, &named))).collect()
}

fn waits(
    by: HashMap<(WaitResource, Owner), u64>,
    named: impl Fn(&Arc<str>) -> Arc<Identity>,
) -> Arc<[NeighbourWait]> {
    let wait = |((resource, owner), ns)| {
        let neighbour = match owner {
            Owner::Container(path) | Owner::Pod(path) => Neighbour::Pod(named(&path)),
            Owner::Cgroup(path) => Neighbour::Cgroup(path),
            Owner::Node => Neighbour::Node,
            Owner::Unknown => Neighbour::Unknown,
        };
        NeighbourWait { resource, neighbour, ns }
    };
    let mut waits: Vec<_> = by.into_iter().map(wait).collect();
    // Of equal ones always in the same order.
    waits.sort_by_cached_key(|wait| (Reverse(wait.ns), wait.resource, wait.neighbour.to_string()));
    waits.into()
}

/// The container that a path is in, else its pod, else the systemd unit, else the cgroup itself.
fn owner_of(path: &Arc<str>) -> Owner {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
    let mut unit = None;
    for end in ends {
        let above = &path[..end];
        match identify(above) {
            Identity::Container { .. } => return Owner::Container(above.into()),
            Identity::Pod { .. } if end == path.len() => return Owner::Pod(path.clone()),
            _ => {}
        }
        if unit.is_none() && (above.ends_with(".service") || above.ends_with(".scope")) {
            unit = Some(Arc::from(above));
        }
    }
    Owner::Cgroup(unit.unwrap_or_else(|| path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "/kubepods/burstable/pod8c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77";
    const OTHER_POD: &str = "/kubepods/besteffort/pod00000000-0d3b-4c4e-9a55-2f6d1b0c9e77";

    fn container(pod: &str, digit: &str) -> String {
        format!("{pod}/{}", digit.repeat(64))
    }

    #[test]
    fn a_cgroup_belongs_to_its_container_else_to_its_unit() {
        let own = container(POD, "5");
        let of_container = Owner::Container(own.as_str().into());
        let of_unit = |path: &str| Owner::Cgroup(path.into());
        for (path, expected) in [
            (&*own, of_container.clone()),
            (&*format!("{own}/init/worker"), of_container),
            (POD, Owner::Pod(POD.into())),
            ("/", of_unit("/")),
            ("/kubepods/burstable", of_unit("/kubepods/burstable")),
            ("/system.slice/kubelet.service", of_unit("/system.slice/kubelet.service")),
            ("/system.slice/containerd.service/x", of_unit("/system.slice/containerd.service")),
            ("/user.slice/user-0.slice/session-3.scope", of_unit("/user.slice/user-0.slice/session-3.scope")),
        ] {
            assert_eq!(owner_of(&path.into()), expected, "{path}");
        }
    }

    #[test]
    fn waits_are_summed_by_container_resource_and_neighbour() {
        let (own, other) = (container(POD, "5"), container(OTHER_POD, "6"));
        let paths = HashMap::from([
            (1, "/".to_owned()),
            (10, own.clone()),
            (11, format!("{own}/own")),
            (20, other.clone()),
            (30, "/system.slice/a.service/x".to_owned()),
            (31, "/system.slice/a.service".to_owned()),
            (40, POD.to_owned()),
        ]);
        let sum = |resource, waiting, neighbour, ns| {
            let key = WaitKey { waiting, neighbour, resource };
            PairWait { key, ns }
        };
        let pairs = [
            sum(WAIT_CPU, 10, 20, 5),
            sum(WAIT_CPU, 11, 20, 6),
            sum(WAIT_CPU, 10, 11, 100), // itself
            sum(WAIT_CPU, 10, 30, 3),
            sum(WAIT_CPU, 11, 31, 4),
            sum(WAIT_CPU, 10, 1, 1),
            sum(WAIT_CPU, 10, 99, 20),      // gone
            sum(WAIT_CPU, 11, EARLIER, 22), // not remembered
            sum(WAIT_CPU, 20, 10, 8),
            sum(WAIT_CPU, 30, 10, 9), // no container
            sum(WAIT_MEMORY, 10, 40, 2),
            sum(WAIT_MEMORY, 10, NODE, 2),
            sum(WAIT_MEMORY, 10, 10, 50), // for its own limit
            sum(WAIT_DISK, 11, 20, 1),
            sum(7, 10, 20, 1000), // of a newer program
        ];
        let named = |path: &Arc<str>| Arc::new(identify(path));
        let waits = by_container(&pairs, |_, id| paths.get(&id).map(|path| path.as_str().into()), named);
        let shown = |path: &str| {
            let line =
                |wait: &NeighbourWait| format!("{} {} {}", wait.resource.name(), wait.neighbour, wait.ns);
            waits[path].iter().map(line).collect::<Vec<_>>()
        };
        let name = |path: &str| Neighbour::Pod(named(&path.into())).to_string();
        let expected = [
            "cpu unknown 42".to_owned(),
            format!("cpu {} 11", name(&other)),
            "cpu /system.slice/a.service 7".to_owned(),
            format!("memory {} 2", name(POD)),
            "memory node 2".to_owned(),
            "cpu / 1".to_owned(),
            format!("disk {} 1", name(&other)),
        ];
        assert_eq!(shown(&own), expected);
        assert_eq!(shown(&other), [format!("cpu {} 8", name(&own))]);
        assert_eq!(waits.len(), 2);
    }
}
