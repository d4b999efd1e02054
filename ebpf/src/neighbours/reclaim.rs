//! For whose limit tasks of a cgroup had to reclaim memory: that of their own cgroup, of one above it that
//! they share with others, or that of the machine.

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    macros::{btf_tracepoint, map},
    maps::LruHashMap,
    programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{NODE, WAIT_MEMORY, WaitKey};

use super::count;
use crate::{oom::reclaiming_for, ring::current, slots::memory_cgroup_id};

/// Reclaims in progress: pid_tgid of the task → when it began (CLOCK_MONOTONIC, ns), and the kernel id of the
/// cgroup whose limit was reached, or `NODE`.
#[map]
static NEIGHBOUR_RECLAIMS: LruHashMap<u64, [u64; 2]> = LruHashMap::with_max_entries(1, 0);

#[inline(always)]
fn begin(limit: impl Fn() -> u64) -> i32 {
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let _ = NEIGHBOUR_RECLAIMS.insert(&bpf_get_current_pid_tgid(), &[now, limit()], 0);
    0
}

#[inline(always)]
fn end() -> i32 {
    let task = bpf_get_current_pid_tgid();
    // SAFETY: copied at once; only this task writes its entry.
    let Some([began, neighbour]) = (unsafe { NEIGHBOUR_RECLAIMS.get(&task).copied() }) else { return 0 };
    let _ = NEIGHBOUR_RECLAIMS.remove(&task);
    // SAFETY: no arguments.
    let ns = unsafe { bpf_ktime_get_ns() }.saturating_sub(began);
    let waiting = memory_cgroup_id(current());
    // A reclaim that root asked for by memory.reclaim has no limit behind it.
    if waiting != 0 && neighbour != 0 {
        count(WaitKey { waiting, neighbour, resource: WAIT_MEMORY }, ns);
    }
    0
}

#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_begin")]
pub fn neighbours_direct_reclaim_begin(_: BtfTracePointContext) -> i32 {
    begin(|| NODE)
}

#[btf_tracepoint(function = "mm_vmscan_direct_reclaim_end")]
pub fn neighbours_direct_reclaim_end(_: BtfTracePointContext) -> i32 {
    end()
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_begin")]
pub fn neighbours_memcg_reclaim_begin(_: BtfTracePointContext) -> i32 {
    begin(|| reclaiming_for(current()))
}

#[btf_tracepoint(function = "mm_vmscan_memcg_reclaim_end")]
pub fn neighbours_memcg_reclaim_end(_: BtfTracePointContext) -> i32 {
    end()
}
