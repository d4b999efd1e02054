//! Requests and limits of a whole pod (component-helpers `resource.PodRequests` and `PodLimits`).

use super::names::is_pod_level;
use super::resources::{add, raise};
use super::{Container, ContainerKind, Pod, ResourceList, Resources};

impl Pod {
    /// The pod's requests, which the scheduler reserves and from which the cgroup's weight is computed: the
    /// sum of the containers, or the pod's own requests for resources that it names, plus the overhead.
    pub fn requests(&self) -> ResourceList {
        let mut total = self.containers_requests();
        if let Some(own) = self.resources.as_ref().filter(|own| own.requests.keys().any(|n| is_pod_level(n)))
        {
            replace(&mut total, &own.requests);
        }
        add(&mut total, &self.overhead);
        total
    }

    /// The pod's limits by resource. The overhead is added to existing nonzero limits. Containers without a
    /// limit are not visible here: check that all have one before setting a limit.
    pub fn limits(&self) -> ResourceList {
        let mut total = self.containers_limits();
        if let Some(own) = self.resources.as_ref().filter(|own| names_pod_level(own)) {
            replace(&mut total, &own.limits);
        }
        for (name, overhead) in &self.overhead {
            if let Some(limit) = total.get_mut(name).filter(|limit| !limit.is_zero()) {
                *limit += overhead;
            }
        }
        total
    }

    /// The sum of the containers' requests, without the pod's own and the overhead.
    pub fn containers_requests(&self) -> ResourceList {
        aggregate(&self.containers, &self.init_containers, |c| &c.resources.requests)
    }

    /// The sum of the containers' limits, without the pod's own and the overhead.
    pub(crate) fn containers_limits(&self) -> ResourceList {
        aggregate(&self.containers, &self.init_containers, |c| &c.resources.limits)
    }

    /// Whether the pod itself sets resources that are supported at pod level (KEP-2837).
    pub fn sets_pod_level_resources(&self) -> bool {
        self.resources.as_ref().is_some_and(names_pod_level)
    }
}

fn names_pod_level(resources: &Resources) -> bool {
    resources.requests.keys().chain(resources.limits.keys()).any(|name| is_pod_level(name))
}

fn replace(total: &mut ResourceList, own: &ResourceList) {
    let counted = own.iter().filter(|(name, _)| is_pod_level(name));
    total.extend(counted.map(|(name, quantity)| (name.clone(), quantity.clone())));
}

/// The maximum of the running containers and sidecars, and of each init container with the sidecars before it
/// (KEP-753, "Resources calculation for scheduling and pod admission").
pub(super) fn aggregate(
    containers: &[Container],
    init_containers: &[Container],
    of: impl Fn(&Container) -> &ResourceList,
) -> ResourceList {
    let mut running = ResourceList::new();
    for container in containers {
        add(&mut running, of(container));
    }
    let (mut sidecars, mut starting) = (ResourceList::new(), ResourceList::new());
    for container in init_containers {
        if container.kind == ContainerKind::Sidecar {
            add(&mut running, of(container));
            add(&mut sidecars, of(container));
            raise(&mut starting, &sidecars);
        } else {
            let mut step = of(container).clone();
            add(&mut step, &sidecars);
            raise(&mut starting, &step);
        }
    }
    raise(&mut running, &starting);
    running
}
