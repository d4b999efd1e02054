//! Topic cpu: time on CPU, run-queue wait, switches; all by one program at `sched_switch`.
//!
//! The wait is the kernel's own figure: `task->sched_info.run_delay` grows by the time a task was runnable
//! without running, when it gets a CPU and when it is taken off one run queue to wait on another
//! (sched_info_arrive() and sched_info_dequeue() in kernel/sched/stats.h, CONFIG_SCHED_INFO). A small table
//! by pid keeps each task's figure at the end of its last turn on a CPU: the growth from the end of one turn
//! to the end of the next is the wait in between, on whichever run queue. For a task that is not in the
//! table, the figure when it is `next` is used: the tracepoint comes just before sched_info_arrive(), so only
//! waits on a run queue that the task has left are missing. So no program at wake-up is needed, which would
//! be at the busiest hooks of the scheduler.
//!
//! Some kernels make a few switches without calling the tracepoint (measured: 4 in 1,000). Then `prev` is not
//! the task that was switched in last, and the time in between is divided between the two tasks at the moment
//! when `prev` got its CPU, which the kernel keeps in `sched_info.last_arrival`.

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::{btf_tracepoint, map},
    maps::Array,
    programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{CpuCell, CpuState, LATENCY_BUCKETS, LastTurn, NO_SLOT, UNTRACKED};

use crate::{
    clock::{has_run_queue_clock, run_queue_clock},
    count::bucket,
    globals::*,
    maps::MMAPABLE,
    read::{Ptr, field},
    slots::{copied_cpu_cgroup_id, cpu_cgroup_id, slot_of},
};

/// CPU counters, indexed by CPU × capacity + slot.
#[map]
static CPU_CELLS: Array<CpuCell> = Array::with_max_entries(1, MMAPABLE);
/// The running task, indexed by CPU.
#[map]
static CPU_STATES: Array<CpuState> = Array::with_max_entries(1, MMAPABLE);
/// log2 of the number of entries of `LAST_TURNS`.
const LAST_TURNS_BITS: u32 = 13;
/// Last turns of tasks, indexed by a hash of the pid.
#[map]
static LAST_TURNS: Array<LastTurn> = Array::with_max_entries(1 << LAST_TURNS_BITS, 0);

globals! {
    /// task_struct
    OFF_TASK_RUN_DELAY: u32 = 0;
    OFF_TASK_STATE: u32 = 0;
}

/// How long the difference between the scheduler's clock and CLOCK_MONOTONIC is used, in ns: the latter is
/// adjusted, by 0.05 % at most.
const OFFSET_FOR_NS: u64 = 100_000_000;

#[btf_tracepoint(function = "sched_switch")]
pub fn sched_switch(ctx: BtfTracePointContext) -> i32 {
    let prev_state: u64 = ctx.arg(3);
    switch(ctx.arg(0), ctx.arg(1), ctx.arg(2), prev_state as u32)
}

/// The same before Linux 5.18, where the tracepoint does not have the state that `prev` had. Read from the
/// task, it is 0 too for one that did not go to sleep because of a signal.
#[btf_tracepoint(function = "sched_switch")]
pub fn sched_switch_without_state(ctx: BtfTracePointContext) -> i32 {
    let prev: Ptr = ctx.arg(1);
    // SAFETY: the tracepoint's typed argument.
    let prev_state: u32 = unsafe { field(prev, &OFF_TASK_STATE) };
    switch(ctx.arg(0), prev, ctx.arg(2), prev_state)
}

/// Counts a switch. `prev` and `next` are the tracepoint's typed arguments.
#[inline(always)]
fn switch(preempted: u64, prev: Ptr, next: Ptr, prev_state: u32) -> i32 {
    // As the kernel counts nvcsw and nivcsw (__schedule()).
    let voluntary = preempted & 1 == 0 && prev_state != 0;

    // SAFETY: no arguments.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(state) = CPU_STATES.get_ptr_mut(cpu) else { return 0 };
    // SAFETY: the map value of this CPU, which no other CPU writes; prev and next are typed.
    unsafe {
        let now = clock(&mut *state, next);
        if (*state).pid == field::<u32>(prev, &OFF_TASK_PID) {
            if (*state).slot != NO_SLOT {
                turn(&mut *state, cpu, prev, now, voluntary);
            }
        } else if (*state).since_ns != 0 {
            (*state).untraced += 1;
            untraced(&*state, cpu, prev, now, voluntary);
        }
        (*state).since_ns = now;
        let pid: u32 = field(next, &OFF_TASK_PID);
        (*state).pid = pid;
        if pid == 0 {
            (*state).slot = NO_SLOT;
            (*state).cgroup = 0;
        } else {
            (*state).run_delay_ns = field(next, &OFF_TASK_RUN_DELAY);
            let cgroup = cpu_cgroup_id(next);
            // Without a slot it is looked up each time: it may get one.
            if cgroup != (*state).cgroup || (*state).slot == UNTRACKED {
                (*state).cgroup = cgroup;
                (*state).slot = slot_of(get(&SPACE_CPU), cgroup);
            }
        }
    }
    0
}

