//! The cgroup of a daemon, in every hierarchy.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::Pid;

use super::DaemonError;

const PROCS: &str = "cgroup.procs";

/// The directories of one cgroup, one in each hierarchy. They exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place(Vec<PathBuf>);

impl Place {
    /// The cgroup with these directories.
    pub fn new(directories: Vec<PathBuf>) -> Self {
        Self(directories)
    }

    /// Its directories, one in each hierarchy.
    pub fn directories(&self) -> &[PathBuf] {
        &self.0
    }

    /// Moves a process with all its threads into each directory that does not contain it yet. `false` if all
    /// did, or if it has ended.
    ///
    /// # Errors
    /// A directory cannot be read, or the process cannot be moved there; the others were tried too.
    pub fn enter(&self, pid: Pid) -> Result<bool, DaemonError> {
        let mut moved = false;
        let mut failed = None;
        for directory in &self.0 {
            match members(directory)
                .and_then(|there| if there.contains(&pid) { Ok(false) } else { put(pid, directory) })
            {
                Ok(here) => moved |= here,
                Err(problem) => failed = Some(problem),
            }
        }
        failed.map_or(Ok(moved), Err)
    }
}

/// The processes of one cgroup. Those of another pid namespace, which the kernel shows as 0, are left out.
pub fn members(directory: &Path) -> Result<Vec<Pid>, DaemonError> {
    let path = directory.join(PROCS);
    let text =
        fs::read_to_string(&path).map_err(|source| DaemonError::File { call: "read", path, source })?;
    let pids = text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 0);
    Ok(pids.map(Pid::from_raw).collect())
}

/// Writes `cgroup.procs`. `false` if the process is gone.
fn put(pid: Pid, directory: &Path) -> Result<bool, DaemonError> {
    let written = File::options()
        .write(true)
        .open(directory.join(PROCS))
        .and_then(|mut file| file.write_all(pid.to_string().as_bytes()));
    match written {
        Ok(()) => Ok(true),
        Err(e) if is_gone(&e) => Ok(false),
        Err(source) => Err(DaemonError::Move { pid, directory: directory.to_owned(), source }),
    }
}

/// Whether an error says that there is no such process.
pub fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ESRCH as i32)
}
