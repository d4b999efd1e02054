//! Whose requests a disk served while a request of another cgroup waited for it.
//!
//! A request that was issued before the one before it was completed has waited for that one, as if the disk
//! served one after the other in the order in which they complete. A disk that serves several at once is
//! shared by them: what is counted then is by how much the others came first.
//!
//! Several CPUs may complete requests of one disk at once: a turn may get lost then, and its time counts for
//! the turn after it.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{btf_tracepoint, map},
    maps::{HashMap, LruHashMap},
    programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{Turns, WAIT_DISK};

use super::{divide, remember};
use crate::{
    block::{OFF_RQ_DATA_LEN, cgroup_id},
    globals::*,
    read::{Ptr, probe},
};

/// What each disk served lately, by the address of its queue.
#[map]
static NEIGHBOUR_DISKS: HashMap<u64, Turns> = HashMap::with_max_entries(1, 0);
/// Requests in progress: address of the request → when it was issued (CLOCK_MONOTONIC, ns) and the kernel id
/// of its cgroup.
#[map]
static NEIGHBOUR_REQUESTS: LruHashMap<u64, [u64; 2]> = LruHashMap::with_max_entries(1, 0);

globals! {
    /// request
    OFF_RQ_QUEUE: u32 = 0;
}

#[btf_tracepoint(function = "block_rq_issue")]
pub fn neighbours_rq_issue(ctx: BtfTracePointContext) -> i32 {
    issued(ctx.arg(0), ctx.arg(0))
}

/// The same before Linux 5.11, where the request's queue is the first argument.
#[btf_tracepoint(function = "block_rq_issue")]
pub fn neighbours_rq_issue_of_queue(ctx: BtfTracePointContext) -> i32 {
    issued(ctx.arg(1), ctx.arg(1))
}

#[inline(always)]
fn issued(request: Ptr, key: u64) -> i32 {
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let _ = NEIGHBOUR_REQUESTS.insert(&key, &[now, cgroup_id(request).unwrap_or(0)], 0);
    0
}

#[btf_tracepoint(function = "block_rq_complete")]
pub fn neighbours_rq_complete(ctx: BtfTracePointContext) -> i32 {
    let request: Ptr = ctx.arg(0);
    let key: u64 = ctx.arg(0);
    let bytes: u64 = ctx.arg(2);
    // A request may complete in parts; the last part ends it.
    if (bytes as u32) < probe(request, get(&OFF_RQ_DATA_LEN)).unwrap_or(0) {
        return 0;
    }
    // SAFETY: the value is copied at once.
    let Some([issued, cgroup]) = (unsafe { NEIGHBOUR_REQUESTS.get(&key).copied() }) else { return 0 };
    let _ = NEIGHBOUR_REQUESTS.remove(&key);
    let Some(queue) = probe::<u64>(request, get(&OFF_RQ_QUEUE)) else { return 0 };
    let Some(disk) = NEIGHBOUR_DISKS.get_ptr_mut(&queue).or_else(|| first_of(queue)) else { return 0 };
    // SAFETY: a map value; no arguments.
    unsafe {
        if cgroup != 0 {
            divide(disk, WAIT_DISK, cgroup, issued);
        }
        remember(disk, cgroup, bpf_ktime_get_ns());
    }
    0
}

/// Room for the turns of a disk.
#[inline(always)]
fn first_of(queue: u64) -> Option<*mut Turns> {
    let _ = NEIGHBOUR_DISKS.insert(&queue, &Turns::default(), 0);
    NEIGHBOUR_DISKS.get_ptr_mut(&queue)
}
