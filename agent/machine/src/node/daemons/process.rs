//! The facts about processes that determine which are moved.

use std::path::Path;

use nix::unistd::Pid;
use procfs::process::StatFlags;

use super::{DaemonError, place};

/// `kthreadd`, the parent of every kernel thread.
const KTHREADD: Pid = Pid::from_raw(2);
const INIT: Pid = Pid::from_raw(1);

/// One process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its process id.
    pub pid: Pid,
    /// The process id of its parent.
    pub parent: Pid,
    /// Whether `PF_KTHREAD` is set: a thread of the kernel.
    pub is_kernel_thread: bool,
    /// Whether it has ended and its parent has not waited for it yet.
    pub is_zombie: bool,
}

/// Which of the root cgroup's processes go to `systemCgroups`: all but process 1 and kernel threads, so that
/// the kernel's own work is never bound by a limit of user space (`ensureSystemCgroups` in the kubelet, which
/// knows kernel threads by their missing executable; that would leave out processes whose executable cannot
/// be read).
pub fn to_move(processes: &[Process]) -> Vec<Pid> {
    processes
        .iter()
        .filter(|p| p.pid != INIT && !p.is_zombie)
        .filter(|p| !p.is_kernel_thread && p.pid != KTHREADD && p.parent != KTHREADD)
        .map(|p| p.pid)
        .collect()
}

/// The processes of one cgroup; those that end meanwhile are left out.
pub fn members(directory: &Path) -> Result<Vec<Process>, DaemonError> {
    Ok(place::members(directory)?.into_iter().filter_map(read).collect())
}

pub(super) fn read(pid: Pid) -> Option<Process> {
    let stat = procfs::process::Process::new(pid.as_raw()).and_then(|p| p.stat()).ok()?;
    Some(Process {
        pid,
        parent: Pid::from_raw(stat.ppid),
        is_kernel_thread: StatFlags::from_bits_retain(stat.flags).contains(StatFlags::PF_KTHREAD),
        is_zombie: matches!(stat.state, 'Z' | 'X' | 'x'),
    })
}

/// A process's `comm`; empty if it is gone.
pub fn name(pid: Pid) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}
