//! Workloads that start many processes.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Barrier};

use nix::sched::{CloneFlags, unshare};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, Signal, raise, signal};

use super::report::{End, Ended, Processed, Refused};
use super::{WorkError, child};

/// How many children to fork, one after the other, and how they end.
#[derive(clap::Args)]
pub struct Plan {
    /// How many children to fork
    forks: u64,
    /// How many of them exec `worker exit 0`
    #[arg(long, default_value_t = 0)]
    execs: u64,
    /// How many more die by SIGKILL; the others exit
    #[arg(long, default_value_t = 0)]
    killed: u64,
}

impl Plan {
    pub fn run(&self) -> Result<Processed, WorkError> {
        let own = std::env::current_exe().map_err(WorkError::system("current_exe"))?;
        let own = CString::new(own.as_os_str().as_bytes())
            .map_err(|e| WorkError::system("current_exe")(std::io::Error::from(e)))?;
        let mut done = Processed { forks: 0, execs: 0, exits: 0, signal_exits: 0 };
        for i in 0..self.forks {
            let (execs, killed) = (i < self.execs, i >= self.execs && i < self.execs + self.killed);
            let pid = child::spawn(|| {
                if execs {
                    exec(&own);
                } else if killed {
                    // Does not return if it succeeds.
                    let _ = raise(Signal::SIGKILL);
                }
                0
            })?;
            let end = child::wait(pid)?;
            let expected = if killed { End::Signal(Signal::SIGKILL as i32) } else { End::Code(0) };
            if end != expected {
                return Err(WorkError::Child(end));
            }
            done.forks += 1;
            done.exits += 1;
            done.execs += u64::from(execs);
            done.signal_exits += u64::from(killed);
        }
        Ok(done)
    }
}

/// Forks children with `threads` threads each, one after the other, three in each round: one exits while its
/// threads wait, one is killed, and in one each thread ends by itself.
pub fn threaded(rounds: u64, threads: usize) -> Result<Processed, WorkError> {
    let mut done = Processed { forks: 0, execs: 0, exits: 0, signal_exits: 0 };
    for _ in 0..rounds {
        for (one_by_one, killed) in [(false, false), (false, true), (true, false)] {
            let pid = child::spawn(|| {
                let started = Arc::new(Barrier::new(threads + 1));
                for _ in 0..threads {
                    let started = Arc::clone(&started);
                    std::thread::spawn(move || {
                        started.wait();
                        if !one_by_one {
                            nix::unistd::pause();
                        }
                    });
                }
                started.wait();
                if killed {
                    // Does not return if it succeeds.
                    let _ = raise_in_process(Signal::SIGKILL);
                }
                if one_by_one {
                    // SAFETY: ends this thread alone; the process ends with its last thread.
                    unsafe { libc::syscall(libc::SYS_exit, 0) };
                }
                0
            })?;
            let end = child::wait(pid)?;
            let expected = if killed { End::Signal(Signal::SIGKILL as i32) } else { End::Code(0) };
            if end != expected {
                return Err(WorkError::Child(end));
            }
            done.forks += 1;
            done.exits += 1;
            done.signal_exits += u64::from(killed);
        }
    }
    Ok(done)
}

/// Sends a signal to the whole process.
fn raise_in_process(signal: Signal) -> nix::Result<()> {
    nix::sys::signal::kill(nix::unistd::getpid(), signal)
}

/// Replaces the process by one that ends at once: `--version` is handled before any other argument.
fn exec(own: &CStr) -> Option<Infallible> {
    // The new image must not write into the worker's report.
    let null = std::fs::File::options().write(true).open("/dev/null").ok()?;
    nix::unistd::dup2_stdout(&null).ok()?;
    nix::unistd::execv(own, &[own, c"--version"]).ok()
}

/// Dies by SIGSEGV.
pub fn segv() {
    // Avoids a core file.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    // Rust's own handler only handles guard pages and would return.
    // SAFETY: the default action needs no handler function.
    let _ = unsafe { signal(Signal::SIGSEGV, SigHandler::SigDfl) };
    let _ = raise(Signal::SIGSEGV);
}

/// Forks children that exit at once, until killed.
pub fn fork_forever() -> Result<(), WorkError> {
    loop {
        let pid = child::spawn(|| 0)?;
        child::wait(pid)?;
    }
}

/// A fork bomb: forks forever, as does every child, until killed. Only for a cgroup that `pids.max` limits,
/// because the children outlive their parents.
pub fn fork_bomb() -> ! {
    loop {
        // SAFETY: a worker has a single thread: no lock can be held by another.
        if unsafe { nix::unistd::fork() }.is_err() {
            // The fork was refused. The next attempt succeeds once another process has ended.
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

/// Forks up to `at_most` children that wait for a signal, until the kernel refuses one. They end with this
/// process.
pub fn fork_until_refused(at_most: u64) -> Result<Refused, WorkError> {
    for forked in 0..at_most {
        let child = child::spawn(|| {
            nix::unistd::pause();
            0
        });
        match child {
            Ok(_) => {}
            Err(WorkError::System { source, .. }) => {
                return Ok(Refused { forked, errno: source.raw_os_error().unwrap_or(0) });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Refused { forked: at_most, errno: 0 })
}

/// Forks a child into a new pid namespace, where it is process 1, and lets it exit with a code.
pub fn exit_in_namespace(code: u8) -> Result<Ended, WorkError> {
    unshare(CloneFlags::CLONE_NEWPID).map_err(WorkError::system("unshare"))?;
    let pid = child::spawn(|| i32::from(code))?;
    Ok(Ended { pid: pid.as_raw() as u32, end: child::wait(pid)? })
}
