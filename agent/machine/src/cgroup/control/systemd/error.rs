//! Errors of requests to systemd.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// A unit could not be created, changed or removed.
#[derive(Debug, Error)]
pub enum SystemdError {
    /// The cgroup of a path cannot be that of a unit.
    #[error("{path} is no unit's cgroup: its last part does not end in .slice, .scope or .service")]
    NoUnit {
        /// Path of the cgroup below the mounts.
        path: String,
    },
    /// systemd's unit of that name has another cgroup than the path.
    #[error("{path}: systemd puts {unit} at {place}")]
    Elsewhere {
        /// Path of the cgroup that was asked for.
        path: String,
        /// Name of the unit, the last part of the path.
        unit: String,
        /// Path of the unit's cgroup as systemd gives it.
        place: String,
    },
    /// A scope or service would have to be started; only slices can be started without a process.
    #[error("{unit} is not active, and only the program that starts its processes can create it")]
    NotASlice {
        /// Name of the unit.
        unit: String,
    },
    /// A unit is not stopped, because systemd would kill a process in it.
    #[error("stop {unit}: process {pid} ({command}) is in {group}")]
    Busy {
        /// Name of the unit.
        unit: String,
        /// Path of the cgroup with the process.
        group: String,
        /// The process.
        pid: u32,
        /// Its command's name.
        command: String,
    },
    /// A list of CPUs cannot be converted to systemd's `AllowedCPUs`.
    #[error("CPU list {list:?}: {part:?} is neither a number up to 65535 nor a range")]
    CpuList {
        /// The whole list.
        list: String,
        /// The part of it that is not understood.
        part: String,
    },
    /// The async runtime for the D-Bus connection could not be created.
    #[error("start a runtime for D-Bus: {source}")]
    Runtime {
        /// The system's error.
        source: io::Error,
    },
    /// Neither systemd's private socket nor the system bus could be used.
    #[error("connect to systemd: {}", causes(.ways))]
    Connect {
        /// What failed on each way, in the order of the attempts.
        ways: Vec<WayError>,
    },
    /// systemd answered a call with an error, or the connection broke.
    #[error("{call} {unit}: {source}")]
    Call {
        /// Name of the D-Bus method or property.
        call: &'static str,
        /// Name of the unit.
        unit: String,
        /// The D-Bus error.
        source: zbus::Error,
    },
    /// systemd did not answer a call within the time limit.
    #[error("{call} {unit}: no answer in time")]
    NoAnswer {
        /// Name of the D-Bus method or property.
        call: &'static str,
        /// Name of the unit.
        unit: String,
    },
    /// systemd ended a unit's job, and the unit did not reach the expected state.
    #[error("{call} {unit}: the job ended and it is {state}")]
    JobFailed {
        /// Name of the method that created the job.
        call: &'static str,
        /// Name of the unit.
        unit: String,
        /// The unit's state after the job (`ActiveState`).
        state: String,
    },
    /// A unit's job did not end within the time limit.
    #[error("{call} {unit}: still {state} after {} s", limit.as_secs())]
    JobHangs {
        /// Name of the method that created the job.
        call: &'static str,
        /// Name of the unit.
        unit: String,
        /// The unit's state when the time was over (`ActiveState`).
        state: String,
        /// The time limit.
        limit: Duration,
    },
}

/// A failed attempt to connect to systemd.
#[derive(Debug, Error)]
#[error("{address}: {cause}")]
pub struct WayError {
    /// The address of the socket or bus.
    pub address: &'static str,
    /// Why that failed.
    pub cause: WayCause,
}

/// Why an attempt to connect failed.
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
    /// Whether the connection was lost or could not be opened, as while systemd re-executes itself: the
    /// request may be repeated.
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

    /// Whether it is the D-Bus error of this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        matches!(self, Self::Call { source: zbus::Error::MethodError(found, ..), .. } if found.as_str() == name)
    }
}

/// Whether a later attempt may succeed: the socket exists and this process may open it.
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
