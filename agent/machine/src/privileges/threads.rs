//! Giving up capabilities in every thread. The kernel keeps them for each thread, and only the thread itself
//! can give them up. So each is interrupted by a signal whose handler does it, as glibc does for setuid(2). A
//! new thread has what its creator has.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nodewarden_model::backoff::Backoff;

use super::capability::{Capability, CapabilitySet};
use super::error::PrivilegesError;
use super::held::{Held, threads};

/// The threads of this process.
const OWN: &str = "/proc/self/task";

/// Between two looks at the threads.
const PAUSE: Backoff = Backoff::doubling(Duration::from_millis(2), Duration::from_millis(100));

/// What the handler keeps.
static KEEP: AtomicU64 = AtomicU64::new(u64::MAX);

/// The first errno of a handler; 0 if there was none.
static ERRNO: AtomicI32 = AtomicI32::new(0);

/// Gives up every capability that is not in `keep`, in every thread: for the threads themselves, and for
/// programs that they start. Waits at most `longest` for threads that do not return from the kernel; they do
/// it when they return. Call it once.
///
/// Without CAP_SETPCAP the bounding set stays: then only `no_new_privs` keeps programs from having more.
///
/// # Errors
/// The kernel refuses it, or some threads have not done it in time.
pub fn keep_only(keep: CapabilitySet, longest: Duration) -> Result<(), PrivilegesError> {
    let own = Held::of_threads(Path::new(OWN))?;
    let bounds = own.effective.has(Capability::CapSetpcap);
    KEEP.store(keep.0, Ordering::Release);
    install_handler()?;
    lower_own(keep.0).map_err(|(call, source)| PrivilegesError::Call { call, source })?;
    let begun = Instant::now();
    let mut pause = PAUSE;
    // A look at the threads is not one moment: a thread that had not done it may have made one behind it.
    // After a look at which all had, none can make such a one, and a second look sees those that were made
    // before.
    let mut looks = 0;
    loop {
        let left = interrupt_others(keep, bounds)?;
        looks = if left == 0 { looks + 1 } else { 0 };
        if looks == 2 {
            break;
        }
        if left == 0 {
            continue;
        }
        if begun.elapsed() >= longest {
            return Err(PrivilegesError::Threads(left));
        }
        std::thread::sleep(pause.advance());
    }
    match ERRNO.load(Ordering::Acquire) {
        0 => Ok(()),
        errno => Err(PrivilegesError::Call { call: "capset", source: io::Error::from_raw_os_error(errno) }),
    }
}

/// Interrupts each thread that has more than `keep`, and counts them.
fn interrupt_others(keep: CapabilitySet, bounds: bool) -> Result<usize, PrivilegesError> {
    let has_more = |held: &Held| {
        let own = held.permitted.or(held.effective).or(if bounds { held.bounding } else { CapabilitySet(0) });
        !own.without(keep).is_empty()
    };
    let mut left = 0;
    for (thread, _) in threads(Path::new(OWN))?.iter().filter(|(_, held)| has_more(held)) {
        left += 1;
        // SAFETY: numbers only. A thread that has ended is no error here.
        let _ = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), *thread, signal()) };
    }
    Ok(left)
}

/// A real-time signal that nothing else here uses; the first few belong to the C library.
fn signal() -> i32 {
    libc::SIGRTMIN() + 5
}

/// The handler stays: a thread that was in the kernel runs it when it returns.
fn install_handler() -> Result<(), PrivilegesError> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeroes are a valid sigaction; the handler calls only what is async-signal-safe.
    let installed = unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = on_signal as extern "C" fn(i32) as usize;
        // Calls that can be are started again.
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal(), action, std::ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(PrivilegesError::Handler(io::Error::last_os_error())) }
}

/// Runs in each thread. Only system calls and atomics: it may interrupt anything.
extern "C" fn on_signal(_: i32) {
    // SAFETY: the thread's own errno, which the interrupted code may be about to read.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    if let Err((_, error)) = lower_own(KEEP.load(Ordering::Acquire)) {
        let _ = ERRNO.compare_exchange(
            0,
            error.raw_os_error().unwrap_or(-1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// include/uapi/linux/capability.h
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Words {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Gives up what is not in `keep` in the calling thread. Async-signal-safe.
fn lower_own(keep: u64) -> Result<(), (&'static str, io::Error)> {
    let failed = |call| (call, io::Error::last_os_error());
    // SAFETY: numbers only. Before Linux 4.3 there is no ambient set, and it is refused.
    let _ = unsafe {
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong, 0, 0, 0)
    };
    // First, since it needs CAP_SETPCAP; without that it is refused, and the bounding set stays.
    for number in (0..u64::BITS).filter(|number| keep >> number & 1 == 0) {
        // SAFETY: numbers only; one that the kernel does not know is refused.
        if unsafe { libc::prctl(libc::PR_CAPBSET_READ, libc::c_ulong::from(number), 0, 0, 0) } < 0 {
            break;
        }
        // SAFETY: as above.
        let _ = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) };
    }
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut words = [Words::default(); 2];
    // SAFETY: version 3 has two elements (capget(2)).
    if unsafe { libc::syscall(libc::SYS_capget, &raw mut header, words.as_mut_ptr()) } != 0 {
        return Err(failed("capget"));
    }
    for (word, keep) in words.iter_mut().zip([keep as u32, (keep >> 32) as u32]) {
        word.effective &= keep;
        word.permitted &= keep;
        word.inheritable = 0;
    }
    // SAFETY: as above.
    match unsafe { libc::syscall(libc::SYS_capset, &raw mut header, words.as_ptr()) } {
        0 => Ok(()),
        _ => Err(failed("capset")),
    }
}

#[cfg(test)]
mod tests;
