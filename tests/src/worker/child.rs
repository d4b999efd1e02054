//! Children of a worker: fork, end, wait.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use super::WorkError;
use super::report::End;

/// Forks a child that runs `work` and exits with its result. Workers have a single thread, so the child may
/// allocate memory and take locks.
pub fn spawn(work: impl FnOnce() -> i32) -> Result<Pid, WorkError> {
    // SAFETY: a worker has a single thread: no lock can be held by another.
    match unsafe { fork() }.map_err(WorkError::system("fork"))? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            // Without this, the children of a killed worker would stay until the cgroups are cleaned up.
            let _ = prctl::set_pdeathsig(Signal::SIGKILL);
            let code = work();
            // SAFETY: ends this process at once, without running the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
    }
}

/// Waits for a child's end.
pub fn wait(child: Pid) -> Result<End, WorkError> {
    loop {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(End::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(End::Signal(signal as i32)),
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(WorkError::system("waitpid")(error)),
        }
    }
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
