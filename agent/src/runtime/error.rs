//! Why the runtime gave no answer.

use std::error::Error;
use std::time::Duration;

use crate::config::Endpoint;

/// A failed call of the container runtime interface.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime, or the connection to it, refused the call.
    #[error("{endpoint}: {call}: {}", reason(.status))]
    Call { call: &'static str, endpoint: Endpoint, status: Box<tonic::Status> },
    /// No answer in time.
    #[error("{endpoint}: {call}: no answer within {} s", .limit.as_secs())]
    TimedOut { call: &'static str, endpoint: Endpoint, limit: Duration },
    /// The answer to RuntimeConfig names a cgroup driver that is not known here.
    #[error("{endpoint}: RuntimeConfig: cgroup driver {driver} is neither systemd (0) nor cgroupfs (1)")]
    UnknownDriver { endpoint: Endpoint, driver: i32 },
}

impl RuntimeError {
    /// The failure without the endpoint, for a text that has it already.
    pub fn cause(&self) -> String {
        match self {
            Self::Call { call, status, .. } => format!("{call}: {}", reason(status)),
            Self::UnknownDriver { driver, .. } => format!("RuntimeConfig: unknown cgroup driver {driver}"),
            Self::TimedOut { call, limit, .. } => format!("{call}: no answer within {} s", limit.as_secs()),
        }
    }
}

/// The innermost cause where the connection failed (`No such file or directory`), else what the runtime said.
fn reason(status: &tonic::Status) -> String {
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
