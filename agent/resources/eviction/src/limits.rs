//! Limits of disk space that pods have of their own: `emptyDir.sizeLimit` and limits of `ephemeral-storage`.
//! A pod that exceeds one is evicted, however much the node has left (kubelet `localStorageEviction`).
//!
//! Three limits, checked in this order: each volume's; the pod's (the sum of its containers' limits, against
//! everything it has on disk); each container's (against its writable layer and its logs). A volume in memory
//! cannot grow beyond its limit and is not checked. Init containers, sidecars too, have no limit of their
//! own, only their part in the pod's (kubelet `containerEphemeralStorageLimitEviction`,
//! `podEphemeralStorageLimitEviction`). Unlike in the kubelet, a container's layer counts wherever it is,
//! also on a separate image file system.
//!
//! A figure that is not complete yet exceeds a limit if what is known of it does.

use std::collections::BTreeMap;

use super::{Candidate, ContainerUse};
use nodewarden_manifest::names::EPHEMERAL_STORAGE;
use nodewarden_manifest::volume_source::{EmptyDir, Medium};
use nodewarden_manifest::{Pod, Quantity};

/// The limits of a pod, in the order in which they are checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Names of `emptyDir` volumes on disk.
    pub volumes: Vec<(String, Quantity)>,
    pub pod: Option<Quantity>,
    pub containers: Vec<(String, Quantity)>,
}

impl Limits {
    /// The pod's limits; `None` if it has none.
    pub fn of(pod: &Pod) -> Option<Self> {
        let volume = |volume: &EmptyDir| {
            let size = volume.size_limit.as_ref().filter(|size| size.is_positive())?;
            (volume.medium == Some(Medium::Disk)).then(|| (volume.name.to_string(), size.clone()))
        };
        let all = || pod.containers.iter().chain(&pod.init_containers);
        let containers = pod.containers.iter().filter_map(|container| {
            let limit = container.resources.limits.get(EPHEMERAL_STORAGE)?;
            limit.is_positive().then(|| (container.name.clone(), limit.clone()))
        });
        // Summed only where a container has such a limit, since this runs for every pod at every check.
        let storage = all().any(|container| container.resources.limits.contains_key(EPHEMERAL_STORAGE));
        let limits = Self {
            volumes: pod.empty_dirs.iter().filter_map(volume).collect(),
            pod: storage.then(|| pod.limits().get(EPHEMERAL_STORAGE).cloned()).flatten(),
            containers: containers.collect(),
        };
        let has_any = limits.of_storage() || !limits.volumes.is_empty();
        has_any.then_some(limits)
    }

    /// Whether the pod or a container has a limit, not only volumes.
    pub fn of_storage(&self) -> bool {
        self.pod.is_some() || !self.containers.is_empty()
    }
}

/// A limit that a pod exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// The kubelet's name of it (`eviction_signal` of `kubelet_evictions`).
    pub signal: &'static str,
    /// Bytes.
    pub used: u64,
    pub limit: u64,
    /// `status.message`, in the kubelet's words. Ends with a space, as the kubelet's does.
    pub message: String,
}

/// The first limit that the pod exceeds. `volumes` holds bytes by volume name. What was not read exceeds no
/// limit.
pub fn exceeded(limits: &Limits, candidate: &Candidate, volumes: &BTreeMap<String, u64>) -> Option<Exceeded> {
    let beyond = |signal, used: u64, limit: &Quantity, message: String| {
        let is = Quantity::from_bytes(i64::try_from(used).unwrap_or(i64::MAX)) > *limit;
        let limit = u64::try_from(limit.value()).unwrap_or_default();
        is.then_some(Exceeded { signal, used, limit, message })
    };
    let volume = |(name, limit): &(String, Quantity)| {
        let message = format!("Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\". ");
        beyond("emptydirfs.limit", *volumes.get(name)?, limit, message)
    };
    let pod = |limit: &Quantity| {
        let message =
            format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ");
        let disk = candidate.disk?;
        let used = [disk.root, disk.logs, disk.volumes]
            .iter()
            .fold(0, |sum: u64, own| sum.saturating_add(own.bytes));
        beyond("ephemeralpodfs.limit", used, limit, message)
    };
    let container = |(name, limit): &(String, Quantity)| {
        let message = format!("Container {name} exceeded its local ephemeral storage limit \"{limit}\". ");
        let ContainerUse { root, logs, .. } = candidate.containers.get(name)?;
        let used = [root, logs].into_iter().flatten().fold(0, |sum: u64, own| sum.saturating_add(own.bytes));
        beyond("ephemeralcontainerfs.limit", used, limit, message)
    };
    let of_volumes = limits.volumes.iter().find_map(volume);
    of_volumes
        .or_else(|| limits.pod.as_ref().and_then(pod))
        .or_else(|| limits.containers.iter().find_map(container))
}

#[cfg(test)]
mod tests;
