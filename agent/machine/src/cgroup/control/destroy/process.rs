//! Single processes: their state, and signals that cannot reach another process with the same number.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::signal::Signal;
use procfs::process::{Process, StatFlags};

/// Fields of `/proc/<pid>/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its `comm`.
    pub name: String,
    /// `R`, `S`, `D`, `Z` and so on (proc_pid_stat(5)).
    pub state: char,
    /// Whether `PF_KTHREAD` is set: a thread of the kernel.
    pub kernel_thread: bool,
}

/// `None` if there is no such process or it cannot be read.
pub fn facts(pid: i32) -> Option<Facts> {
    let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
    let kernel_thread = stat.flags().is_ok_and(|flags| flags.contains(StatFlags::PF_KTHREAD));
    Some(Facts { name: stat.comm, state: stat.state, kernel_thread })
}

/// The number of this process.
pub fn own_pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// A process held by a descriptor: it stays the same process, even when another one gets its number after its
/// end.
#[derive(Debug)]
pub struct Handle(OwnedFd);

impl Handle {
    /// Opens a descriptor of the process that has this number now.
    ///
    /// # Errors
    /// As of pidfd_open(2): ESRCH if it is gone, ENOSYS before Linux 5.3.
    pub fn open(pid: i32) -> io::Result<Self> {
        // SAFETY: pidfd_open takes a number and flags, and touches no memory of this process.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends SIGKILL. It is no error if the process has ended already.
    ///
    /// # Errors
    /// As of pidfd_send_signal(2).
    pub fn kill(&self) -> io::Result<()> {
        self.signal(Signal::SIGKILL)
    }

    /// Sends this signal. It is no error if the process has ended already.
    ///
    /// # Errors
    /// As of pidfd_send_signal(2).
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: an open descriptor; no siginfo is passed, so that the kernel reads none.
        let sent = unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal as libc::c_int, no_info, 0)
        };
        match io::Error::last_os_error() {
            error if sent != 0 && error.raw_os_error() != Some(libc::ESRCH) => Err(error),
            _ => Ok(()),
        }
    }

    /// Releases the memory of a killed process without waiting until the process does so itself.
    ///
    /// # Errors
    /// As of process_mrelease(2): ENOSYS before Linux 5.15, EINVAL and ESRCH when it has done so already.
    pub fn release(&self) -> io::Result<()> {
        // SAFETY: an open descriptor and no flags; the memory belongs to a process that was killed.
        let released = unsafe { libc::syscall(libc::SYS_process_mrelease, self.0.as_raw_fd(), 0) };
        if released == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// The descriptor is readable once the process has ended.
impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn facts_of_this_process_and_of_the_kernels() {
        let own = facts(own_pid()).unwrap();
        assert!(!own.name.is_empty() && !own.kernel_thread);
        // kthreadd, if /proc shows it.
        if let Some(kthreadd) = facts(2).filter(|facts| facts.name == "kthreadd") {
            assert!(kthreadd.kernel_thread);
        }
        assert_eq!(facts(i32::MAX), None);
    }

    #[test]
    fn a_handle_kills_its_process_and_none_that_gets_the_number_later() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let handle = match Handle::open(child.id() as i32) {
            Ok(handle) => handle,
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                return assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
            }
        };
        handle.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        handle.kill().unwrap();
        assert!(Handle::open(i32::MAX).is_err());
    }
}
