//! Errors of calls to the runtime.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tonic::Code;

use nodewarden_config::Endpoint;

/// containerd's error for every call until its CRI plugin has read its stores; as of 1.6 it has no specific
/// code.
const NOT_INITIALIZED: &str = "server is not initialized yet";

/// A failed call of the container runtime interface.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime returned an error, or the connection failed.
    #[error("{endpoint}: {call}{about}: {}", reason(.status))]
    Call {
        /// Name of the CRI call.
        call: &'static str,
        /// Address of the runtime.
        endpoint: Endpoint,
        /// The object of the call.
        about: About,
        /// The gRPC status; it has a source if the connection failed.
        status: Box<tonic::Status>,
    },
    /// No response in time.
    #[error("{endpoint}: {call}{about}: no answer within {} s", .limit.as_secs_f64())]
    TimedOut {
        /// Name of the CRI call.
        call: &'static str,
        /// Address of the runtime.
        endpoint: Endpoint,
        /// The object of the call.
        about: About,
        /// How long the client waited.
        limit: Duration,
    },
    /// The response lacks its essential field.
    #[error("{endpoint}: {call}{about}: the answer has no {lacks}")]
    Empty {
        /// Name of the CRI call.
        call: &'static str,
        /// Address of the runtime.
        endpoint: Endpoint,
        /// The object of the call.
        about: About,
        /// Name of the missing field.
        lacks: &'static str,
    },
    /// The response to RuntimeConfig names an unknown cgroup driver.
    #[error("{endpoint}: RuntimeConfig: cgroup driver {driver} is neither systemd (0) nor cgroupfs (1)")]
    UnknownDriver {
        /// Address of the runtime.
        endpoint: Endpoint,
        /// The number in the response.
        driver: i32,
    },
}

/// The object of a call: the id of a sandbox, container or pod, the name of an image, or empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About(pub String);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " {}", self.0) }
    }
}

impl RuntimeError {
    /// The error message without the endpoint, for texts that already contain it.
    pub fn cause(&self) -> String {
        match self {
            Self::Call { call, about, status, .. } => format!("{call}{about}: {}", reason(status)),
            Self::TimedOut { call, about, limit, .. } => {
                format!("{call}{about}: no answer within {} s", limit.as_secs_f64())
            }
            Self::Empty { call, about, lacks, .. } => format!("{call}{about}: the answer has no {lacks}"),
            Self::UnknownDriver { driver, .. } => format!("RuntimeConfig: unknown cgroup driver {driver}"),
        }
    }

    /// Only the runtime's message or the failure of the connection, for a pod's status, which names the rest.
    pub fn message(&self) -> String {
        match self {
            Self::Call { status, .. } if status.source().is_none() && !status.message().is_empty() => {
                status.message().to_owned()
            }
            Self::Call { status, .. } => reason(status),
            _ => self.cause(),
        }
    }

    /// Whether the object of the call does not exist in the runtime.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(Code::NotFound)
    }

    /// Whether the runtime is unreachable or still starting: no socket, no process listens on it, or the
    /// connection broke during the call. In the last case it is unknown whether the call was executed.
    pub fn is_unavailable(&self) -> bool {
        match self {
            // Only errors of the connection have a source; those of the runtime have a code and a message.
            Self::Call { status, .. } => {
                status.code() == Code::Unavailable
                    || status.source().is_some()
                    || status.message().contains(NOT_INITIALIZED)
            }
            _ => false,
        }
    }

    /// Whether a time limit was exceeded: ours, or the one sent to the runtime (ExecSync).
    pub fn is_timed_out(&self) -> bool {
        matches!(self, Self::TimedOut { .. }) || self.code() == Some(Code::DeadlineExceeded)
    }

    /// Whether the runtime does not implement the call.
    pub fn is_unimplemented(&self) -> bool {
        self.code() == Some(Code::Unimplemented)
    }

    /// The gRPC code, if the runtime returned one.
    fn code(&self) -> Option<Code> {
        match self {
            Self::Call { status, .. } => Some(status.code()),
            _ => None,
        }
    }
}

/// The innermost cause if the connection failed (`No such file or directory`), else the runtime's message.
pub fn reason(status: &tonic::Status) -> String {
    let mut source = status.source();
    let mut innermost = None;
    while let Some(e) = source {
        innermost = Some(e);
        source = e.source();
    }
    match innermost {
        Some(e) => e.to_string(),
        None if status.message().is_empty() => status.code().to_string(),
        None => format!("{} ({})", status.message(), status.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(status: tonic::Status) -> RuntimeError {
        RuntimeError::Call {
            call: "StopContainer",
            endpoint: Endpoint::parse("/run/cri.sock").unwrap(),
            about: About("c0ffee".into()),
            status: Box::new(status),
        }
    }

    #[test]
    fn kinds_by_code() {
        for (status, not_found, unavailable, timed_out) in [
            (tonic::Status::not_found("no such container"), true, false, false),
            (tonic::Status::unavailable("x"), false, true, false),
            (tonic::Status::unknown("server is not initialized yet"), false, true, false),
            (tonic::Status::unknown("failed to create"), false, false, false),
            (tonic::Status::deadline_exceeded("timeout 1s exceeded"), false, false, true),
        ] {
            let error = call(status);
            assert_eq!(
                (error.is_not_found(), error.is_unavailable(), error.is_timed_out()),
                (not_found, unavailable, timed_out),
                "{error}"
            );
        }
        assert!(call(tonic::Status::unimplemented("unknown method")).is_unimplemented());
    }

    #[test]
    fn names_call_endpoint_and_id() {
        let error = call(tonic::Status::unknown("runc did not say"));
        assert_eq!(error.message(), "runc did not say");
        assert!(error.cause().starts_with("StopContainer c0ffee: runc did not say ("), "{}", error.cause());
        assert!(error.to_string().starts_with("unix:///run/cri.sock: StopContainer c0ffee: "), "{error}");
        let error = RuntimeError::TimedOut {
            call: "Version",
            endpoint: Endpoint::parse("/run/cri.sock").unwrap(),
            about: About::default(),
            limit: Duration::from_millis(200),
        };
        assert_eq!(error.cause(), "Version: no answer within 0.2 s");
        assert!(error.is_timed_out());
    }
}
