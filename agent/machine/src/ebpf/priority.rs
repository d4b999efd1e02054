//! Threads that sleep nearly always and must get a CPU at once when the kernel reports something.

use std::io;
use std::mem::size_of;

/// Nice value of such threads.
const NICE: i32 = -20;

/// Their slice in nanoseconds, the shortest that the kernel takes (`__setparam_fair`). Since Linux 6.12 a
/// thread that wakes takes the CPU from one with a longer slice before that one's slice is over
/// (`PREEMPT_SHORT` in kernel/sched/features.h). Before, the kernel ignores it.
const SLICE_NS: u64 = 100_000;

/// Gives the calling thread nice −20 and the shortest slice.
///
/// # Errors
/// Without CAP_SYS_NICE. The only effect is a higher latency under full load.
pub fn raise_priority() -> io::Result<()> {
    let ordinary = libc::SCHED_OTHER.unsigned_abs();
    set(&libc::sched_attr {
        sched_policy: ordinary,
        sched_nice: NICE,
        sched_runtime: SLICE_NS,
        ..attributes()
    })
}

/// Has the calling thread run before every thread that is not real-time (SCHED_FIFO, priority 1), for one
/// that sleeps nearly always and must not wait for a CPU, not even for threads that it wakes itself. Threads
/// that it starts have an ordinary priority.
///
/// # Errors
/// Without CAP_SYS_NICE, or where the cgroup has no real-time bandwidth (CONFIG_RT_GROUP_SCHED).
pub fn run_in_real_time() -> io::Result<()> {
    let (policy, reset) = (libc::SCHED_FIFO.unsigned_abs(), libc::SCHED_FLAG_RESET_ON_FORK.unsigned_abs());
    set(&libc::sched_attr {
        sched_policy: policy,
        sched_flags: reset.into(),
        sched_priority: 1,
        ..attributes()
    })
}

/// Nothing but the size, which the kernel asks for.
fn attributes() -> libc::sched_attr {
    libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).unwrap_or_default(),
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

fn set(attributes: &libc::sched_attr) -> io::Result<()> {
    // SAFETY: a plain system call on the calling thread (0) with a structure that outlives it and has its own
    // size.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(attributes), 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calling thread's attributes, as the kernel has them.
    fn own() -> libc::sched_attr {
        let mut own = attributes();
        // SAFETY: a plain system call on the calling thread (0) that writes at most `size` bytes to the
        // structure.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut own, own.size, 0) };
        assert_eq!(got, 0, "{}", io::Error::last_os_error());
        own
    }

    #[test]
    fn the_kernel_takes_priority_and_slice() {
        let of_thread = |set: fn() -> io::Result<()>| {
            std::thread::spawn(move || set().map(|()| own())).join().expect("the thread ends")
        };
        let Ok(raised) = of_thread(raise_priority) else {
            nodewarden_testing::skip("no CAP_SYS_NICE");
            return;
        };
        assert_eq!((raised.sched_policy, raised.sched_nice), (0, NICE));
        // Before Linux 6.12 it shows none.
        assert!([0, SLICE_NS].contains(&raised.sched_runtime), "{}", raised.sched_runtime);
        match of_thread(run_in_real_time) {
            Ok(fifo) => assert_eq!((fifo.sched_policy, fifo.sched_priority), (1, 1)),
            Err(_) => nodewarden_testing::skip("no real-time bandwidth"),
        }
    }
}
