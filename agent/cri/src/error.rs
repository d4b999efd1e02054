//! Why the runtime gave no answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use tonic::Code;

use nodewarden_config::Endpoint;

/// What containerd answers to every call until its CRI plugin has read its stores, as of 1.6 without a code that
/// would tell it from other failures.
const NOT_INITIALIZED: &str = "server is not initialized yet";

/// A failed call of the container runtime interface.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime, or the connection to it, refused the call.
    #[error("{endpoint}: {call}{about}: {}", reason(.status))]
    Call { call: &'static str, endpoint: Endpoint, about: About, status: Box<tonic::Status> },
    /// No answer in time.
    #[error("{endpoint}: {call}{about}: no answer within {} s", .limit.as_secs_f64())]
    TimedOut { call: &'static str, endpoint: Endpoint, about: About, limit: Duration },
    /// The answer lacks the one thing that it is for.
    #[error("{endpoint}: {call}{about}: the answer has no {lacks}")]
    Empty { call: &'static str, endpoint: Endpoint, about: About, lacks: &'static str },
    /// The answer to RuntimeConfig names a cgroup driver that is not known here.
    #[error("{endpoint}: RuntimeConfig: cgroup driver {driver} is neither systemd (0) nor cgroupfs (1)")]
    UnknownDriver { endpoint: Endpoint, driver: i32 },
}

/// What a call was about: a sandbox's, container's or pod's id, an image's name, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About(pub String);

impl fmt::Display for About {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, " {}", self.0) }
    }
}

impl RuntimeError {
    /// The failure without the endpoint, for a text that has it already.
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

    /// What the runtime itself said, or why the connection failed: for a pod's status, which names the rest.
    pub fn message(&self) -> String {
        match self {
            Self::Call { status, .. } if status.source().is_none() && !status.message().is_empty() => {
                status.message().to_owned()
            }
            Self::Call { status, .. } => reason(status),
            _ => self.cause(),
        }
    }

    /// The runtime does not have what the call was about.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(Code::NotFound)
    }

    /// There is no runtime to talk to, or not yet: no socket, nobody behind it, the connection broke during the
    /// call, or the runtime is still starting. Whether a call that broke was carried out is not known.
    pub fn is_unavailable(&self) -> bool {
        match self {
            // Only the connection's own failures have a source; the runtime's have a code and a text.
            Self::Call { status, .. } => {
                status.code() == Code::Unavailable
                    || status.source().is_some()
                    || status.message().contains(NOT_INITIALIZED)
            }
            _ => false,
        }
    }

    /// The time was over: ours, or the one that the runtime was told (ExecSync).
    pub fn is_timed_out(&self) -> bool {
        matches!(self, Self::TimedOut { .. }) || self.code() == Some(Code::DeadlineExceeded)
    }

    /// The runtime does not know the call.
    pub fn is_unimplemented(&self) -> bool {
        self.code() == Some(Code::Unimplemented)
    }

    /// The gRPC code, when the call was answered with one.
    fn code(&self) -> Option<Code> {
        match self {
            Self::Call { status, .. } => Some(status.code()),
            _ => None,
        }
    }
}

/// The innermost cause where the connection failed (`No such file or directory`), else what the runtime said.
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
