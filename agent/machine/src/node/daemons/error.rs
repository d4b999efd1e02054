//! Errors of moving daemons and setting their `oom_score_adj`.

use std::io;
use std::path::PathBuf;

use nix::unistd::Pid;

/// Why a daemon is not in its cgroup or does not have its `oom_score_adj`.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// A file in `/proc` or of a cgroup could not be read.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// What was done, as text in the message (`read`).
        call: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel refused to move a process.
    #[error("cannot move process {pid} to {}: {source}", directory.display())]
    Move {
        /// The process.
        pid: Pid,
        /// Directory of the cgroup that it should be in.
        directory: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused a new `oom_score_adj`: lowering it needs CAP_SYS_RESOURCE.
    #[error("cannot set oom_score_adj of process {pid} from {from} to {to}: {source}")]
    Score {
        /// The process.
        pid: Pid,
        /// Its value.
        from: i32,
        /// The configured value.
        to: i32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The file `oom_score_adj` of a process does not contain a number.
    #[error("{}: {text:?} is not an oom_score_adj", path.display())]
    ScoreText {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// None of the ways to find the container runtime's process succeeded.
    #[error("the container runtime was not found: {connect}; no pid file; no process is named {name}")]
    NoRuntime {
        /// Why its process could not be read from its socket.
        connect: String,
        /// The process name that was looked for; it follows from the socket's path.
        name: String,
    },
}
