//! The QoS class (pkg/apis/core/v1/helper/qos, `ComputePodQOS`).

use std::fmt;

use super::names::{CPU, MEMORY, is_compute};
use super::resources::add;
use super::{Pod, ResourceList, Resources};

/// QoS class of a pod, displayed as in `status.qosClass`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QosClass {
    /// Every container has limits for CPU and memory, and requests equal to them.
    Guaranteed,
    /// Some container has a request or limit for CPU or memory, but the pod is not Guaranteed.
    Burstable,
    /// No container has a request or limit for CPU or memory.
    BestEffort,
}

impl fmt::Display for QosClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        })
    }
}

/// The class of a pod with all defaults: from the pod's own resources if it has that field, else from its
/// containers and init containers. Only nonzero CPU and memory are considered.
pub(super) fn class(pod: &Pod) -> QosClass {
    match &pod.resources {
        Some(own) => of(&[own]),
        None => {
            let containers = pod.containers.iter().chain(&pod.init_containers);
            of(&containers.map(|container| &*container.resources).collect::<Vec<_>>())
        }
    }
}

fn of(all: &[&Resources]) -> QosClass {
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    let mut limited = true;
    for resources in all {
        add(&mut requests, &counted(&resources.requests));
        let own = counted(&resources.limits);
        limited &= own.contains_key(CPU) && own.contains_key(MEMORY);
        add(&mut limits, &own);
    }
    if requests.is_empty() && limits.is_empty() {
        QosClass::BestEffort
    } else if limited && requests == limits {
        QosClass::Guaranteed
    } else {
        QosClass::Burstable
    }
}

fn counted(list: &ResourceList) -> ResourceList {
    let counted = list.iter().filter(|(name, quantity)| is_compute(name) && quantity.is_positive());
    counted.map(|(name, quantity)| (name.clone(), quantity.clone())).collect()
}
