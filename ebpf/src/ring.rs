//! Sending a record to the agent, and counting it if the ring is full.

use aya_ebpf::helpers::{bpf_ktime_get_ns, generated::bpf_get_current_task};
use nodewarden_ebpf_abi::{COMMAND_LEN, Header, Kind};

use crate::{
    count::add,
    globals::{OFF_TASK_COMM, get},
    maps::{EVENTS, LOST},
    read::{Ptr, probe},
};

/// Reserves a record, lets `fill` write all of it, and submits it. Returns false if the ring was full; the
/// loss is counted.
#[inline(always)]
pub fn emit<T: 'static>(kind: Kind, fill: impl FnOnce(*mut T)) -> bool {
    let Some(mut entry) = EVENTS.reserve::<T>(0) else {
        lost(kind);
        return false;
    };
    fill(entry.as_mut_ptr());
    entry.submit(0);
    true
}

/// Counts a record of this kind that could not be sent.
#[inline(always)]
pub fn lost(kind: Kind) {
    if let Some(counter) = LOST.get_ptr_mut(kind as u32) {
        // SAFETY: a word of the map.
        unsafe { add(counter, 1) };
    }
}

/// The header of a record about something that happens now.
#[inline(always)]
pub fn header(kind: Kind, space: u32, cgroup: u64) -> Header {
    // SAFETY: no arguments.
    Header { kind: kind as u32, space, time_ns: unsafe { bpf_ktime_get_ns() }, cgroup }
}

/// A task's command.
#[inline(always)]
pub fn command(task: Ptr) -> [u8; COMMAND_LEN] {
    probe(task, get(&OFF_TASK_COMM)).unwrap_or([0; COMMAND_LEN])
}

/// The task that runs now.
#[inline(always)]
pub fn current() -> Ptr {
    // SAFETY: no arguments; the current task outlives the program's run.
    unsafe { bpf_get_current_task() as Ptr }
}
