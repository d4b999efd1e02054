//! One cgroup, joined over the hierarchies it lives in.

use std::sync::Arc;
use std::time::SystemTime;

use super::{Identity, KernelCounters, Usage};

/// One cgroup as seen now: who it is, what its files say, what the kernel programs counted.
///
/// On cgroup v1 and hybrid the directories of the same path in several hierarchies are one `GroupView`.
#[derive(Debug, Clone)]
pub struct GroupView {
    /// Path below the cgroup mount: `/` for the root, `/kubepods/burstable/pod…`.
    pub path: Arc<str>,
    /// Pod, container or plain path.
    pub identity: Arc<Identity>,
    /// When the cgroup was first seen (its creation, if that happened under watch).
    pub created: SystemTime,
    /// When it was removed, for the time its series are kept.
    pub removed: Option<SystemTime>,
    /// What its files say.
    pub usage: Usage,
    /// What the kernel programs counted.
    pub kernel: KernelCounters,
}
