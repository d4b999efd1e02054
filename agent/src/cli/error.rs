//! Errors of the subcommands, and the exit status of each.

use std::io;
use std::path::{Path, PathBuf};

use crate::daemon::DaemonError;
use nodewarden_config::ConfigError;
use nodewarden_hierarchy::HierarchyError;

#[derive(Debug, thiserror::Error)]
pub enum CliError {
    #[error(
        "no nodewarden agent is running (no socket at {}): start it with `cargo xtask run` or `nodewarden agent`",
        socket.display()
    )]
    NoAgent { socket: PathBuf },
    #[error(
        "no nodewarden agent is running (no process listens on {}: the socket is left over from an agent that died): start it \
         with `cargo xtask run` or `nodewarden agent`",
        socket.display()
    )]
    DeadAgent { socket: PathBuf },
    #[error("permission denied for {}: only root may connect to the agent, try with sudo", socket.display())]
    Permission { socket: PathBuf },
    #[error("cannot connect to {}: {source}", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("cannot talk to the agent on {}: {source}", socket.display())]
    Transport { socket: PathBuf, source: tonic::transport::Error },
    #[error("the agent did not answer {call}: {}", status.message())]
    Call { call: &'static str, status: Box<tonic::Status> },
    #[error("the agent on {} stopped", socket.display())]
    Stopped { socket: PathBuf },
    /// The agent refused the request; its message says why.
    #[error("{}", .0.message())]
    Refused(Box<tonic::Status>),
    /// The command that `exec` ran ended with this code, which is passed on.
    #[error("command terminated with exit code {code}")]
    Exited { code: i32 },
    #[error("ended by a signal before the command in the container ended")]
    Interrupted,
    #[error("the terminal: {call}: {source}")]
    Terminal { call: &'static str, source: io::Error },
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Agent(#[from] DaemonError),
    #[error(transparent)]
    Manage(#[from] HierarchyError),
    /// Every problem, one a line.
    #[error("the manifests are not valid:{}", problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
    Manifests { problems: Vec<String> },
    #[error("the agent runs no pod {pod:?}: `nodewarden pods` lists those that it runs")]
    NoPod { pod: String },
    /// Problems of a garbage collection.
    #[error("{}", problems.join("; "))]
    Collection { problems: Vec<String> },
    #[error(transparent)]
    Ledger(#[from] nodewarden_augment::LedgerError),
    /// What could not be put back, one a line.
    #[error("not put back:{}", problems.iter().map(|p| format!("\n  {p}")).collect::<String>())]
    Undo { problems: Vec<String> },
    #[error(transparent)]
    Kubernetes(#[from] nodewarden_kube::KubeError),
    #[error(transparent)]
    StandDown(#[from] nodewarden_kube::stand_down::StandDownError),
    #[error("cannot start the runtime: {source}")]
    Runtime { source: io::Error },
}

impl CliError {
    /// The error for a failed connection to the socket: no agent, a dead agent, no permission, or another I/O
    /// error.
    pub fn connecting(socket: &Path, source: io::Error) -> Self {
        let socket = socket.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoAgent { socket },
            io::ErrorKind::ConnectionRefused => Self::DeadAgent { socket },
            io::ErrorKind::PermissionDenied => Self::Permission { socket },
            _ => Self::Connect { socket, source },
        }
    }

    /// For `map_err`: the error for a failed call.
    pub fn call(call: &'static str) -> impl FnOnce(tonic::Status) -> Self {
        move |status| Self::Call { call, status: Box::new(status) }
    }

    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit_status(&self) -> u8 {
        match self {
            Self::NoAgent { .. } | Self::DeadAgent { .. } | Self::Stopped { .. } => 3,
            Self::Permission { .. } => 4,
            // Limited to what a shell can represent, and never 0.
            Self::Exited { code } => u8::try_from(*code).unwrap_or(1).max(1),
            Self::Refused(status) if status.code() == tonic::Code::PermissionDenied => 4,
            Self::Call { status, .. } if status.code() == tonic::Code::PermissionDenied => 4,
            _ => 1,
        }
    }
}
