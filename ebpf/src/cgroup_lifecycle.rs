//! Topic cgroup lifecycle: a cgroup is created, removed, populated, emptied, or a process moves into it. Also
//! assigns the slots: a new cgroup gets its slot in `cgroup_mkdir`, before any process can enter it, so that
//! nothing it does is counted elsewhere.

use aya_ebpf::{
    helpers::bpf_probe_read_kernel_str_bytes, macros::btf_tracepoint, programs::BtfTracePointContext,
};
use aya_log_ebpf::warn;
use nodewarden_ebpf_abi::{
    CgroupLifecycleRecord, CgroupRecord, Kind, NAME_LEN, UNTRACKED, cache_entry, cache_index, slot_key,
};

use crate::{
    count::add,
    globals::*,
    maps::{SLOT_CACHE, SLOTS, UNTRACKED_GROUPS},
    read::{Ptr, probe},
    ring::{command, emit, header},
    slots::{copied_cgroup_id, css_cgroup_id, forget, free_slots, space_of},
};

globals! {
    /// cgroup
    OFF_CGROUP_SELF_PARENT: u32 = 0;
}

/// Space and kernel id of a cgroup; `None` if nothing is counted in its hierarchy.
#[inline(always)]
fn place(cgroup: Ptr) -> Option<(u32, u64)> {
    let id = copied_cgroup_id(cgroup)?;
    let root: Ptr = probe(cgroup, get(&OFF_CGROUP_ROOT))?;
    let space = space_of(probe(root, get(&OFF_ROOT_HIERARCHY))?)?;
    Some((space, id))
}

#[btf_tracepoint(function = "cgroup_mkdir")]
pub fn cgroup_mkdir(ctx: BtfTracePointContext) -> i32 {
    let cgroup: Ptr = ctx.arg(0);
    let Some((space, id)) = place(cgroup) else { return 0 };
    let key = slot_key(space, id);
    let slot = take(space, key);
    if slot == UNTRACKED {
        if let Some(counter) = UNTRACKED_GROUPS.get_ptr_mut(space) {
            // SAFETY: a word of the map.
            unsafe { add(counter, 1) };
        }
        if get(&VERBOSE) != 0 {
            warn!(&ctx, "no slot left for cgroup {} in space {}", id, space);
        }
    }
    let parent = probe(cgroup, get(&OFF_CGROUP_SELF_PARENT)).and_then(css_cgroup_id).unwrap_or(0);
    let node: Ptr = probe(cgroup, get(&OFF_CGROUP_KN)).unwrap_or(core::ptr::null());
    emit::<CgroupRecord>(Kind::Created, |record| {
        // SAFETY: the record is reserved and as large as its type; every field is written.
        unsafe {
            (*record).header = header(Kind::Created, space, id);
            (*record).parent = parent;
            (*record).slot = slot;
            (*record).pad = 0;
            (&raw mut (*record).name[0]).write(0);
            let name: Ptr = probe(node, get(&OFF_KN_NAME)).unwrap_or(core::ptr::null());
            let bytes = core::slice::from_raw_parts_mut((&raw mut (*record).name).cast::<u8>(), NAME_LEN);
            let _ = bpf_probe_read_kernel_str_bytes(name, bytes);
        }
    });
    0
}

/// Assigns a free slot to a new cgroup; returns `UNTRACKED` if there is none.
#[inline(always)]
fn take(space: u32, key: u64) -> u32 {
    let Ok(Some(slot)) = free_slots(space).pop() else { return UNTRACKED };
    if SLOTS.insert(&key, &slot, 0).is_err() {
        let _ = free_slots(space).push(slot, 0);
        return UNTRACKED;
    }
    if let Some(cached) = SLOT_CACHE.get_ptr_mut(cache_index(key)) {
        // SAFETY: one aligned word of the map.
        unsafe { cached.write_volatile(cache_entry(key, slot)) };
    }
    slot
}

#[btf_tracepoint(function = "cgroup_rmdir")]
pub fn cgroup_rmdir(ctx: BtfTracePointContext) -> i32 {
    let cgroup: Ptr = ctx.arg(0);
    let Some((space, id)) = place(cgroup) else { return 0 };
    let key = slot_key(space, id);
    // SAFETY: the value is copied at once; entries are replaced whole.
    let slot = unsafe { SLOTS.get(&key) }.copied().unwrap_or(UNTRACKED);
    // If the ring is full the entry stays in the table, until the agent walks the tree, finds it and frees
    // the slot. The kernel never uses an id again, so nothing else is counted in that slot until then.
    if send(Kind::Removed, space, id, slot, 0, None) {
        let _ = SLOTS.remove(&key);
        // After the table, from which other CPUs fill the cache. One that has read the table just before may
        // still do so: the agent looks again when it gives the slot back.
        forget(key);
    }
    0
}

#[btf_tracepoint(function = "cgroup_notify_populated")]
pub fn cgroup_notify_populated(ctx: BtfTracePointContext) -> i32 {
    let cgroup: Ptr = ctx.arg(0);
    let populated: u64 = ctx.arg(2);
    let Some((space, id)) = place(cgroup) else { return 0 };
    let kind = if populated as u32 != 0 { Kind::Populated } else { Kind::Emptied };
    send(kind, space, id, UNTRACKED, 0, None);
    0
}

#[btf_tracepoint(function = "cgroup_attach_task")]
pub fn cgroup_attach_task(ctx: BtfTracePointContext) -> i32 {
    moved(&ctx)
}

#[btf_tracepoint(function = "cgroup_transfer_tasks")]
pub fn cgroup_transfer_tasks(ctx: BtfTracePointContext) -> i32 {
    moved(&ctx)
}

/// Sends a record of a process that entered a cgroup.
#[inline(always)]
fn moved(ctx: &BtfTracePointContext) -> i32 {
    let cgroup: Ptr = ctx.arg(0);
    let task: Ptr = ctx.arg(2);
    let Some((space, id)) = place(cgroup) else { return 0 };
    let pid: u32 = probe(task, get(&OFF_TASK_TGID)).unwrap_or(0);
    send(Kind::Moved, space, id, UNTRACKED, pid, Some(task));
    0
}

/// Sends a record about a cgroup. Returns false if the ring was full.
#[inline(always)]
fn send(kind: Kind, space: u32, id: u64, slot: u32, pid: u32, task: Option<Ptr>) -> bool {
    emit::<CgroupLifecycleRecord>(kind, |record| {
        // SAFETY: the record is reserved and as large as its type; every field is written.
        unsafe {
            (*record).header = header(kind, space, id);
            (*record).slot = slot;
            (*record).pid = pid;
            (*record).command = match task {
                Some(task) => command(task),
                None => [0; 16],
            };
        }
    })
}
