//! Kills every process of a cgroup: all at once if the kernel can, else one by one while the cgroup is
//! frozen.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use log::debug;
use nix::sys::signal::{Signal, kill as send};
use nix::unistd::Pid;

use super::freeze::Frozen;
use super::process::{Handle, facts, own_pid};
use crate::cgroup::control::group_files::write_file;
use crate::cgroup::control::{GroupFiles, members};
use crate::cgroup::group_path::join;
use crate::cgroup::{CgroupError, Controller, Version};

/// Processes that were killed one by one and may need some CPU time to end. They must not be frozen again
/// meanwhile, which would keep them from ending.
#[derive(Debug, Default)]
pub struct Dying {
    pids: BTreeSet<i32>,
    since: Option<Instant>,
}

/// After this time a process number is assumed to belong to another process.
const DYING: Duration = Duration::from_secs(1);

impl Dying {
    fn are_all(&self, pids: &BTreeSet<i32>) -> bool {
        self.since.is_some_and(|since| since.elapsed() < DYING) && pids.is_subset(&self.pids)
    }
}

/// Kills the processes in `groups` (children first, `path` last). `pids` were just read from them.
///
/// # Errors
/// The cgroup's files cannot be read or written. Processes that do not end are left to the next round.
pub fn kill(
    files: &GroupFiles,
    path: &str,
    groups: &[String],
    pids: &BTreeSet<i32>,
    dying: &mut Dying,
) -> Result<(), CgroupError> {
    if dying.are_all(pids) {
        return Ok(());
    }
    hurry(files, path, groups);
    // On hybrid a process may be in a v1 cgroup and not in the v2 one of the same path.
    let reached = members::pids_in(files, groups, |hierarchy| hierarchy.version == Version::V2)?;
    if kill_at_once(files, path)? && pids.is_subset(&reached) {
        drop(Frozen::by_others(files, groups));
        return Ok(());
    }
    dying.pids = kill_frozen(files, path, groups)?;
    dying.since = Some(Instant::now());
    Ok(())
}

/// Forbids forks, for cgroups where no freezer prevents them in time.
pub(super) fn no_forks(files: &GroupFiles, path: &str) {
    if let Some(dir) = files.directory(Controller::Pids, path) {
        // Without the pids controller only the freezer prevents forks.
        let _ = write_file(&dir.join("pids.max"), "0");
    }
}

/// Freezes the cgroups, kills their processes, and thaws them so that the processes end. Returns the
/// processes.
pub(super) fn kill_frozen(
    files: &GroupFiles,
    path: &str,
    groups: &[String],
) -> Result<BTreeSet<i32>, CgroupError> {
    no_forks(files, path);
    let frozen = Frozen::freeze(files, groups)?;
    // Frozen processes neither fork nor end, so this list is complete.
    let pids = members::pids(files, groups)?;
    for pid in &pids {
        kill_one(files, *pid, path);
    }
    drop(frozen);
    Ok(pids)
}

/// Gives its processes the CPU time that they need to freeze and to end: with the lowest weight next to busy
/// pods, or over their quota, that would take seconds.
pub(super) fn hurry(files: &GroupFiles, path: &str, groups: &[String]) {
    let (weight, quota) = match files.interface().version(Controller::Cpu) {
        None => return,
        Some(Version::V1) => (("cpu.shares", "262144"), ("cpu.cfs_quota_us", "-1")),
        Some(Version::V2) => (("cpu.weight", "10000"), ("cpu.max", "max")),
    };
    let write = |group: &str, (file, text)| {
        if let Some(dir) = files.directory(Controller::Cpu, group) {
            // If this fails, they still end, only later.
            let _ = write_file(&dir.join(file), text);
        }
    };
    write(path, weight);
    groups.iter().for_each(|group| write(group, quota));
}

/// `cgroup.kill` (v2, kernel 5.14 on): everything in it and below it, including processes that are being
/// forked. False if the file does not exist or refuses (a threaded cgroup).
pub(super) fn kill_at_once(files: &GroupFiles, path: &str) -> Result<bool, CgroupError> {
    let Some(unified) = files.layout().unified() else { return Ok(false) };
    match write_file(&join(&unified.mount, path).join("cgroup.kill"), "1") {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Kills the process that has this number if it is in the cgroup. A descriptor is opened before the cgroup is
/// checked, so that no other process is killed if the number was reused.
fn kill_one(files: &GroupFiles, pid: i32, path: &str) {
    if pid <= 1 || pid == own_pid() {
        return;
    }
    let handle = match Handle::open(pid) {
        Ok(handle) => Some(handle),
        // Linux before 5.3 has no process descriptors.
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

#[cfg(test)]
mod tests;
