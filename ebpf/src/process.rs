//! Topic process: counts forks, execs, exits and exits by a signal; sends a record of an abnormal exit.

use core::ptr;

use aya_ebpf::{
    macros::{btf_tracepoint, map},
    maps::LruHashMap,
    programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{ExitRecord, Kind};

use crate::{
    count::{add, group_cell},
    globals::*,
    read::{Ptr, field, probe, probe_or_zero},
    ring::{command, emit, header},
    slots::memory_cgroup_id,
};

/// Processes whose end was counted while some of their threads had not come to the tracepoint yet: tgid, and
/// start time of the first thread (CLOCK_MONOTONIC, ns). Only on kernels whose tracepoint does not say which
/// thread is the last one.
#[map]
static COUNTED_EXITS: LruHashMap<[u64; 2], u8> = LruHashMap::with_max_entries(1, 0);

globals! {
    /// task_struct
    OFF_TASK_EXIT_CODE: u32 = 0;
    OFF_TASK_THREAD_PID: u32 = 0;
    OFF_TASK_REAL_PARENT: u32 = 0;
    OFF_TASK_GROUP_LEADER: u32 = 0;
    OFF_TASK_START_TIME: u32 = 0;
    /// signal_struct
    OFF_SIGNAL_LIVE: u32 = 0;
    OFF_SIGNAL_THREADS: u32 = 0;
    OFF_SIGNAL_FLAGS: u32 = 0;
    OFF_SIGNAL_GROUP_EXIT: u32 = 0;
    /// pid, upid
    OFF_PID_LEVEL: u32 = 0;
    OFF_PID_NUMBERS: u32 = 0;
    UPID_SIZE: u32 = 0;
    OFF_UPID_NS: u32 = 0;
    /// pid_namespace
    OFF_PIDNS_REAPER: u32 = 0;
}

/// include/linux/sched/signal.h
const SIGNAL_GROUP_EXIT: u32 = 4;
/// include/uapi/linux/bpf.h: an insertion fails if the key is there already, with -EEXIST.
const BPF_NOEXIST: u64 = 1;
const EEXIST: i32 = 17;

#[btf_tracepoint(function = "sched_process_fork")]
pub fn sched_process_fork(ctx: BtfTracePointContext) -> i32 {
    let child: Ptr = ctx.arg(1);
    // SAFETY: the tracepoint's typed argument; a map value.
    unsafe {
        if field::<u32>(child, &OFF_TASK_PID) == field::<u32>(child, &OFF_TASK_TGID)
            && let Some(cell) = group_cell(memory_cgroup_id(child))
        {
            add(&raw mut (*cell).forks, 1);
        }
    }
    0
}

#[btf_tracepoint(function = "sched_process_exec")]
pub fn sched_process_exec(ctx: BtfTracePointContext) -> i32 {
    let task: Ptr = ctx.arg(0);
    // SAFETY: the tracepoint's typed argument; a map value.
    unsafe {
        if let Some(cell) = group_cell(memory_cgroup_id(task)) {
            add(&raw mut (*cell).execs, 1);
        }
    }
    0
}

#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit(ctx: BtfTracePointContext) -> i32 {
    let task: Ptr = ctx.arg(0);
    // A process ends with its last thread.
    let group_dead: u64 = ctx.arg(1);
    if group_dead & 1 != 0 {
        let _ = exit(task);
    }
    0
}

/// The same before Linux 6.16, where the tracepoint does not say whether the thread is the last one.
#[btf_tracepoint(function = "sched_process_exit")]
pub fn sched_process_exit_of_thread(ctx: BtfTracePointContext) -> i32 {
    let task: Ptr = ctx.arg(0);
    if ends_process(task) {
        let _ = exit(task);
    }
    0
}

