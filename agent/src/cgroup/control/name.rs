//! A cgroup's name, whichever driver makes it.

/// The parts of a cgroup's name below the root: `["kubepods", "burstable", "pod<uid>"]` (the kubelet's `CgroupName`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CgroupName(pub Vec<String>);
