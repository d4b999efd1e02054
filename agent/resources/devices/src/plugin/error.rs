//! The error of device plugins.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, io};

use nodewarden_cri::reason;
use nodewarden_machine::unix_socket::SocketError;
use tonic::Status;

use super::request::InvalidRegistration;

/// A plugin could not be registered or called, or the directories of plugins could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error("device plugins: {call} {}: {source}", path.display())]
    /// A directory or file cannot be read or written.
    File {
        /// The system call.
        call: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    #[error("device plugins: {0}")]
    /// The registration socket cannot be claimed or bound.
    Socket(#[from] SocketError),
    /// The plugin's registration request is not accepted.
    #[error(transparent)]
    Invalid(#[from] InvalidRegistration),
    /// No program listens on the plugin's socket.
    #[error("{plugin}: connect: {source} (tried for {} s)", tried.as_secs_f64())]
    Connect {
        /// The plugin.
        plugin: PluginAddress,
        /// For how long connecting was tried.
        tried: Duration,
        /// The system's error.
        source: io::Error,
    },
    /// The plugin refused the call, or the connection was lost.
    #[error("{plugin}: {call}: {}", reason(status))]
    Call {
        /// The plugin.
        plugin: PluginAddress,
        /// Name of the call.
        call: &'static str,
        /// The plugin's answer.
        status: Box<Status>,
    },
    #[error("{plugin}: {call}: no answer within {} s", limit.as_secs_f64())]
    /// The plugin did not answer in time.
    TimedOut {
        /// The plugin.
        plugin: PluginAddress,
        /// Name of the call.
        call: &'static str,
        /// The longest time that the call may take.
        limit: Duration,
    },
    /// The answer does not follow the protocol.
    #[error("{plugin}: {call}: {what}")]
    Malformed {
        /// The plugin.
        plugin: PluginAddress,
        /// Name of the call.
        call: &'static str,
        /// What is wrong with the answer.
        what: String,
    },
    /// Other plugins have registered as many resources as there may be.
    #[error("{plugin}: {limit} resources are registered already")]
    Crowded {
        /// The plugin.
        plugin: PluginAddress,
        /// How many there may be.
        limit: usize,
    },
    /// The registration has ended: the plugin has stopped or has registered again.
    #[error("{plugin}: {call}: the plugin's registration has ended")]
    Ended {
        /// The plugin.
        plugin: PluginAddress,
        /// Name of the call.
        call: &'static str,
    },
}

/// Identifies a plugin: its resource, if known, and its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginAddress {
    /// The plugin's extended resource; empty until the plugin has named it.
    pub resource: String,
    /// Path of the plugin's socket.
    pub socket: PathBuf,
}

impl fmt::Display for PluginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resource.as_str() {
            "" => write!(f, "plugin at {}", self.socket.display()),
            resource => write!(f, "device plugin of {resource} at {}", self.socket.display()),
        }
    }
}

impl PluginError {
    /// For `map_err`: adds the system call and the path.
    pub(super) fn at<E: Into<io::Error>>(call: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::File { call, path, source: source.into() }
    }

    /// Whether the plugin does not implement the call.
    pub(super) fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Call { status, .. } if status.code() == tonic::Code::Unimplemented)
    }

    /// The gRPC status that a registering plugin gets.
    pub(super) fn status(&self) -> Status {
        let text = self.to_string();
        match self {
            Self::Invalid(_) => Status::invalid_argument(text),
            Self::TimedOut { .. } => Status::deadline_exceeded(text),
            Self::Crowded { .. } => Status::resource_exhausted(text),
            Self::Connect { .. } | Self::Ended { .. } => Status::unavailable(text),
            Self::File { .. } | Self::Socket(_) | Self::Call { .. } | Self::Malformed { .. } => {
                Status::unknown(text)
            }
        }
    }
}
