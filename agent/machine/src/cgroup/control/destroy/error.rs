//! Why a cgroup could not be destroyed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::process;
use crate::cgroup::CgroupError;

/// A cgroup was not destroyed.
#[derive(Debug, Error)]
pub enum DestroyError {
    /// Another call destroys the same cgroup at the moment.
    #[error("cgroup {path} is being destroyed already")]
    InFlight {
        /// Path of the cgroup below the mounts.
        path: String,
    },
    /// The agent itself, or another process that must not be killed, is in the cgroup.
    #[error("cgroup {path} contains process {pid}, which must not be killed: nothing was done")]
    Holds {
        /// Path of the cgroup below the mounts.
        path: String,
        /// That process.
        pid: i32,
    },
    /// Processes were killed, and the cgroup still could not be removed in time.
    #[error("{0}")]
    StillThere(Box<StillThere>),
    /// The cgroup could not be looked at.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

/// What is left of a cgroup when the time to destroy it is over, and why.
#[derive(Debug)]
pub struct StillThere {
    /// Path of the cgroup below the mounts.
    pub path: String,
    /// How long the agent tried.
    pub waited: Duration,
    /// Processes that are still in it.
    pub holdouts: Vec<Holdout>,
    /// The v1 freezer's directory, if a cgroup above is frozen: nothing below can end then.
    pub frozen_from_above: Option<PathBuf>,
    /// The error of the last attempt.
    pub cause: Option<CgroupError>,
}

impl fmt::Display for StillThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 10;
        write!(f, "cgroup {} is still there after {:.1?}", self.path, self.waited)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        if let Some(dir) = &self.frozen_from_above {
            write!(f, "; {} is frozen by a cgroup above", dir.display())?;
        }
        for holdout in self.holdouts.iter().take(SHOWN) {
            write!(f, "; {holdout}")?;
        }
        match self.holdouts.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} processes more"),
        }
    }
}

/// A process that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holdout {
    /// 0 for one in another pid namespace, which cannot be signalled from here.
    pub pid: i32,
    /// Its command's name; empty if it has ended by now.
    pub name: String,
    /// As ps(1) shows it: `D` waits in the kernel and cannot be killed until that is over.
    pub state: char,
    /// Whether it is a kernel thread, which no signal ends.
    pub kernel_thread: bool,
}

impl Holdout {
    pub(super) fn of(pid: i32) -> Self {
        match process::facts(pid) {
            Some(facts) => {
                Self { pid, name: facts.name, state: facts.state, kernel_thread: facts.kernel_thread }
            }
            None => Self { pid, name: String::new(), state: '?', kernel_thread: false },
        }
    }
}

impl fmt::Display for Holdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { pid: 0, .. } => f.write_str("a process of another pid namespace is in it"),
            Self { pid, name, kernel_thread: true, .. } => {
                write!(f, "kernel thread {pid} ({name}) is in it")
            }
            Self { pid, name, state, .. } => write!(f, "process {pid} ({name}, state {state}) is in it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn the_error_names_cause_and_processes() {
        let holdout = |pid, state, kernel_thread| Holdout { pid, name: "x".into(), state, kernel_thread };
        let error = DestroyError::StillThere(Box::new(StillThere {
            path: "/kubepods/pod1".into(),
            waited: Duration::from_millis(2500),
            holdouts: vec![holdout(7, 'D', false), holdout(8, 'S', true), holdout(0, '?', false)],
            frozen_from_above: None,
            cause: Some(CgroupError::file(
                "rmdir",
                "/sys/fs/cgroup/kubepods/pod1".as_ref(),
                io::Error::from_raw_os_error(libc::EBUSY),
            )),
        }));
        assert_eq!(
            error.to_string(),
            "cgroup /kubepods/pod1 is still there after 2.5s: rmdir /sys/fs/cgroup/kubepods/pod1: Device or \
             resource busy (os error 16); process 7 (x, state D) is in it; kernel thread 8 (x) is in it; a process \
             of another pid namespace is in it"
        );
    }
}
