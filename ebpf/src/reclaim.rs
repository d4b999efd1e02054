//! Topic reclaim: tasks that had to free memory themselves before they got some: direct reclaim (the node is
//! short of memory) or memcg reclaim (a memory cgroup reached its limit).

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    macros::{btf_tracepoint, map},
    maps::{Array, LruHashMap},
    programs::BtfTracePointContext,
};

use nodewarden_ebpf_abi::{Header, Kind, ReclaimRecord};

use crate::{
    count::{add, group_cell},
    ring::{current, emit},
    slots::memory_cgroup_id,
};

/// Time of the last `Kind::Reclaim` record (CLOCK_MONOTONIC, ns).
#[map]
static RECLAIM_REPORTED: Array<u64> = Array::with_max_entries(1, 0);
/// Reclaims in progress: pid_tgid of the task → when it began (CLOCK_MONOTONIC, ns).
#[map]
static RECLAIMS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(4096, 0);

/// Least time between two records, in ns.
const REPORT_NS: u64 = 5_000_000;

/// Notes that the current task begins to reclaim.
#[inline(always)]
fn begin() -> i32 {
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let _ = RECLAIMS.insert(&bpf_get_current_pid_tgid(), &now, 0);
    report(now);
    0
}

/// Sends a record, which wakes the agent's eviction, unless the last one was less than `REPORT_NS` ago. Two
/// CPUs that check the time at once both send one, which does no harm.
#[inline(always)]
fn report(now: u64) {
    let Some(last) = RECLAIM_REPORTED.get_ptr_mut(0) else { return };
    // SAFETY: a word of the map.
    unsafe {
        if now.saturating_sub(*last) < REPORT_NS {
            return;
        }
        *last = now;
    }
    emit::<ReclaimRecord>(Kind::Reclaim, |record| {
        let header = Header { kind: Kind::Reclaim as u32, space: 0, time_ns: now, cgroup: 0 };
        // SAFETY: the space of one record is reserved.
        unsafe { record.write(ReclaimRecord { header }) };
    });
}

/// Duration of the current task's reclaim in ns; `None` if its beginning was not seen.
#[inline(always)]
fn end() -> Option<u64> {
    let task = bpf_get_current_pid_tgid();
    // SAFETY: copied at once; only this task writes its entry.
    let began = unsafe { *RECLAIMS.get(&task)? };
    let _ = RECLAIMS.remove(&task);
    // SAFETY: no arguments.
    Some(unsafe { bpf_ktime_get_ns() }.saturating_sub(began))
}

#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
pub fn direct_reclaim_begin(_: BtfTracePointContext) -> i32 {
    begin()
}

#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
pub fn direct_reclaim_end(ctx: BtfTracePointContext) -> i32 {
    let pages: u64 = ctx.arg(0);
    if let Some(stall) = end()
        && let Some(cell) = group_cell(memory_cgroup_id(current()))
    {
        // SAFETY: a map value.
        unsafe {
            add(&raw mut (*cell).direct_count, 1);
            add(&raw mut (*cell).direct_stall_ns, stall);
            add(&raw mut (*cell).direct_pages, pages);
        }
    }
    0
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
pub fn memcg_reclaim_begin(_: BtfTracePointContext) -> i32 {
    begin()
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
pub fn memcg_reclaim_end(ctx: BtfTracePointContext) -> i32 {
    let pages: u64 = ctx.arg(0);
    if let Some(stall) = end()
        && let Some(cell) = group_cell(memory_cgroup_id(current()))
    {
        // SAFETY: a map value.
        unsafe {
            add(&raw mut (*cell).memcg_count, 1);
            add(&raw mut (*cell).memcg_stall_ns, stall);
            add(&raw mut (*cell).memcg_pages, pages);
        }
    }
    0
}
