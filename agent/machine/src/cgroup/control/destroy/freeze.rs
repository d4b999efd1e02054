//! Freezes all processes of a cgroup, so that none forks while they are killed one by one.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cgroup::CgroupError;
use crate::cgroup::control::GroupFiles;
use crate::cgroup::control::group_files::{read_file, write_file};
use crate::cgroup::group_path::join;

/// How long to wait until all are frozen. A process that waits in the kernel (state D) may take for ever:
/// then the others are killed, and the next round tries again.
const LIMIT: Duration = Duration::from_millis(100);

/// A frozen cgroup. Dropping it thaws its processes: they continue, or end if they were killed.
#[derive(Debug)]
pub struct Frozen {
    /// File and text that thaw it, for each cgroup: on v1, killed processes of a frozen cgroup do not end.
    thaw: Vec<(PathBuf, &'static str)>,
}

impl Frozen {
    /// Assumes that all are frozen: dropping it thaws what other programs have frozen with the v1 freezer,
    /// which keeps killed processes from ending (v2's does not).
    pub fn by_others(files: &GroupFiles, groups: &[String]) -> Self {
        // The topmost first: cgroups below it stay frozen until it is thawed.
        let state =
            |group: &String| Some((join(files.layout().freezer()?, group).join("freezer.state"), "THAWED"));
        Self { thaw: groups.iter().rev().filter_map(state).collect() }
    }

    /// Freezes the last of `groups` (which come children first) with all below it: by the v1 freezer where
    /// one is mounted, and by `cgroup.freeze` on a v2 tree that has it (kernel 5.2 on).
    ///
    /// # Errors
    /// A file exists and cannot be written.
    pub fn freeze(files: &GroupFiles, groups: &[String]) -> Result<Self, CgroupError> {
        let mut frozen = Self::by_others(files, groups);
        let Some(top) = groups.last() else { return Ok(frozen) };
        let mut awaited = Vec::new();
        if let Some(mount) = files.layout().freezer() {
            let file = join(mount, top).join("freezer.state");
            if freeze_one(&file, "FROZEN")? {
                awaited.push((file, "FROZEN"));
            }
        }
        if let Some(unified) = files.layout().unified() {
            let dir = join(&unified.mount, top);
            let file = dir.join("cgroup.freeze");
            if freeze_one(&file, "1")? {
                awaited.push((dir.join("cgroup.events"), "frozen 1"));
            }
            frozen.thaw.push((file, "0"));
        }
        wait(&awaited)?;
        Ok(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for (file, text) in &self.thaw {
            // A cgroup that is gone or has no such file needs no thawing; if another stays frozen, the next
            // round freezes and thaws it again.
            let _ = write_file(file, text);
        }
    }
}

/// False if there is no such file.
fn freeze_one(file: &Path, text: &str) -> Result<bool, CgroupError> {
    match write_file(file, text) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.errno(), Some(libc::ENOENT | libc::ENODEV)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Waits until each file contains its line or no longer exists.
fn wait(files: &[(PathBuf, &str)]) -> Result<(), CgroupError> {
    let deadline = Instant::now() + LIMIT;
    for (file, line) in files {
        let stands_still = |text: String| text.lines().any(|l| l == *line);
        while !read_file(file)?.is_none_or(stands_still) && Instant::now() < deadline {
            sleep(Duration::from_micros(200));
        }
    }
    Ok(())
}

/// The v1 freezer's directory of `path` if a cgroup above it is frozen, which keeps killed processes from
/// ending.
pub fn frozen_from_above(files: &GroupFiles, path: &str) -> Option<PathBuf> {
    let dir = join(files.layout().freezer()?, path);
    let text = read_file(&dir.join("freezer.parent_freezing")).ok()??;
    (text.trim() == "1").then_some(dir)
}