/// Whether a process has ended whose end is not counted yet. `signal->live` counts the threads that have not
/// begun to exit. It is 0 for each thread that comes to the tracepoint after the last one has begun, which in
/// a process killed by a signal may be all of them.
#[inline(always)]
fn ends_process(task: Ptr) -> bool {
    let signal: Ptr = probe(task, get(&OFF_TASK_SIGNAL)).unwrap_or(ptr::null());
    if probe(signal, get(&OFF_SIGNAL_LIVE)).unwrap_or(1u32) != 0 {
        return false;
    }
    let threads: u32 = probe(signal, get(&OFF_SIGNAL_THREADS)).unwrap_or(0);
    let leader: Ptr = probe(task, get(&OFF_TASK_GROUP_LEADER)).unwrap_or(ptr::null());
    let tgid: u32 = probe(task, get(&OFF_TASK_TGID)).unwrap_or(0);
    let process = [u64::from(tgid), probe_or_zero(leader, get(&OFF_TASK_START_TIME))];
    if COUNTED_EXITS.get_ptr(&process).is_some() {
        return false;
    }
    // A thread belongs to the process until it is released, which is after the tracepoint. Alone, it is the
    // last one to come here.
    threads <= 1 || COUNTED_EXITS.insert(&process, &1, BPF_NOEXIST) != Err(-EEXIST)
}

/// Counts the end of the process of a thread, and sends a record if it was abnormal. The result only makes
/// `?` possible.
#[inline(always)]
fn exit(task: Ptr) -> Option<()> {
    // SAFETY: the tracepoint's typed argument.
    let flags: u32 = unsafe { field(task, &OFF_TASK_FLAGS) };
    if flags & PF_KTHREAD != 0 {
        return None;
    }
    let cgroup = memory_cgroup_id(task);
    let signal: Ptr = probe(task, get(&OFF_TASK_SIGNAL))?;
    let status: u32 = if probe::<u32>(signal, get(&OFF_SIGNAL_FLAGS))? & SIGNAL_GROUP_EXIT != 0 {
        probe(signal, get(&OFF_SIGNAL_GROUP_EXIT))?
    } else {
        probe(task, get(&OFF_TASK_EXIT_CODE))?
    };
    let killed = status & 0x7f != 0;
    let cell = group_cell(cgroup)?;
    // SAFETY: a map value.
    unsafe {
        add(&raw mut (*cell).exits, 1);
        if killed {
            add(&raw mut (*cell).signal_exits, 1);
        }
    }
    if status & 0xff7f == 0 {
        return None;
    }
    let own = in_namespace(task);
    let namespace_pid = probe(own, 0).unwrap_or(0);
    let parent: Ptr = probe(task, get(&OFF_TASK_REAL_PARENT))?;
    // A command that the runtime runs in the container (exec) has its parent elsewhere too, but then process
    // 1 of its pid namespace is in this cgroup.
    let main =
        memory_cgroup_id(parent) != cgroup && (namespace_pid == 1 || memory_cgroup_id(reaper(own)) != cgroup);
    if !killed && namespace_pid != 1 && !main {
        return None;
    }
    emit::<ExitRecord>(Kind::Exit, |record| {
        // SAFETY: the record is reserved and as large as its type; every field is written.
        unsafe {
            (*record).header = header(Kind::Exit, get(&SPACE_MEMORY), cgroup);
            (*record).pid = probe(task, get(&OFF_TASK_TGID)).unwrap_or(0);
            (*record).namespace_pid = namespace_pid;
            (*record).status = status;
            (*record).main = main.into();
            (*record).command = command(task);
        }
    });
    None
}

/// Address of the task's `upid` in its own pid namespace, `pid->numbers[pid->level]`, null if it cannot be
/// read. Its first field is the number. No `Option`: kept on the stack it would have no value while it is
/// `None`, and the verifier of older kernels (5.10) refuses a program that copies it.
#[inline(always)]
fn in_namespace(task: Ptr) -> Ptr {
    let pid: Ptr = probe(task, get(&OFF_TASK_THREAD_PID)).unwrap_or(ptr::null());
    let Some(level) = probe::<u32>(pid, get(&OFF_PID_LEVEL)) else { return ptr::null() };
    let at = get(&OFF_PID_NUMBERS).wrapping_add((level & 31).wrapping_mul(get(&UPID_SIZE)));
    pid.wrapping_add(at as usize)
}

/// Process 1 of the pid namespace of a `upid`, null if it cannot be read.
#[inline(always)]
fn reaper(own: Ptr) -> Ptr {
    let namespace: Ptr = probe(own, get(&OFF_UPID_NS)).unwrap_or(ptr::null());
    probe(namespace, get(&OFF_PIDNS_REAPER)).unwrap_or(ptr::null())
}