/// The time of the switch to `next` in ns, by the clock of this CPU's run queue, or by CLOCK_MONOTONIC where
/// that cannot be read. Now and then notes the difference between the two.
///
/// # Safety
/// `next` must be a BTF-typed task_struct.
#[inline(always)]
unsafe fn clock(state: &mut CpuState, next: Ptr) -> u64 {
    // SAFETY: a typed task; no arguments.
    unsafe {
        if !has_run_queue_clock() {
            return bpf_ktime_get_ns();
        }
        let now = run_queue_clock(next);
        if now.wrapping_sub(state.offset_at_ns) > OFFSET_FOR_NS {
            state.offset_at_ns = now;
            state.clock_offset_ns = now.wrapping_sub(bpf_ktime_get_ns());
        }
        now
    }
}

/// The counters of a slot on a CPU.
#[inline(always)]
fn cell_of(cpu: u32, slot: u32) -> Option<*mut CpuCell> {
    CPU_CELLS.get_ptr_mut(cpu * get(&CAPACITY) + slot)
}

/// Counts a switch away from a task.
///
/// # Safety
/// `cell` must point to this CPU's map value.
#[inline(always)]
unsafe fn switched(cell: *mut CpuCell, voluntary: bool) {
    // SAFETY: as the caller says.
    unsafe {
        if voluntary {
            (*cell).voluntary += 1;
        } else {
            (*cell).preempted += 1;
        }
    }
}

/// Counts a wait of `ns` nanoseconds in a run queue.
///
/// # Safety
/// As for `switched`.
#[inline(always)]
unsafe fn waited(cell: *mut CpuCell, ns: u64) {
    let i = bucket(ns);
    // SAFETY: as the caller says; the index is bounded.
    unsafe {
        (*cell).wait_ns += ns;
        if i < LATENCY_BUCKETS {
            (*cell).wait[i] += 1;
        }
    }
}

/// The entry of `LAST_TURNS` for a pid. Several pids may share an entry; the pid in it says whose it is.
#[inline(always)]
fn last_turn(pid: u32) -> Option<*mut LastTurn> {
    LAST_TURNS.get_ptr_mut(pid.wrapping_mul(0x9E37_79B1) >> (32 - LAST_TURNS_BITS))
}

/// Counts the turn that ends now: `prev` has run since the last traced switch on this CPU.
///
/// # Safety
/// `prev` must be a BTF-typed task_struct.
#[inline(always)]
unsafe fn turn(state: &mut CpuState, cpu: u32, prev: Ptr, now: u64, voluntary: bool) {
    let Some(cell) = cell_of(cpu, state.slot) else { return };
    // SAFETY: this CPU's map value; a typed task.
    unsafe {
        let run_delay: u64 = field(prev, &OFF_TASK_RUN_DELAY);
        (*cell).on_cpu_ns += now.wrapping_sub(state.since_ns);
        switched(cell, voluntary);
        let mut before = state.run_delay_ns;
        if let Some(last) = last_turn(state.pid) {
            // A greater figure is from an earlier task with the same pid.
            if (*last).pid == u64::from(state.pid) && (*last).run_delay_ns < before {
                before = (*last).run_delay_ns;
            }
            (*last).pid = state.pid.into();
            (*last).run_delay_ns = run_delay;
        }
        waited(cell, run_delay.wrapping_sub(before));
    }
}

/// Divides the time since the last traced switch on this CPU between the task that was switched in then and
/// `prev`, which got the CPU without a call of the tracepoint.
///
/// # Safety
/// `prev` must be a BTF-typed task_struct.
#[inline(always)]
unsafe fn untraced(state: &CpuState, cpu: u32, prev: Ptr, now: u64, voluntary: bool) {
    // SAFETY: a typed task; this CPU's map values.
    unsafe {
        let arrival: u64 = field(prev, &OFF_TASK_LAST_ARRIVAL);
        let arrival = if arrival < state.since_ns || arrival > now { now } else { arrival };
        if state.slot != NO_SLOT
            && let Some(cell) = cell_of(cpu, state.slot)
        {
            (*cell).on_cpu_ns += arrival - state.since_ns;
        }
        if field::<u32>(prev, &OFF_TASK_PID) != 0
            && let Some(cell) = cell_of(cpu, slot_of(get(&SPACE_CPU), copied_cpu_cgroup_id(prev)))
        {
            (*cell).on_cpu_ns += now - arrival;
            switched(cell, voluntary);
            let pid: u32 = field(prev, &OFF_TASK_PID);
            if let Some(last) = last_turn(pid)
                && (*last).pid == u64::from(pid)
            {
                let run_delay: u64 = field(prev, &OFF_TASK_RUN_DELAY);
                waited(cell, run_delay.wrapping_sub((*last).run_delay_ns));
                (*last).run_delay_ns = run_delay;
            }
        }
    }
}

/// Does nothing: the overhead bench loads it to measure the least that a program at this hook costs.
#[btf_tracepoint(function = "sched_switch")]
pub fn empty_sched_switch(_: BtfTracePointContext) -> i32 {
    0
}
