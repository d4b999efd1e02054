//! Whether a changed manifest resizes a running pod in place or replaces it, and in which order a resize is
//! done (KEP-1287). It is carried out in [`act::resize`](crate::act::resize).
//!
//! In place go requests and limits of CPU and memory, of containers and sidecars, as far as the API server
//! lets them be changed: the QoS class stays, and none is taken away. Everything else makes another pod of
//! it, labels and annotations too: containers see them in their environment, and to the kubelet the pod has
//! another uid then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{self, PodSpec};

use crate::decide::policy::spec_of;
use nodewarden_manifest::names::{CPU, MEMORY};
use nodewarden_manifest::{Container, ContainerKind, Pod, Resources, Spec};

/// The resources that are resized in place; a change of any other one makes another pod.
const RESIZED: [&str; 2] = [CPU, MEMORY];

/// What becomes of a pod that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing differs in meaning; the uid does not count.
    Same,
    /// CPU and memory only: the pod stays.
    Resize,
    /// The pod is ended, and the new one started.
    Replace,
}

/// What a resize does to the levels, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    /// What the pod's cgroup is sized by while containers change: the larger of old and new for each
    /// container, so that none of them is ever larger than its pod.
    pub before: Pod,
    /// Whose resources differ, in the manifest's order.
    pub containers: Vec<String>,
    /// The new pod: what its cgroup is sized by once all containers have changed.
    pub after: Pod,
}

impl Steps {
    /// While containers change, the pod's cgroup is sized as it is afterwards: none of them shrinks.
    pub fn no_container_shrinks(&self) -> bool {
        self.before.init_containers == self.after.init_containers
            && self.before.containers == self.after.containers
    }
}

/// How one running container gets other resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResizeMethod {
    Update,
    /// Its `resizePolicy` wants a restart for something that changes.
    Restart,
}

/// What has to happen so that `new` runs instead of `old`.
pub fn change(old: &Pod, new: &Pod) -> Change {
    // As good as always, and comparing takes two copies.
    if std::ptr::eq(old, new) {
        return Change::Same;
    }
    if without_sizes(old) != without_sizes(new) || old.qos != new.qos {
        return Change::Replace;
    }
    // Where the pod has resources of its own none are resized (before
    // InPlacePodLevelResourcesVerticalScaling).
    let resized = if new.resources.is_some() { Change::Replace } else { Change::Resize };
    let mut change = Change::Same;
    for (old, new) in resizable(old).zip(resizable(new)) {
        for name in RESIZED {
            let lists = [
                (&old.resources.requests, &new.resources.requests),
                (&old.resources.limits, &new.resources.limits),
            ];
            for (old, new) in lists {
                match (old.get(name), new.get(name)) {
                    (Some(_), None) => return Change::Replace,
                    (old, new) if old != new => change = resized,
                    _ => {}
                }
            }
        }
    }
    change
}

/// `new` with the CPU and memory that `old` has: what changes besides a resize. What `old` does not have is
/// as in `new`.
pub fn with_sizes_of(old: &Pod, new: &Pod) -> Pod {
    let mut pod = new.clone();
    let mut differs = false;
    for container in resizable_mut(&mut pod) {
        let Some(was) = resizable(old).find(|c| c.name == container.name) else { continue };
        if differing(&was.resources, &container.resources).is_empty() {
            continue;
        }
        differs = true;
        let own = Arc::make_mut(&mut container.resources);
        for (is, was) in
            [(&mut own.requests, &was.resources.requests), (&mut own.limits, &was.resources.limits)]
        {
            is.retain(|name, _| !RESIZED.contains(&name.as_str()));
            let sizes = was.iter().filter(|(name, _)| RESIZED.contains(&name.as_str()));
            is.extend(sizes.map(|(name, size)| (name.clone(), size.clone())));
        }
    }
    if differs {
        write_sizes(&mut pod);
    }
    pod
}

/// The safe order of a resize: the pod's level grows first and shrinks last.
pub fn steps(old: &Pod, new: &Pod) -> Steps {
    let mut before = new.clone();
    let mut changed = Vec::new();
    for container in resizable_mut(&mut before) {
        let Some(was) = resizable(old).find(|c| c.name == container.name) else { continue };
        if !differing(&was.resources, &container.resources).is_empty() {
            changed.push(container.name.clone());
        }
        container.resources = larger(&was.resources, &container.resources).into();
    }
    write_sizes(&mut before);
    Steps { before, containers: changed, after: new.clone() }
}

