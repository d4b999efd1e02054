//! What can go wrong with device plugins.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::Status;

use super::request::Invalid;
use nodewarden_cri::reason;
use nodewarden_machine::unix_socket::SocketError;

/// A plugin could not be registered or called, or the directories of plugins could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error("device plugins: {call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
    #[error("device plugins: {0}")]
    Socket(#[from] SocketError),
    /// What a plugin says of itself is not accepted.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Nobody listens on its socket.
    #[error("{plugin}: connect: {source} (tried for {} s)", tried.as_secs_f64())]
    Connect { plugin: Whom, tried: Duration, source: io::Error },
    /// The plugin refused the call, or the connection broke.
    #[error("{plugin}: {call}: {}", reason(status))]
    Call { plugin: Whom, call: &'static str, status: Box<Status> },
    #[error("{plugin}: {call}: no answer within {} s", limit.as_secs_f64())]
    TimedOut { plugin: Whom, call: &'static str, limit: Duration },
    /// The answer is not what the protocol says.
    #[error("{plugin}: {call}: {what}")]
    Malformed { plugin: Whom, call: &'static str, what: String },
    /// The plugin is gone, or has registered again.
    #[error("{plugin}: {call}: the plugin's registration has ended")]
    Ended { plugin: Whom, call: &'static str },
}

/// Which plugin: its resource, where it is known, and its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whom {
    /// Empty before the plugin has said it.
    pub resource: String,
    pub socket: PathBuf,
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resource.as_str() {
            "" => write!(f, "plugin at {}", self.socket.display()),
            resource => write!(f, "device plugin of {resource} at {}", self.socket.display()),
        }
    }
}

impl PluginError {
    /// For `map_err`: names the call and the path.
    pub(super) fn at<E: Into<io::Error>>(call: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::File { call, path, source: source.into() }
    }

    /// The plugin does not have the call.
    pub(super) fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == tonic::Code::Unimplemented)
    }

    /// What a plugin that registers is answered.
    pub(super) fn status(&self) -> Status {
        let text = self.to_string();
        match self {
            Self::Invalid(_) => Status::invalid_argument(text),
            Self::TimedOut { .. } => Status::deadline_exceeded(text),
            Self::Connect { .. } | Self::Ended { .. } => Status::unavailable(text),
            Self::File { .. } | Self::Socket(_) | Self::Call { .. } | Self::Malformed { .. } => {
                Status::unknown(text)
            }
        }
    }
}
