//! The whole hierarchy of a node: every cgroup that the agent owns, with its limits.

use std::collections::BTreeMap;

use super::reserved::{Reserved, reserved};
use super::{Node, level, pod};
use nodewarden_machine::cgroup::control::{CgroupName, Limits, NameError};
use nodewarden_manifest::Pod;
use nodewarden_manifest::QosClass;

/// The cgroup of all pods, below the cgroup root.
const KUBEPODS: &str = "kubepods";
const BURSTABLE: &str = "burstable";
const BEST_EFFORT: &str = "besteffort";

/// The purpose of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// kubepods; with `cgroupsPerQOS: false` the cgroup root.
    Node,
    /// The cgroup of a QoS class. Guaranteed pods are in kubepods itself.
    Class(QosClass),
    /// A pod's cgroup.
    Pod {
        /// The pod's uid.
        uid: String,
    },
}

/// A cgroup with its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What it is for.
    pub role: Role,
    /// Its limits; `None` in a field means that it is not set.
    pub limits: Limits,
}

/// Every cgroup that has to exist, except those of containers, which the runtime creates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tree {
    /// By name, so parents are before their children.
    pub groups: BTreeMap<CgroupName, Group>,
    /// Cgroups that the agent does not own but limits.
    pub reserved: Vec<Reserved>,
}

/// Names of the hierarchy's upper levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels {
    /// The cgroup of all pods.
    pub kubepods: CgroupName,
    /// The cgroup of Burstable pods.
    pub burstable: CgroupName,
    /// The cgroup of BestEffort pods.
    pub best_effort: CgroupName,
}

impl Levels {
    /// The levels below a cgroup root.
    ///
    /// # Errors
    /// When `cgroup_root` is not an absolute path.
    pub fn below(cgroup_root: &str) -> Result<Self, NameError> {
        let kubepods = CgroupName::from_cgroupfs_path(cgroup_root)?.child(KUBEPODS)?;
        Ok(Self {
            burstable: kubepods.child(BURSTABLE)?,
            best_effort: kubepods.child(BEST_EFFORT)?,
            kubepods,
        })
    }

    /// The cgroup that contains the pods of a class.
    pub fn of(&self, class: QosClass) -> &CgroupName {
        match class {
            QosClass::Guaranteed => &self.kubepods,
            QosClass::Burstable => &self.burstable,
            QosClass::BestEffort => &self.best_effort,
        }
    }

    /// The cgroup of a pod.
    ///
    /// # Errors
    /// When the uid cannot be part of a cgroup's name.
    pub fn pod(&self, class: QosClass, uid: &str) -> Result<CgroupName, NameError> {
        self.of(class).child(format!("pod{uid}"))
    }
}

/// The hierarchy for these pods. With `cgroupsPerQOS: false` pods have no cgroups of their own, and only a
/// cgroup root other than `/` is limited.
///
/// # Errors
/// When `cgroupRoot` or a pod's uid cannot be a cgroup's name.
pub fn tree<'a>(
    pods: impl IntoIterator<Item = &'a Pod, IntoIter: Clone>,
    node: Node<'_>,
) -> Result<Tree, NameError> {
    let pods = pods.into_iter();
    let mut tree = tree_above(pods.clone(), node)?;
    if node.settings.cgroups_per_qos {
        let levels = Levels::below(&node.settings.cgroup_root)?;
        for pod in pods {
            let role = Role::Pod { uid: pod.uid.clone() };
            let group = Group { role, limits: pod::limits(pod, node) };
            tree.groups.insert(levels.pod(pod.qos, &pod.uid)?, group);
        }
    }
    Ok(tree)
}

/// As [`tree()`], without the cgroups of the pods themselves. Their limits are those of [`pod::limits`]: who
/// computes them one by one does not hold those of all pods at once.
///
/// # Errors
/// When `cgroupRoot` cannot be a cgroup's name.
pub fn tree_above<'a>(pods: impl IntoIterator<Item = &'a Pod>, node: Node<'_>) -> Result<Tree, NameError> {
    let root = &node.settings.cgroup_root;
    let mut groups = BTreeMap::new();
    if node.settings.cgroups_per_qos {
        let levels = Levels::below(root)?;
        let demand = level::Demand::of(pods, node);
        let mut add = |name: &CgroupName, role, limits| groups.insert(name.clone(), Group { role, limits });
        add(&levels.kubepods, Role::Node, level::kubepods(&demand, node));
        add(&levels.burstable, Role::Class(QosClass::Burstable), level::burstable(&demand, node));
        add(&levels.best_effort, Role::Class(QosClass::BestEffort), level::best_effort(&demand, node));
    } else {
        let name = CgroupName::from_cgroupfs_path(root)?;
        if !name.is_root() {
            groups.insert(name, Group { role: Role::Node, limits: level::cgroup_root(node) });
        }
    }
    Ok(Tree { groups, reserved: reserved(node) })
}

impl Tree {
    /// Raises the memory limits of the classes to their present usage if that is higher (kubelet
    /// `retrySetMemoryReserve`): for `qosReserved`. `usage` returns a cgroup's usage in bytes, if known.
    pub fn yield_to(&mut self, usage: impl Fn(&CgroupName) -> Option<u64>) {
        for (name, group) in &mut self.groups {
            if let (Role::Class(_), Some(used)) = (&group.role, usage(name)) {
                group.limits.memory_max = group.limits.memory_max.map(|max| level::second_try(max, used));
            }
        }
    }
}

#[cfg(test)]
mod tests;
