//! What can keep feedback from its work.

use std::io;
use std::path::PathBuf;

use nodewarden_machine::cgroup::CgroupError;

/// Something that it needs cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum FeedbackError {
    #[error("no thread for feedback: {source}")]
    Thread { source: io::Error },
    #[error("nobody counts what pods wait for a CPU: {reason}")]
    NoWaits { reason: String },
    #[error("cgroupsPerQOS is off: there are no levels to hold back")]
    NoLevels,
    #[error("memory.high is cgroup v2's, and memory is on v1 here")]
    NoMemoryHigh,
    #[error("read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("/proc/meminfo: {source}")]
    Meminfo { source: procfs::ProcError },
    #[error("{} says nothing of {key}", path.display())]
    Silent { path: PathBuf, key: &'static str },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}
