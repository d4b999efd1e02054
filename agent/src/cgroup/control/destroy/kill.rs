//! Killing every process of a cgroup: at once where the kernel can, else frozen, one by one.

use std::collections::BTreeSet;

use log::debug;
use nix::sys::signal::{Signal, kill as send};
use nix::unistd::Pid;

use super::freeze::Frozen;
use super::process::{Handle, facts, own_pid};
use crate::cgroup::control::group_files::write_file;
use crate::cgroup::control::{GroupFiles, members};
use crate::cgroup::group_path::join;
use crate::cgroup::{CgroupError, Controller, LayoutKind};

/// On hybrid, rounds in which nothing but `cgroup.kill` is done: some milliseconds, which most processes need to end.
const AT_ONCE_ROUNDS: u32 = 4;

/// Kills what is in `groups` (children first, `path` last). `pids` were just read from them.
///
/// # Errors
/// The cgroup's files cannot be read or written. Processes that do not end are for the next round to see.
pub fn kill(
    files: &GroupFiles,
    path: &str,
    groups: &[String],
    pids: &BTreeSet<i32>,
    round: u32,
) -> Result<(), CgroupError> {
    let at_once = kill_at_once(files, path)?;
    if at_once && files.layout().kind() == LayoutKind::V2 {
        return Ok(());
    }
    if at_once && round <= AT_ONCE_ROUNDS {
        // On hybrid a process is seldom in a v1 cgroup and not in the v2 one of the same path.
        return Ok(());
    }
    // From now on no fork succeeds, wherever there is no freezer that stops it.
    if let Some(dir) = files.directory(Controller::Pids, path) {
        let _ = write_file(&dir.join("pids.max"), "0");
    }
    let frozen = Frozen::freeze(files, groups)?;
    // Nothing that stands still forks or ends: what is read now is all there is.
    let now = members::pids(files, groups)?;
    for pid in now.iter().chain(pids.difference(&now)) {
        kill_one(files, *pid, path);
    }
    drop(frozen);
    Ok(())
}

/// `cgroup.kill` (v2, kernel 5.14 on): everything in it and below it, forks in flight included. False where there is
/// none, or it does not do it (a threaded cgroup).
fn kill_at_once(files: &GroupFiles, path: &str) -> Result<bool, CgroupError> {
    let Some(unified) = files.layout().unified() else { return Ok(false) };
    match write_file(&join(&unified.mount, path).join("cgroup.kill"), "1") {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Kills the process that has this number if it is in the cgroup: held fast first and looked at then, so that a number
/// that has passed to another process kills nobody else.
fn kill_one(files: &GroupFiles, pid: i32, path: &str) {
    if pid <= 1 || pid == own_pid() {
        return;
    }
    let handle = match Handle::open(pid) {
        Ok(handle) => Some(handle),
        // Linux before 5.3: there is only the number.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => None,
        Err(_) => return,
    };
    if !members::is_below(files, pid, path) || facts(pid).is_none_or(|facts| facts.kernel_thread) {
        return;
    }
    let result = match handle {
        Some(handle) => handle.kill(),
        None => send(Pid::from_raw(pid), Signal::SIGKILL).map_err(Into::into),
    };
    if let Err(error) = result {
        debug!("killing process {pid} of cgroup {path}: {error}");
    }
}
