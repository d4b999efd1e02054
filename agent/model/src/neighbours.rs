//! Whom a container waited for: whose tasks had the CPU, for whose limit memory was reclaimed, whose requests
//! a disk served first.

use std::fmt;
use std::sync::Arc;

use super::Identity;

/// What a container waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitResource {
    /// A CPU, in its run queue.
    Cpu,
    /// Memory, while its own tasks reclaimed some.
    Memory,
    /// A disk, with requests that it had.
    Disk,
}

impl WaitResource {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Disk];

    /// The name in metrics and in the interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// Whom a container waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Neighbour {
    /// Another container, or a pod whose containers share a limit.
    Pod(Arc<Identity>),
    /// A cgroup outside of pods: a systemd unit by the path of its cgroup, `/` for kernel threads.
    Cgroup(Arc<str>),
    /// The machine, which was short of memory as a whole.
    Node,
    /// It is not known any more.
    Unknown,
}

/// How long tasks of a container waited for one neighbour, since the agent began to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourWait {
    /// What for.
    pub resource: WaitResource,
    /// Whom for.
    pub neighbour: Neighbour,
    /// How long, in nanoseconds; times of several tasks that waited at once add up.
    pub ns: u64,
}

/// The longest of the waits for a resource, at most `most` of them, and the sum of the others in nanoseconds.
/// `waits` come longest first.
pub fn longest(
    waits: &[NeighbourWait],
    resource: WaitResource,
    most: usize,
) -> (Vec<&NeighbourWait>, Option<u64>) {
    let mut first: Vec<_> = waits.iter().filter(|wait| wait.resource == resource).collect();
    let others = first.split_off(most.min(first.len()));
    let sum =
        (!others.is_empty()).then(|| others.iter().fold(0, |sum: u64, wait| sum.saturating_add(wait.ns)));
    (first, sum)
}

/// `shop/cart/web` for a container, `shop/cart` for a pod; the uid of the pod and the id of the container
/// while names are not known; the path of a cgroup; `node`; `unknown`.
impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(identity) => match &**identity {
                Identity::Container { pod: Some(pod), names: Some(names), .. } => {
                    write!(f, "{}/{}/{}", pod.namespace, pod.name, names.name)
                }
                Identity::Container { pod_uid, id, .. } => write!(f, "{pod_uid}/{id}"),
                Identity::Pod { names: Some(pod), .. } => write!(f, "{}/{}", pod.namespace, pod.name),
                Identity::Pod { uid, .. } => f.write_str(uid),
                _ => f.write_str("unknown"),
            },
            Self::Cgroup(path) => f.write_str(path),
            Self::Node => f.write_str("node"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_manifest::QosClass;

    use super::*;
    use crate::{ContainerNames, PodNames};

    #[test]
    fn names_of_neighbours() {
        let qos = QosClass::Burstable;
        let container = |pod, names| {
            let (pod_uid, id, runtime) = ("u".to_owned(), "c0ffee".to_owned(), String::new());
            let identity = Identity::Container { pod_uid, qos, id, runtime, sandbox: false, pod, names };
            Neighbour::Pod(Arc::new(identity)).to_string()
        };
        let pod = |names| Neighbour::Pod(Arc::new(Identity::Pod { uid: "u".into(), qos, names })).to_string();
        let cart = Arc::new(PodNames { namespace: "shop".into(), name: "cart".into() });
        let names = Arc::new(ContainerNames { name: "web".into(), image: String::new() });
        assert_eq!(container(Some(cart.clone()), Some(names)), "shop/cart/web");
        assert_eq!(container(None, None), "u/c0ffee");
        assert_eq!((pod(Some(cart)), pod(None)), ("shop/cart".into(), "u".into()));
        let unit = "/system.slice/sshd.service";
        assert_eq!(Neighbour::Cgroup(unit.into()).to_string(), unit);
        assert_eq!([Neighbour::Node, Neighbour::Unknown].map(|own| own.to_string()), ["node", "unknown"]);
    }

    #[test]
    fn all_but_the_longest_are_one_sum() {
        let wait = |resource, ns| NeighbourWait { resource, neighbour: Neighbour::Unknown, ns };
        let (cpu, disk) = (WaitResource::Cpu, WaitResource::Disk);
        let waits = [wait(cpu, 9), wait(disk, 7), wait(cpu, 5), wait(cpu, 2), wait(cpu, 1)];
        assert_eq!(longest(&waits, cpu, 2), (vec![&waits[0], &waits[2]], Some(3)));
        assert_eq!(longest(&waits, cpu, 4).1, None);
        assert_eq!(longest(&waits, disk, 9), (vec![&waits[1]], None));
        assert_eq!(longest(&waits, WaitResource::Memory, 9), (Vec::new(), None));
    }
}
