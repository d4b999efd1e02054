//! What can go wrong between us and systemd.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Making, changing or removing a unit failed.
#[derive(Debug, Error)]
pub enum SystemdError {
    #[error("{path} is no unit's cgroup: its last part does not end in .slice, .scope or .service")]
    NoUnit { path: String },
    #[error("{path}: systemd puts {unit} at {place}")]
    Elsewhere { path: String, unit: String, place: String },
    #[error("{unit} is not active, and only who starts its processes can make it")]
    NotASlice { unit: String },
    #[error("stop {unit}: process {pid} ({command}) is in {group}")]
    Busy { unit: String, group: String, pid: u32, command: String },
    #[error("CPU list {list:?}: {part:?} is neither a number up to 65535 nor a range")]
    CpuList { list: String, part: String },
    #[error("start a runtime for D-Bus: {source}")]
    Runtime { source: io::Error },
    #[error("connect to systemd: {}", causes(.ways))]
    Connect { ways: Vec<WayError> },
    #[error("{call} {unit}: {source}")]
    Call { call: &'static str, unit: String, source: zbus::Error },
    #[error("{call} {unit}: no answer in time")]
    NoAnswer { call: &'static str, unit: String },
    #[error("{call} {unit}: the job ended and it is {state}")]
    JobFailed { call: &'static str, unit: String, state: String },
    #[error("{call} {unit}: still {state} after {} s", limit.as_secs())]
    JobHangs { call: &'static str, unit: String, state: String, limit: Duration },
}

/// One way to systemd that did not lead there.
#[derive(Debug, Error)]
#[error("{address}: {cause}")]
pub struct WayError {
    /// Where systemd was tried to be reached.
    pub address: &'static str,
    /// Why that failed.
    pub cause: WayCause,
}

/// Why not.
#[derive(Debug, Error)]
pub enum WayCause {
    #[error("connect: {0}")]
    Socket(#[from] io::Error),
    #[error("connect: {0}")]
    Bus(#[from] zbus::Error),
    #[error(transparent)]
    Call(#[from] Box<SystemdError>),
    #[error("no answer in time")]
    NoAnswer,
}

fn causes(ways: &[WayError]) -> String {
    ways.iter().map(WayError::to_string).collect::<Vec<_>>().join("; ")
}

impl SystemdError {
    /// The connection was lost or could not be made, as it is while systemd re-executes itself: what was
    /// asked may be asked again.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Self::Call { source, .. } => is_lost(source),
            Self::NoAnswer { .. } => true,
            Self::Connect { ways } => ways.iter().any(|way| match &way.cause {
                WayCause::Socket(error) => may_pass(error),
                WayCause::Bus(zbus::Error::Connection(error, _)) => may_pass(error),
                WayCause::Bus(source) => is_lost(source),
                WayCause::Call(error) => error.is_lost(),
                WayCause::NoAnswer => true,
            }),
            _ => false,
        }
    }

    /// The D-Bus error of this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        matches!(self, Self::Call { source: zbus::Error::MethodError(found, ..), .. } if found.as_str() == name)
    }
}

/// Neither is there no such socket nor are we kept from it.
fn may_pass(error: &io::Error) -> bool {
    !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

fn is_lost(error: &zbus::Error) -> bool {
    use zbus::fdo;
    match error {
        zbus::Error::InputOutput(_) | zbus::Error::Handshake(_) => true,
        zbus::Error::FDO(error) => matches!(
            **error,
            fdo::Error::Disconnected(_)
                | fdo::Error::NoReply(_)
                | fdo::Error::ServiceUnknown(_)
                | fdo::Error::NameHasNoOwner(_)
        ),
        _ => false,
    }
}
