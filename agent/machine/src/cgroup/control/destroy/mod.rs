//! Destroys a cgroup with everything in it.
//!
//! One round: read which processes there are; if any, kill them ([`kill`]), else remove the directories
//! bottom up. Rounds are repeated with growing pauses until everything is gone or the time is over, because a
//! killed process takes a moment to end and another may still be started.

mod at_once;
mod error;
mod freeze;
mod in_flight;
mod kill;
mod process;
mod target;

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use at_once::{Held, Killed, is_empty, kill_now};
use nodewarden_model::backoff::Backoff;

pub use error::{DestroyError, Holdout, StillThere};
pub use in_flight::InFlight;
pub(super) use process::{Handle, own_pid};
pub use target::KillTarget;

use super::group_files::remove_directory;
use super::{Driver, DriverKind, GroupFiles, members};
use crate::cgroup::CgroupError;

/// The pauses between rounds; the first is about what a process takes to end once killed.
const PAUSE: Backoff = Backoff::doubling(Duration::from_micros(500), Duration::from_millis(50));

/// What was necessary to destroy a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destroyed {
    /// Number of processes that were found alive in it.
    pub killed: usize,
    /// Number of rounds, including the last one.
    pub rounds: u32,
    /// How long it took.
    pub took: Duration,
}

/// See [`super::Manager::destroy`]. `path` is checked.
pub fn destroy(
    driver: &dyn Driver,
    files: &GroupFiles,
    path: &str,
    patience: Duration,
) -> Result<Destroyed, DestroyError> {
    let begun = Instant::now();
    let mut pause = PAUSE;
    let mut killed = BTreeSet::new();
    let mut dying = kill::Dying::default();
    for rounds in 1.. {
        let groups = members::subtree(files, path)?;
        let pids = members::pids(files, &groups)?;
        let result = if pids.is_empty() {
            remove(driver, files, path, &groups)
        } else {
            refuse_own(path, &pids)?;
            let result = kill::kill(files, path, &groups, &pids, &mut dying);
            killed.extend(pids.iter().copied());
            result
        };
        let took = begun.elapsed();
        match result {
            Ok(()) if pids.is_empty() => return Ok(Destroyed { killed: killed.len(), rounds, took }),
            Ok(()) if took < patience => {}
            Err(_) if took < patience => {}
            result => {
                let left = still_there(files, path, took, result.err())?;
                return Err(DestroyError::StillThere(Box::new(left)));
            }
        }
        sleep(pause.advance());
    }
    unreachable!("rounds are counted without end")
}

/// See [`super::Manager::remove_empty`]. `path` is checked.
pub fn remove_empty(driver: &dyn Driver, files: &GroupFiles, path: &str) -> Result<bool, CgroupError> {
    let groups = members::subtree(files, path)?;
    if !members::pids(files, &groups)?.is_empty() {
        return Ok(false);
    }
    remove(driver, files, path, &groups).map(|()| true)
}

/// See [`super::Manager::remove_childless`]. `path` is checked.
pub fn remove_childless(driver: &dyn Driver, files: &GroupFiles, path: &str) -> Result<bool, CgroupError> {
    let groups = members::subtree(files, path)?;
    if groups.len() > 1 || !members::pids(files, &groups)?.is_empty() {
        return Ok(false);
    }
    remove(driver, files, path, &groups).map(|()| true)
}

/// The processes in it now, after `waited`.
fn still_there(
    files: &GroupFiles,
    path: &str,
    waited: Duration,
    cause: Option<CgroupError>,
) -> Result<StillThere, CgroupError> {
    let left = members::subtree(files, path).and_then(|groups| members::pids(files, &groups))?;
    Ok(StillThere {
        path: path.to_owned(),
        waited,
        holdouts: left.iter().map(|pid| Holdout::of(*pid)).collect(),
        frozen_from_above: freeze::frozen_from_above(files, path),
        cause,
    })
}

/// Process 1 and this one are never killed: if they are in it, the caller has named the wrong cgroup.
fn refuse_own(path: &str, pids: &BTreeSet<i32>) -> Result<(), DestroyError> {
    match [1, own_pid()].into_iter().find(|pid| pids.contains(pid)) {
        None => Ok(()),
        Some(pid) => Err(DestroyError::Holds { path: path.to_owned(), pid }),
    }
}

/// Removes the cgroups in `groups`, which come children first. All are tried, also after an error.
fn remove(driver: &dyn Driver, files: &GroupFiles, path: &str, groups: &[String]) -> Result<(), CgroupError> {
    let mut result = Ok(());
    for group in groups {
        // Cgroups that the runtime created below are not units of this agent: only their directories are
        // removed.
        if group == path || driver.kind() == DriverKind::Systemd && group.ends_with(".slice") {
            result = result.and(driver.remove(group));
        } else {
            for (_, dir) in files.directories(group) {
                result = result.and(remove_directory(&dir));
            }
        }
    }
    result
}