/// How a running container that was last given the resources `given` gets those that the manifest wants now;
/// `None` if it has them, and for init containers, which are not resized.
pub fn method(pod: &Pod, container: &Container, given: &Resources) -> Option<ResizeMethod> {
    if container.kind == ContainerKind::Init {
        return None;
    }
    let changed = differing(given, &container.resources);
    if changed.is_empty() {
        return None;
    }
    let restarts = |p: &v1::ContainerResizePolicy| {
        p.restart_policy == "RestartContainer" && changed.contains(p.resource_name.as_str())
    };
    let spec = spec_of(pod, &container.name);
    let restart = spec.is_some_and(|c| c.resize_policy.iter().flatten().any(restarts));
    Some(if restart { ResizeMethod::Restart } else { ResizeMethod::Update })
}

/// Names of what differs between two containers' CPU and memory.
fn differing(one: &Resources, other: &Resources) -> BTreeSet<&'static str> {
    let differs = |name: &&str| {
        one.requests.get(name) != other.requests.get(name) || one.limits.get(name) != other.limits.get(name)
    };
    RESIZED.into_iter().filter(differs).collect()
}

/// For each of CPU and memory the larger; without a limit in one of the two there is none.
fn larger(old: &Resources, new: &Resources) -> Resources {
    let mut both = new.clone();
    for name in RESIZED {
        if let Some(was) = old.requests.get(name)
            && both.requests.get(name).is_none_or(|is| was > is)
        {
            both.requests.insert(name.to_owned(), was.clone());
        }
        match (old.limits.get(name), both.limits.get(name)) {
            (Some(was), Some(is)) if was > is => {
                both.limits.insert(name.to_owned(), was.clone());
            }
            (None, Some(_)) => {
                both.limits.remove(name);
            }
            _ => {}
        }
    }
    both
}

fn resizable(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().filter(|c| c.kind == ContainerKind::Sidecar).chain(&pod.containers)
}

fn resizable_mut(pod: &mut Pod) -> impl Iterator<Item = &mut Container> {
    pod.init_containers.iter_mut().filter(|c| c.kind == ContainerKind::Sidecar).chain(&mut pod.containers)
}

/// The pod's containers' resources into its `spec`.
fn write_sizes(pod: &mut Pod) {
    let sizes: BTreeMap<String, v1::ResourceRequirements> =
        resizable(pod).map(|c| (c.name.clone(), c.resources.to_kubernetes())).collect();
    let mut spec = PodSpec::clone(&pod.spec());
    for container in containers_mut(&mut spec) {
        if let Some(size) = sizes.get(&container.name) {
            let own = container.resources.get_or_insert_default();
            (own.requests, own.limits) = (size.requests.clone(), size.limits.clone());
        }
    }
    pod.kept_spec = Spec::new(spec);
}

/// Everything that must be the same for a resize.
fn without_sizes(pod: &Pod) -> Pod {
    let mut bare = pod.clone();
    bare.uid = String::new();
    let mut resizable_names = BTreeSet::new();
    for container in resizable_mut(&mut bare) {
        resizable_names.insert(container.name.clone());
        let own = Arc::make_mut(&mut container.resources);
        for list in [&mut own.requests, &mut own.limits] {
            list.retain(|name, _| !RESIZED.contains(&name.as_str()));
        }
    }
    // Amounts are compared as values; in the manifest they are text. Claims are only there.
    let mut spec = PodSpec::clone(&bare.spec());
    (spec.resources, spec.overhead) = (None, None);
    for container in containers_mut(&mut spec) {
        if let Some(own) = &mut container.resources {
            (own.requests, own.limits) = (None, None);
            if own.claims.is_none() {
                container.resources = None;
            }
        }
    }
    bare.kept_spec = Spec::new(spec);
    bare
}

fn containers_mut(spec: &mut PodSpec) -> impl Iterator<Item = &mut v1::Container> {
    spec.init_containers.iter_mut().flatten().chain(&mut spec.containers)
}

#[cfg(test)]
mod tests;
