//! What every cgroup has in use, read at once: the kernel runs this program for each cgroup of a hierarchy
//! when the agent reads the iterator's descriptor. The agent would need two system calls for each cgroup
//! instead, to read `memory.current` (v1: `memory.usage_in_bytes`) and `pids.current`.

use aya_ebpf::{macros::map, maps::Array};
use nodewarden_ebpf_abi::{GroupUsage, NOT_COUNTED};

use crate::{
    globals::*,
    maps::MMAPABLE,
    oom::OFF_MEMCG_USAGE,
    read::{Ptr, field, probe},
};

/// What was read, in the order of the iteration.
#[map]
static GROUP_USAGE: Array<GroupUsage> = Array::with_max_entries(1, MMAPABLE);
/// How many cgroups were read. Set to 0 by the agent before each iteration. Those for which the array has no
/// room are counted too.
#[map]
static GROUP_USAGE_COUNT: Array<u64> = Array::with_max_entries(1, MMAPABLE);

globals! {
    /// cgroup: `subsys`, pointers to its states by controller.
    OFF_CGROUP_SUBSYS: u32 = 0;
    /// pids_cgroup
    OFF_PIDS_COUNTER: u32 = 0;
    /// Index of the pids controller in `cgroup.subsys`; u32::MAX in a kernel without it.
    PIDS_SUBSYS: u32 = u32::MAX;
}

/// `struct bpf_iter__cgroup`
#[repr(C)]
struct Context {
    meta: *const u8,
    cgroup: Ptr,
}

/// Adds one cgroup to what was read.
#[unsafe(no_mangle)]
#[unsafe(link_section = "iter/cgroup")]
fn cgroup_usage(context: *const Context) -> i32 {
    // SAFETY: the kernel's context of this kind of iterator.
    let cgroup = unsafe { (*context).cgroup };
    // The last call of an iteration is for none.
    if cgroup.is_null() {
        return 0;
    }
    let Some(count) = GROUP_USAGE_COUNT.get_ptr_mut(0) else { return 0 };
    // SAFETY: a map value: one iteration runs at a time, and it on one CPU; the verifier knows the types of
    // the context's pointers.
    unsafe {
        let at = *count;
        *count = at + 1;
        let Some(usage) = GROUP_USAGE.get_ptr_mut(at as u32) else { return 0 };
        (*usage).id = field(field::<Ptr>(cgroup, &OFF_CGROUP_KN), &OFF_KN_ID);
        (*usage).pages = counted(cgroup, get(&MEMCG_SUBSYS), get(&OFF_MEMCG_USAGE));
        (*usage).threads = counted(cgroup, get(&PIDS_SUBSYS), get(&OFF_PIDS_COUNTER));
    }
    0
}

/// The 64 bits at an offset of the cgroup's state for a controller, or `NOT_COUNTED`.
///
/// # Safety
/// `cgroup` must be a BTF-typed cgroup.
#[inline(always)]
unsafe fn counted(cgroup: Ptr, controller: u32, offset: u32) -> u64 {
    if controller == u32::MAX {
        return NOT_COUNTED;
    }
    let at = get(&OFF_CGROUP_SUBSYS) + controller * size_of::<Ptr>() as u32;
    // SAFETY: cgroup->subsys[controller], typed.
    let state: Ptr = unsafe { cgroup.add(at as usize).cast::<Ptr>().read_volatile() };
    // 0 as a pointer where the controller is off, which `probe` refuses.
    probe::<u64>(state, offset).unwrap_or(NOT_COUNTED)
}
