//! Who ran on a CPU while tasks of another cgroup waited in its run queue.
//!
//! Each CPU remembers its last turns, which are times in which it ran tasks of one cgroup. The scheduler
//! notes when a task was put into a run queue (`sched_info.last_queued`, CONFIG_SCHED_INFO). When the task
//! gets the CPU, the time since then is divided among the turns that lie in it: that is exact, whatever the
//! scheduler decides by. A task that is moved to another CPU's queue while it waits counts from then on: what
//! it waited in the first one is not known to be anybody's.

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::{btf_tracepoint, map},
    maps::Array,
    programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{NeighbourCpu, WAIT_CPU};

use super::{divide, remember};
use crate::{
    clock::{has_run_queue_clock, run_queue_clock},
    globals::*,
    read::{Ptr, field},
    slots::{copied_cpu_cgroup_id, cpu_cgroup_id},
};

/// What ran lately, indexed by CPU.
#[map]
static NEIGHBOUR_CPUS: Array<NeighbourCpu> = Array::with_max_entries(1, 0);

globals! {
    /// task_struct
    OFF_TASK_LAST_QUEUED: u32 = 0;
}

#[btf_tracepoint(function = "sched_switch")]
pub fn neighbours_sched_switch(ctx: BtfTracePointContext) -> i32 {
    let (prev, next): (Ptr, Ptr) = (ctx.arg(1), ctx.arg(2));
    // SAFETY: no arguments.
    let number = unsafe { bpf_get_smp_processor_id() };
    let Some(cpu) = NEIGHBOUR_CPUS.get_ptr_mut(number) else { return 0 };
    // SAFETY: this CPU's map value; the tracepoint's typed arguments.
    unsafe {
        let now = if has_run_queue_clock() { run_queue_clock(next) } else { bpf_ktime_get_ns() };
        if (*cpu).since_ns != 0 {
            end_turn(cpu, prev, now);
        }
        let pid: u32 = field(next, &OFF_TASK_PID);
        (*cpu).since_ns = now;
        (*cpu).pid = pid;
        if pid == 0 {
            (*cpu).cgroup = 0;
            return 0;
        }
        (*cpu).cgroup = cpu_cgroup_id(next);
        // The tracepoint comes before sched_info_arrive(), which sets it to 0.
        let queued: u64 = field(next, &OFF_TASK_LAST_QUEUED);
        let offset = (*cpu).clock_offset_ns;
        if queued != 0 && (has_run_queue_clock() || offset != 0) {
            divide(&raw const (*cpu).turns, WAIT_CPU, (*cpu).cgroup, queued.wrapping_sub(offset));
        }
    }
    0
}

/// Remembers the turn that ends now. Some kernels make some switches without calling the tracepoint (see
/// `crate::cpu`): then `prev` is not the task that was switched to last, and the turn is divided at the
/// moment when `prev` got the CPU.
///
/// # Safety
/// `cpu` must be this CPU's map value, `prev` a BTF-typed task_struct.
#[inline(always)]
unsafe fn end_turn(cpu: *mut NeighbourCpu, prev: Ptr, now: u64) {
    // SAFETY: as the caller says.
    unsafe {
        let arrival: u64 = field(prev, &OFF_TASK_LAST_ARRIVAL);
        let pid: u32 = field(prev, &OFF_TASK_PID);
        let (since, running) = ((*cpu).since_ns, (*cpu).cgroup);
        let turns = &raw mut (*cpu).turns;
        if pid == (*cpu).pid {
            // The idle task's arrival is not kept by every kernel.
            if pid != 0 && !has_run_queue_clock() {
                (*cpu).clock_offset_ns = arrival.wrapping_sub(since);
            }
            remember(turns, running, now);
            return;
        }
        let arrival = arrival.wrapping_sub((*cpu).clock_offset_ns);
        let arrival = if arrival < since || arrival > now { now } else { arrival };
        remember(turns, running, arrival);
        remember(turns, if pid == 0 { 0 } else { copied_cpu_cgroup_id(prev) }, now);
    }
}
