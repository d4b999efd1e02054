//! Why a test did not pass.

use crate::fixture::{
    AgentError, ApiError, BpfError, BrowserError, CgroupError, ClusterError, ContainerdError, GuestNodeError,
    HttpError, LogindError, PrometheusError, RpcError, SlotMapsError, SystemctlError, WorkerError,
};

/// Why a test ended early: it failed, or it cannot run on this machine.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The agent or the kernel did something other than expected. The text says what was seen and what was
    /// expected.
    #[error("{0}")]
    Unexpected(String),
    /// The test cannot run on this machine, which was found only while it ran.
    #[error("skipped: {0}")]
    Skip(String),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error(transparent)]
    Rpc(#[from] RpcError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Containerd(#[from] ContainerdError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Guest(#[from] GuestNodeError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    #[error(transparent)]
    Browser(#[from] BrowserError),
    #[error(transparent)]
    SlotMaps(#[from] SlotMapsError),
    #[error(transparent)]
    Bpf(#[from] BpfError),
    #[error(transparent)]
    Systemctl(#[from] SystemctlError),
    #[error(transparent)]
    Ledger(#[from] nodewarden_augment::LedgerError),
    #[error(transparent)]
    Logind(#[from] LogindError),
    /// An error of nodewarden's own cgroup code, called by the test.
    #[error(transparent)]
    Control(#[from] nodewarden_machine::cgroup::CgroupError),
    #[error("{path}: {source}")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

impl Failure {
    /// For `map_err` on a file operation.
    pub fn file(path: impl AsRef<std::path::Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().display().to_string();
        move |source| Self::File { path, source }
    }
}

/// Ends the test with [`Failure::Unexpected`] unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {{
        let holds: bool = $condition;
        if !holds {
            return Err($crate::harness::Failure::Unexpected(format!($($text)+)));
        }
    }};
}

/// Ends the test with [`Failure::Unexpected`], naming both values, unless they are equal.
#[macro_export]
macro_rules! ensure_eq {
    ($seen:expr, $expected:expr, $($text:tt)+) => {{
        let (seen, expected) = (&$seen, &$expected);
        if seen != expected {
            return Err($crate::harness::Failure::Unexpected(format!(
                "{}: seen {seen:?}, expected {expected:?}",
                format_args!($($text)+)
            )));
        }
    }};
}
