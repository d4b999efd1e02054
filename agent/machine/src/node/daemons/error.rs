//! Why a daemon is not in its place.

use std::io;
use std::path::PathBuf;

use nix::unistd::Pid;

/// Looking after one daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error("{call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot move process {pid} to {}: {source}", directory.display())]
    Move { pid: Pid, directory: PathBuf, source: io::Error },
    /// Below what a process has, only with CAP_SYS_RESOURCE.
    #[error("cannot set oom_score_adj of process {pid} from {from} to {to}: {source}")]
    Score { pid: Pid, from: i32, to: i32, source: io::Error },
    #[error("{}: {text:?} is no oom_score_adj", path.display())]
    ScoreText { path: PathBuf, text: String },
    #[error("the container runtime was not found: {connect}; no pid file; no process is named {name}")]
    NoRuntime {
        /// What its socket said.
        connect: String,
        /// What a runtime with this socket would be called.
        name: String,
    },
}
