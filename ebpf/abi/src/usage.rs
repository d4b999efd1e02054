//! What the cgroups of a hierarchy have in use now, as the iterator over them reads it.

/// A figure that is not counted in the cgroup's hierarchy, or for which the cgroup's controller is off.
pub const NOT_COUNTED: u64 = u64::MAX;

/// The usage of one cgroup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// The cgroup's kernel id in its hierarchy.
    pub id: u64,
    /// Pages charged to it and all below it, or `NOT_COUNTED`.
    pub pages: u64,
    /// Threads in it and all below it, with processes that wait to be reaped, or `NOT_COUNTED`.
    pub threads: u64,
}
