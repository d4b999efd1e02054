//! One cgroup, joined over the hierarchies in which it exists.

use std::sync::Arc;
use std::time::SystemTime;

use super::{Identity, KernelCounters, NeighbourWait, Usage};

/// One cgroup at the time of the snapshot: what it belongs to, the values of its files, the counts of the
/// kernel programs.
///
/// On cgroup v1 and hybrid the directories of the same path in several hierarchies are one `GroupView`.
#[derive(Debug, Clone)]
pub struct GroupView {
    /// Path below the cgroup mount: `/` for the root, `/kubepods/burstable/pod…`.
    pub path: Arc<str>,
    /// What the cgroup is in Kubernetes' terms.
    pub identity: Arc<Identity>,
    /// When the cgroup was first seen; its creation, if the agent was watching then.
    pub created: SystemTime,
    /// When it was removed; `None` while it exists. Removed cgroups stay in snapshots for the retention time.
    pub removed: Option<SystemTime>,
    /// The values of its files.
    pub usage: Usage,
    /// The counts of the kernel programs.
    pub kernel: KernelCounters,
    /// Of a container: whom its tasks, also those in cgroups below, waited for, longest first. Empty unless
    /// topic neighbours is on.
    pub waits: Arc<[NeighbourWait]>,
}
