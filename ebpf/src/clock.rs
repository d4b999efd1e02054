//! The scheduler's clock: the run queue's own (`rq->clock`), which the scheduler has just read when it comes
//! to `sched_switch`. Reading a clock there again was a quarter of a program's time.

use crate::{
    globals::{get, globals},
    read::{Ptr, field},
};

/// There is no such field.
const NONE: u32 = u32::MAX;

globals! {
    /// task_struct, cfs_rq, rq: the way to the run queue's clock; u32::MAX where the kernel has no such field
    /// (without CONFIG_FAIR_GROUP_SCHED).
    OFF_TASK_CFS_RQ: u32 = NONE;
    OFF_CFS_RQ_RQ: u32 = NONE;
    OFF_RQ_CLOCK: u32 = NONE;
}

/// Whether [`run_queue_clock`] can be read. A constant for the verifier.
#[inline(always)]
pub fn has_run_queue_clock() -> bool {
    get(&OFF_TASK_CFS_RQ) != NONE && get(&OFF_CFS_RQ_RQ) != NONE && get(&OFF_RQ_CLOCK) != NONE
}

/// The time of the switch to `next`, in ns. It is the clock of `sched_info` (`last_arrival`, `last_queued`),
/// and not CLOCK_MONOTONIC.
///
/// # Safety
/// `next` must be a BTF-typed task_struct, and [`has_run_queue_clock`] true.
#[inline(always)]
pub unsafe fn run_queue_clock(next: Ptr) -> u64 {
    // SAFETY: task->se.cfs_rq->rq->clock, all typed.
    unsafe { field(field(field(next, &OFF_TASK_CFS_RQ), &OFF_CFS_RQ_RQ), &OFF_RQ_CLOCK) }
}
