//! The slot of a cgroup, and which of a task's cgroups something is counted for.

use aya_ebpf::maps::Queue;
use nodewarden_ebpf_abi::{CACHE_ENTRIES, UNTRACKED, cache_entry, cache_index, slot_key};

use crate::{
    globals::*,
    maps::{FREE_0, FREE_1, FREE_2, FREE_3, SLOT_CACHE, SLOTS},
    read::{Ptr, field, probe},
};

/// Space of the hierarchy with this id; `None` if nothing is counted in it.
#[inline(always)]
pub fn space_of(hierarchy: u32) -> Option<u32> {
    if hierarchy == get(&HIERARCHY_0) {
        Some(0)
    } else if hierarchy == get(&HIERARCHY_1) {
        Some(1)
    } else if hierarchy == get(&HIERARCHY_2) {
        Some(2)
    } else if hierarchy == get(&HIERARCHY_3) {
        Some(3)
    } else {
        None
    }
}

/// The queue of free slots of a space.
#[inline(always)]
pub fn free_slots(space: u32) -> &'static Queue<u32> {
    match space {
        0 => &FREE_0,
        1 => &FREE_1,
        2 => &FREE_2,
        _ => &FREE_3,
    }
}

/// The slot of a cgroup, from the cache or else from the table; `UNTRACKED` if it has none.
#[inline(always)]
pub fn slot_of(space: u32, id: u64) -> u32 {
    let key = slot_key(space, id);
    let Some(cached) = SLOT_CACHE.get_ptr_mut(cache_index(key) & (CACHE_ENTRIES - 1)) else {
        return UNTRACKED;
    };
    // SAFETY: one aligned word of the map; other CPUs write it whole.
    let entry = unsafe { cached.read_volatile() };
    if entry >> 16 == key & 0xffff_ffff_ffff {
        return (entry & 0xffff) as u32;
    }
    // SAFETY: the value is copied at once; entries are replaced whole.
    match unsafe { SLOTS.get(&key) } {
        Some(slot) => {
            // SAFETY: as above.
            unsafe { cached.write_volatile(cache_entry(key, *slot)) };
            *slot
        }
        None => UNTRACKED,
    }
}

/// Removes a cgroup from the cache.
#[inline(always)]
pub fn forget(key: u64) {
    if let Some(cached) = SLOT_CACHE.get_ptr_mut(cache_index(key) & (CACHE_ENTRIES - 1)) {
        // SAFETY: one aligned word of the map.
        unsafe {
            if cached.read_volatile() >> 16 == key & 0xffff_ffff_ffff {
                cached.write_volatile(0);
            }
        }
    }
}

/// Kernel id of the cgroup a BTF-typed `struct cgroup *` points to.
///
/// # Safety
/// The pointer's type must be known to the verifier.
#[inline(always)]
pub unsafe fn cgroup_id(cgroup: Ptr) -> u64 {
    // SAFETY: cgroup->kn->id, both typed.
    unsafe { field(field::<Ptr>(cgroup, &OFF_CGROUP_KN), &OFF_KN_ID) }
}

/// Kernel id of the task's cgroup in the cpu controller's hierarchy.
///
/// # Safety
/// `task` must be a BTF-typed task_struct.
#[inline(always)]
pub unsafe fn cpu_cgroup_id(task: Ptr) -> u64 {
    // SAFETY: as the caller says.
    unsafe { cgroup_id(cpu_cgroup(task)) }
}

/// The task's cgroup in the cpu controller's v1 hierarchy, or in the unified one if the controller is there;
/// a BTF-typed pointer.
///
/// # Safety
/// `task` must be a BTF-typed task_struct.
#[inline(always)]
pub unsafe fn cpu_cgroup(task: Ptr) -> Ptr {
    let subsys = get(&SUBSYS_CPU);
    // SAFETY: task->cgroups->dfl_cgrp or task->cgroups->subsys[i]->cgroup, all typed.
    unsafe {
        let set: Ptr = field(task, &OFF_TASK_CGROUPS);
        if subsys == u32::MAX {
            field(set, &OFF_CSSET_DFL)
        } else {
            let at = get(&OFF_CSSET_SUBSYS) + subsys * 8;
            let css: Ptr = set.add(at as usize).cast::<Ptr>().read_volatile();
            field(css, &OFF_CSS_CGROUP)
        }
    }
}

/// The task's css of the controller with this index in `css_set.subsys`.
#[inline(always)]
fn subsys(task: Ptr, index: u32) -> Option<Ptr> {
    let set: Ptr = probe(task, get(&OFF_TASK_CGROUPS))?;
    probe(set, get(&OFF_CSSET_SUBSYS) + index * 8)
}

/// The task's mem_cgroup (the address of its css), whichever hierarchy the controller is on.
#[inline(always)]
pub fn memcg(task: Ptr) -> Option<Ptr> {
    subsys(task, get(&MEMCG_SUBSYS))
}

/// Kernel id of the cgroup that a css belongs to.
#[inline(always)]
pub fn css_cgroup_id(css: Ptr) -> Option<u64> {
    copied_cgroup_id(probe(css, get(&OFF_CSS_CGROUP))?)
}

/// Kernel id of a cgroup; `None` if it cannot be read. The verifier checks this much sooner than
/// [`cgroup_id`]: since Linux 6.4 it looks through all names of the kernel's types whenever it comes to a
/// load of a pointer whose type it knows (`btf_nested_type_is_trusted`), which was a quarter of the agent's
/// start.
#[inline(always)]
pub fn copied_cgroup_id(cgroup: Ptr) -> Option<u64> {
    let node: Ptr = probe(cgroup, get(&OFF_CGROUP_KN))?;
    probe(node, get(&OFF_KN_ID))
}

/// Kernel id of the task's cgroup in the memory controller's hierarchy; 0 if it cannot be read.
#[inline(always)]
pub fn memory_cgroup_id(task: Ptr) -> u64 {
    task_cgroup_id(task, get(&SUBSYS_MEMORY)).unwrap_or(0)
}

/// Kernel id of the task's cgroup in the cpu controller's hierarchy, for what seldom happens; 0 if it cannot
/// be read.
#[inline(always)]
pub fn copied_cpu_cgroup_id(task: Ptr) -> u64 {
    task_cgroup_id(task, get(&SUBSYS_CPU)).unwrap_or(0)
}

/// The same in a v1 controller's hierarchy, or in the unified one if `index` is u32::MAX.
#[inline(always)]
fn task_cgroup_id(task: Ptr, index: u32) -> Option<u64> {
    if index != u32::MAX {
        return css_cgroup_id(subsys(task, index)?);
    }
    let set: Ptr = probe(task, get(&OFF_TASK_CGROUPS))?;
    copied_cgroup_id(probe(set, get(&OFF_CSSET_DFL))?)
}
