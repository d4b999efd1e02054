//! Values that the agent sets before it loads the programs: field offsets and enum values from the kernel's
//! BTF, the hierarchies, address ranges of symbols. They are constants for the verifier: it removes code that
//! they make unreachable, and checks typed accesses at exactly these offsets.

use core::ptr;

/// Defines globals. Those of one topic are in its own file.
macro_rules! globals {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* #[unsafe(no_mangle)] pub static $name: $type = $value;)*
    };
}
pub(crate) use globals;

globals! {
    /// task_struct
    OFF_TASK_CGROUPS: u32 = 0;
    OFF_TASK_PID: u32 = 0;
    OFF_TASK_TGID: u32 = 0;
    OFF_TASK_COMM: u32 = 0;
    OFF_TASK_SIGNAL: u32 = 0;
    OFF_TASK_FLAGS: u32 = 0;
    OFF_TASK_LAST_ARRIVAL: u32 = 0;
    /// css_set
    OFF_CSSET_SUBSYS: u32 = 0;
    OFF_CSSET_DFL: u32 = 0;
    /// cgroup_subsys_state
    OFF_CSS_CGROUP: u32 = 0;
    /// cgroup, cgroup_root, kernfs_node
    OFF_CGROUP_KN: u32 = 0;
    OFF_CGROUP_LEVEL: u32 = 0;
    OFF_CGROUP_ROOT: u32 = 0;
    OFF_ROOT_HIERARCHY: u32 = 0;
    OFF_KN_ID: u32 = 0;
    OFF_KN_NAME: u32 = 0;

    /// Hierarchy id of each space; u32::MAX for none.
    HIERARCHY_0: u32 = u32::MAX;
    HIERARCHY_1: u32 = u32::MAX;
    HIERARCHY_2: u32 = u32::MAX;
    HIERARCHY_3: u32 = u32::MAX;
    /// The space in which each of these is counted.
    SPACE_MEMORY: u32 = 0;
    SPACE_CPU: u32 = 0;
    SPACE_IO: u32 = 0;
    SPACE_UNIFIED: u32 = 0;
    /// Index in css_set.subsys of the controller on v1; u32::MAX where it is on the unified hierarchy.
    SUBSYS_MEMORY: u32 = u32::MAX;
    SUBSYS_CPU: u32 = u32::MAX;
    /// Index of the memory controller in css_set.subsys, whatever its hierarchy: for walking up through
    /// mem_cgroups.
    MEMCG_SUBSYS: u32 = u32::MAX;

    /// Slots of each per-CPU array.
    CAPACITY: u32 = 1;
    /// Not 0: write aya-log records (on rare paths only).
    VERBOSE: u32 = 0;
}

/// Bit of `task_struct.flags`: a kernel thread (include/linux/sched.h).
pub const PF_KTHREAD: u32 = 0x0020_0000;

/// Reads a global's value as the loader set it.
#[inline(always)]
pub fn get<T: Copy>(global: &T) -> T {
    // SAFETY: a valid reference; volatile because the loader replaces the value after compilation.
    unsafe { ptr::read_volatile(global) }
}
