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
use super::{DestroyError, KillTarget, refuse_own, still_there};
use crate::cgroup::control::group_files::{check_path, read_file};
use crate::cgroup::control::{GroupFiles, members};
use crate::cgroup::group_path::join;
use crate::cgroup::{CgroupError, Version};

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
    /// Whether the process of the sandbox was left for later.
    pub has_sandbox: bool,
}

/// Some of them, which stay the same processes.
#[derive(Debug)]
pub struct Held(Vec<Handle>);

impl Held {
    /// Releases their memory while they are exiting (process_mrelease(2), Linux 5.15), so that a process that
    /// waits for a CPU or in the kernel does not keep it. Blocks until that is done.
    pub fn release(&self) {
        for handle in &self.0 {
            // EINVAL if the process has released it already, ESRCH if it has ended.
            if let Err(error) = handle.release() {
                debug!("process_mrelease: {error}");
            }
        }
    }
}

/// Sends SIGKILL to every process in `path` and below it, also to processes that are started meanwhile, until
/// each has got it or `patience` is over; with a `target` that has one, not to the process of the sandbox.
/// The cgroup is not removed; forks in it are forbidden if it has a pids controller. Does not wait for the
/// processes to end: see [`is_empty`]. It is no error if there is no such cgroup. `target`: its files, if
/// they were opened before. `exiting` gets processes as soon as they have the signal, while others may still
/// be looked for.
///
/// # Errors
/// It contains this process or process 1 ([`DestroyError::Holds`]: nothing was done); processes are started
/// faster than they can be killed ([`DestroyError::StillThere`]); its files cannot be read.
pub fn kill_now(
    files: &GroupFiles,
    path: &str,
    patience: Duration,
    target: Option<&KillTarget>,
    mut exiting: impl FnMut(Held),
) -> Result<Killed, DestroyError> {
    check_path(path)?;
    let target = target.filter(|target| target.path() == path);
    let mut prepared = target.and_then(KillTarget::list);
    if prepared.is_none() {
        refuse_own(path, &own_below(files, path))?;
    }
    let begun = Instant::now();
    let (mut killed, mut at) = (BTreeSet::new(), begun);
    let mut room = HELD;
    let sandbox = prepared.as_ref().and(target).map(KillTarget::sandbox).unwrap_or_default();
    let mut whole = false;
    for round in 0.. {
        // The first list is that of one hierarchy. If `cgroup.kill` has reached all of these, the list of
        // another one shows whether there are others; else lists of all follow, until one has nothing new.
        let is_last = round > 0 || (prepared.is_none() && files.layout().all().count() == 1);
        let Listed { groups, pids: found, in_v2 } = match prepared.take() {
            Some(prepared) => prepared,
            None if whole && round == 1 => list_in_one(files, path)?,
            None if is_last => list_all(files, path)?,
            None => list_first(files, path)?,
        };
        refuse_own(path, &found)?;
        let is_new = |pid: &i32| !killed.contains(pid) && !sandbox.contains(pid);
        let new: BTreeSet<i32> = found.into_iter().filter(is_new).collect();
        if new.is_empty() {
            if is_last { break } else { continue }
        }
        let first = killed.is_empty();
        if !first && begun.elapsed() >= patience {
            return Err(DestroyError::StillThere(Box::new(still_there(files, path, begun.elapsed(), None)?)));
        }
        let mut held = Vec::new();
        whole = first && in_v2 && kill_whole(files, path, target, &new, &mut held)?;
        if !whole {
            no_forks(files, path);
            for pid in &new {
                held.extend(kill_one(files, *pid, path).filter(|_| held.len() < room));
            }
            if round >= ROUNDS {
                kill_frozen(files, path, &groups)?;
            }
        }
        at = Instant::now();
        killed.extend(new);
        room = room.saturating_sub(held.len());
        if !held.is_empty() {
            exiting(Held(held));
        }
        if first {
            hurry(files, path, &groups);
            drop(Frozen::by_others(files, &groups));
        }
        if whole && is_last {
            break;
        }
    }
    Ok(Killed { processes: killed.len(), at, has_sandbox: !sandbox.is_empty() })
}

/// The cgroups from one down and their processes.
pub(super) struct Listed {
    pub groups: Vec<String>,
    pub pids: BTreeSet<i32>,
    /// Whether all of these processes are in the v2 cgroups of these paths.
    pub in_v2: bool,
}

/// Which of process 1 and this one are in it or below it, in any hierarchy.
pub(super) fn own_below(files: &GroupFiles, path: &str) -> BTreeSet<i32> {
    [1, own_pid()].into_iter().filter(|pid| members::is_below(files, *pid, path)).collect()
}

/// In every hierarchy.
fn list_all(files: &GroupFiles, path: &str) -> Result<Listed, CgroupError> {
    let groups = members::subtree(files, path)?;
    let pids = members::pids(files, &groups)?;
    Ok(Listed { groups, pids, in_v2: files.layout().all().all(|hierarchy| hierarchy.version == Version::V2) })
}

/// In the v2 hierarchy, or in another one if the v2 one has no process there.
fn list_first(files: &GroupFiles, path: &str) -> Result<Listed, CgroupError> {
    if let Some(unified) = files.layout().unified() {
        let (groups, pids) = members::in_hierarchy(files, unified, path)?;
        if !pids.is_empty() {
            return Ok(Listed { groups, pids, in_v2: true });
        }
    }
    list_in_one(files, path)
}

/// In the hierarchy of memory, else of the CPU, else in all.
fn list_in_one(files: &GroupFiles, path: &str) -> Result<Listed, CgroupError> {
    let Some(one) = members::one(files) else { return list_all(files, path) };
    let (groups, pids) = members::in_hierarchy(files, one, path)?;
    Ok(Listed { groups, pids, in_v2: false })
}

/// By `cgroup.kill`. False if the kernel lacks that file.
fn kill_whole(
    files: &GroupFiles,
    path: &str,
    target: Option<&KillTarget>,
    pids: &BTreeSet<i32>,
    held: &mut Vec<Handle>,
) -> Result<bool, CgroupError> {
    let before: Vec<Handle> = pids.iter().take(HELD).filter_map(|pid| Handle::open(*pid).ok()).collect();
    let whole = target.is_some_and(KillTarget::kill) || kill_at_once(files, path)?;
    if whole {
        held.extend(before);
    }
    Ok(whole)
}

/// As `super::kill::kill_one`. Returns the descriptor of the process. If none can be opened, the process is
/// killed by its number right after its cgroup was checked.
fn kill_one(files: &GroupFiles, pid: i32, path: &str) -> Option<Handle> {
    if pid <= 1 || pid == own_pid() {
        return None;
    }
    let handle = match Handle::open(pid) {
        Ok(handle) => Some(handle),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return None,
        Err(_) => None,
    };
    if !members::is_below(files, pid, path) || facts(pid).is_none_or(|facts| facts.kernel_thread) {
        return None;
    }
    let result = match &handle {
        Some(handle) => handle.kill(),
        None => send(Pid::from_raw(pid), Signal::SIGKILL).map_err(Into::into),
    };
    if let Err(error) = result {
        debug!("killing process {pid} of cgroup {path}: {error}");
    }
    handle
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
