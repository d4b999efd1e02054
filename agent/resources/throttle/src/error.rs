//! Why throttling is not possible.

use std::io;
use std::path::PathBuf;

use nodewarden_machine::cgroup::CgroupError;

/// A requirement of throttling is missing, or cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ThrottleError {
    /// The thread cannot be started.
    #[error("cannot start the throttling thread: {source}")]
    Thread {
        /// Why.
        source: io::Error,
    },
    /// The time that pods wait for a CPU is not counted.
    #[error("the time that pods wait for a CPU is not counted: {reason}")]
    NoWaits {
        /// Why not.
        reason: String,
    },
    /// There are no QoS levels.
    #[error("cgroupsPerQOS is off: there are no levels to hold back")]
    NoLevels,
    /// Memory is on cgroup v1.
    #[error("memory.high is cgroup v2's, and memory is on v1 here")]
    NoMemoryHigh,
    /// A file cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// `/proc/meminfo` cannot be read.
    #[error("/proc/meminfo: {source}")]
    Meminfo {
        /// Why.
        source: procfs::ProcError,
    },
    /// A file lacks a figure.
    #[error("{} has no {key}", path.display())]
    Missing {
        /// The file or cgroup.
        path: PathBuf,
        /// The figure.
        key: &'static str,
    },
    /// A cgroup cannot be read.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}
