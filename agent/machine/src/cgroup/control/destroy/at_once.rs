//! Killing every process of a cgroup at once, and leaving the cgroup itself.
//!
//! Unlike [`super::kill`], it does not freeze processes before killing them: a process that waits in the
//! kernel for memory would take long to freeze, and this is called when memory is short.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use log::debug;
use nix::sys::signal::{Signal, kill as send};
use nix::unistd::Pid;

use super::freeze::Frozen;
use super::kill::{hurry, kill_at_once, kill_frozen, no_forks};
use super::process::{Handle, facts, own_pid};
use super::{DestroyError, refuse_own, still_there};
use crate::cgroup::control::group_files::{check_path, read_file};
use crate::cgroup::control::{GroupFiles, members};
use crate::cgroup::group_path::join;
use crate::cgroup::{CgroupError, Hierarchy, Version};

/// Maximum number of processes that are held by a descriptor, so that their memory can be released.
const HELD: usize = 256;

/// After this number of rounds, a cgroup that still forks is frozen after all.
const ROUNDS: u32 = 4;

/// Processes that SIGKILL was sent to.
#[derive(Debug)]
pub struct Killed {
    /// Their number.
    pub processes: usize,
    /// When the last of them got it.
    pub at: Instant,
    held: Vec<Handle>,
}

impl Killed {
    /// Releases their memory while they are exiting (process_mrelease(2), Linux 5.15), so that a process that
    /// waits for a CPU or in the kernel does not keep it. Blocks until that is done.
    pub fn release(&self) {
        for handle in &self.held {
            // EINVAL if the process has released it already, ESRCH if it has ended.
            if let Err(error) = handle.release() {
                debug!("process_mrelease: {error}");
            }
        }
    }
}

/// Sends SIGKILL to every process in `path` and below it, also to processes that are started meanwhile, until
/// each has got it or `patience` is over. The cgroup is not removed; forks in it are forbidden if it has a
/// pids controller. Does not wait for the processes to end: see [`is_empty`]. It is no error if there is no
/// such cgroup.
///
/// # Errors
/// It contains this process or process 1 ([`DestroyError::Holds`]: nothing was done); processes are started
/// faster than they can be killed ([`DestroyError::StillThere`]); its files cannot be read.
pub fn kill_now(files: &GroupFiles, path: &str, patience: Duration) -> Result<Killed, DestroyError> {
    check_path(path)?;
    let own = [1, own_pid()].into_iter().filter(|pid| members::is_below(files, *pid, path)).collect();
    refuse_own(path, &own)?;
    let begun = Instant::now();
    let (mut killed, mut at) = (BTreeSet::new(), begun);
    let mut held = Vec::new();
    for round in 0.. {
        // The first list is that of one hierarchy: where there are a dozen it takes a tenth of the time, and
        // has all processes as a rule. Those after it are complete.
        let complete = round > 0 || files.layout().all().count() == 1;
        let (groups, found) = list(files, path, complete)?;
        refuse_own(path, &found)?;
        let new: BTreeSet<i32> = found.difference(&killed).copied().collect();
        if new.is_empty() {
            if complete { break } else { continue }
        }
        let first = killed.is_empty();
        if !first && begun.elapsed() >= patience {
            return Err(DestroyError::StillThere(Box::new(still_there(files, path, begun.elapsed(), None)?)));
        }
        let whole = first && kill_whole(files, path, &groups, &new, &mut held)?;
        if !whole {
            no_forks(files, path);
            new.iter().for_each(|pid| kill_one(files, *pid, path, &mut held));
            if round >= ROUNDS {
                kill_frozen(files, path, &groups)?;
            }
        }
        at = Instant::now();
        killed.extend(new);
        if first {
            hurry(files, path, &groups);
            drop(Frozen::by_others(files, &groups));
        }
        if whole && complete {
            break;
        }
    }
    Ok(Killed { processes: killed.len(), at, held })
}

/// The cgroups from `path` down and their processes: in every hierarchy if `complete`, else in one.
fn list(files: &GroupFiles, path: &str, complete: bool) -> Result<(Vec<String>, BTreeSet<i32>), CgroupError> {
    let groups =
        if complete { members::subtree(files, path)? } else { members::subtree_in_one(files, path)? };
    let pids = if complete { members::pids(files, &groups)? } else { members::pids_in_one(files, &groups)? };
    Ok((groups, pids))
}

/// By `cgroup.kill`. False if the kernel lacks that file or it does not reach all processes.
fn kill_whole(
    files: &GroupFiles,
    path: &str,
    groups: &[String],
    pids: &BTreeSet<i32>,
    held: &mut Vec<Handle>,
) -> Result<bool, CgroupError> {
    let file = |unified: &Hierarchy| join(&unified.mount, path).join("cgroup.kill");
    if !files.layout().unified().map(file).is_some_and(|file| file.exists()) {
        return Ok(false);
    }
    // On hybrid a process may be in a v1 cgroup and not in the v2 one of the same path.
    let reached = members::pids_in(files, groups, |hierarchy| hierarchy.version == Version::V2)?;
    let before: Vec<Handle> = pids.iter().take(HELD).filter_map(|pid| Handle::open(*pid).ok()).collect();
    let whole = kill_at_once(files, path)? && pids.is_subset(&reached);
    if whole {
        held.extend(before);
    }
    Ok(whole)
}

/// As `super::kill::kill_one`, and keeps the descriptor of the process. If no descriptor can be opened, the
/// process is killed by its number right after its cgroup was checked.
fn kill_one(files: &GroupFiles, pid: i32, path: &str, held: &mut Vec<Handle>) {
    if pid <= 1 || pid == own_pid() {
        return;
    }
    let handle = match Handle::open(pid) {
        Ok(handle) => Some(handle),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return,
        Err(_) => None,
    };
    if !members::is_below(files, pid, path) || facts(pid).is_none_or(|facts| facts.kernel_thread) {
        return;
    }
    let result = match &handle {
        Some(handle) => handle.kill(),
        None => send(Pid::from_raw(pid), Signal::SIGKILL).map_err(Into::into),
    };
    if let Err(error) = result {
        debug!("killing process {pid} of cgroup {path}: {error}");
    }
    held.extend(handle.filter(|_| held.len() < HELD));
}

/// Whether no process is left in it or below it, in any hierarchy.
///
/// # Errors
/// A file exists and cannot be read.
pub fn is_empty(files: &GroupFiles, path: &str) -> Result<bool, CgroupError> {
    // For most cgroups with processes this one file shows it; on hybrid only if the processes are in the v2
    // tree too.
    if let Some(unified) = files.layout().unified()
        && let Some(events) = read_file(&join(&unified.mount, path).join("cgroup.events"))?
        && events.lines().any(|line| line == "populated 1")
    {
        return Ok(false);
    }
    Ok(members::pids(files, &members::subtree(files, path)?)?.is_empty())
}

#[cfg(test)]
mod tests;
