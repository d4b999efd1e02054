//! Topic block: latency of each block request from issue to completion, by the cgroup that the request is
//! for.

use aya_ebpf::{
    helpers::bpf_ktime_get_ns,
    macros::{btf_tracepoint, map},
    maps::{Array, LruHashMap},
    programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{BlockCell, LATENCY_BUCKETS};

use crate::{
    count::{add, bucket},
    globals::*,
    maps::MMAPABLE,
    read::{Ptr, probe},
    slots::{css_cgroup_id, slot_of},
};

/// Block latencies, indexed by slot.
#[map]
static BLOCK_CELLS: Array<BlockCell> = Array::with_max_entries(1, MMAPABLE);
/// Block requests in progress: address of the request → when it was issued (CLOCK_MONOTONIC, ns); kernel id
/// of the cgroup × 2 + direction. Not the slot: when a request completes, that may be another cgroup's.
#[map]
static REQUESTS: LruHashMap<u64, [u64; 2]> = LruHashMap::with_max_entries(8192, 0);

globals! {
    /// request, bio, blkcg_gq, blkcg
    OFF_RQ_CMD_FLAGS: u32 = 0;
    OFF_RQ_DATA_LEN: u32 = 0;
    OFF_RQ_BIO: u32 = 0;
    OFF_BIO_BLKG: u32 = 0;
    OFF_BLKG_BLKCG: u32 = 0;
    OFF_BLKCG_CSS: u32 = 0;
}

/// include/linux/blk_types.h: REQ_OP_MASK, REQ_OP_READ, REQ_OP_WRITE
const OP_MASK: u32 = 0xff;
const OP_READ: u32 = 0;
const OP_WRITE: u32 = 1;

/// Kernel id of the cgroup that a request is for, in the io controller's hierarchy:
/// request->bio->bi_blkg->blkcg->css. `None` if the kernel has not set one of these pointers.
#[inline(always)]
pub fn cgroup_id(request: Ptr) -> Option<u64> {
    let bio: Ptr = probe(request, get(&OFF_RQ_BIO))?;
    let blkg: Ptr = probe(bio, get(&OFF_BIO_BLKG))?;
    let blkcg: Ptr = probe(blkg, get(&OFF_BLKG_BLKCG))?;
    css_cgroup_id(blkcg.wrapping_add(get(&OFF_BLKCG_CSS) as usize))
}

#[btf_tracepoint(function = "block_rq_issue")]
pub fn block_rq_issue(ctx: BtfTracePointContext) -> i32 {
    issued(ctx.arg(0), ctx.arg(0))
}

/// The same before Linux 5.11, where the request's queue is the first argument.
#[btf_tracepoint(function = "block_rq_issue")]
pub fn block_rq_issue_of_queue(ctx: BtfTracePointContext) -> i32 {
    issued(ctx.arg(1), ctx.arg(1))
}

/// Notes that a request goes to its device. `key` is its address.
#[inline(always)]
fn issued(request: Ptr, key: u64) -> i32 {
    let op = probe(request, get(&OFF_RQ_CMD_FLAGS)).unwrap_or(u32::MAX) & OP_MASK;
    if op != OP_READ && op != OP_WRITE {
        return 0;
    }
    // No cgroup has the id 0: such a request counts as untracked.
    let id = cgroup_id(request).unwrap_or(0);
    // SAFETY: no arguments.
    let now = unsafe { bpf_ktime_get_ns() };
    let _ = REQUESTS.insert(&key, &[now, id << 1 | u64::from(op)], 0);
    0
}

#[btf_tracepoint(function = "block_rq_complete")]
pub fn block_rq_complete(ctx: BtfTracePointContext) -> i32 {
    let request: Ptr = ctx.arg(0);
    let key: u64 = ctx.arg(0);
    let bytes: u64 = ctx.arg(2);
    // A request may complete in parts; the last part ends it.
    if (bytes as u32) < probe(request, get(&OFF_RQ_DATA_LEN)).unwrap_or(0) {
        return 0;
    }
    // SAFETY: the value is copied at once.
    let Some([issued, what]) = (unsafe { REQUESTS.get(&key).copied() }) else { return 0 };
    let _ = REQUESTS.remove(&key);
    let Some(cell) = BLOCK_CELLS.get_ptr_mut(slot_of(get(&SPACE_IO), what >> 1)) else { return 0 };
    // SAFETY: a map value; the indexes are bounded.
    unsafe {
        let latency = bpf_ktime_get_ns().saturating_sub(issued);
        let i = bucket(latency);
        let op = (what & 1) as usize;
        if i < LATENCY_BUCKETS {
            add(&raw mut (*cell).buckets[op][i], 1);
        }
        add(&raw mut (*cell).sum_ns[op], latency);
    }
    0
}
