//! What a subcommand can end with, and the exit status of each.

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
        "no nodewarden agent is running (nobody listens on {}, an agent that died left it behind): start it \
         with `cargo xtask run` or `nodewarden agent`",
        socket.display()
    )]
    DeadAgent { socket: PathBuf },
    #[error("permission denied for {}: the agent answers root only, try with sudo", socket.display())]
    Permission { socket: PathBuf },
    #[error("cannot connect to {}: {source}", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("cannot speak with the agent on {}: {source}", socket.display())]
    Transport { socket: PathBuf, source: tonic::transport::Error },
    #[error("the agent did not answer {call}: {}", status.message())]
    Call { call: &'static str, status: Box<tonic::Status> },
    #[error("the agent on {} stopped", socket.display())]
    Stopped { socket: PathBuf },
    /// The agent refused what was asked of it: its own words say all.
    #[error("{}", .0.message())]
    Refused(Box<tonic::Status>),
    /// The end of what was run is the end of the command line.
    #[error("command terminated with exit code {code}")]
    Exited { code: i32 },
    #[error("ended by a signal before the command was")]
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
    /// What of a collection did not come about.
    #[error("{}", problems.join("; "))]
    Collection { problems: Vec<String> },
    #[error("cannot start the runtime: {source}")]
    Runtime { source: io::Error },
}

impl CliError {
    /// Why a connection to the socket failed, in the user's terms.
    pub fn connecting(socket: &Path, source: io::Error) -> Self {
        let socket = socket.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoAgent { socket },
            io::ErrorKind::ConnectionRefused => Self::DeadAgent { socket },
            io::ErrorKind::PermissionDenied => Self::Permission { socket },
            _ => Self::Connect { socket, source },
        }
    }

    /// For `map_err`: a call that failed.
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
            // What the shell can hold of it, and never a success.
            Self::Exited { code } => u8::try_from(*code).unwrap_or(1).max(1),
            Self::Refused(status) if status.code() == tonic::Code::PermissionDenied => 4,
            Self::Call { status, .. } if status.code() == tonic::Code::PermissionDenied => 4,
            _ => 1,
        }
    }
}
