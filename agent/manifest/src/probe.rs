//! Probes of a manifest, with the kubelet's defaults (pkg/apis/core/v1 `SetDefaults_Probe`).

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ExecAction, Probe};

use crate::{Expander, TooLong, resolve_port};

mod describe;
mod kind;
#[cfg(test)]
mod tests;

pub use describe::host_port;
pub use kind::{HandlerKind, ProbeKind};

pub use super::http_get::HttpGetAction as HttpGetProbe;

/// Seconds.
const DEFAULT_TIMEOUT: u32 = 1;
/// Seconds.
const DEFAULT_PERIOD: u32 = 10;
const DEFAULT_SUCCESSES: u32 = 1;
const DEFAULT_FAILURES: u32 = 3;

/// What the commands of all probes of a pod may have together after expansion, in bytes.
pub(crate) const MAX_COMMANDS: usize = 1 << 20;

/// One probe of a container, with the defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSpec {
    /// Startup, readiness or liveness.
    pub kind: ProbeKind,
    /// What a run does.
    pub handler: ProbeHandler,
    /// Time from the container's start to the first run.
    pub initial_delay: Duration,
    /// A run that takes longer has failed.
    pub timeout: Duration,
    /// Time from the begin of a run to the begin of the next.
    pub period: Duration,
    /// Number of consecutive successes after which the result is a success.
    pub success_threshold: u32,
    /// Number of consecutive failures after which the result is a failure.
    pub failure_threshold: u32,
    /// Grace period of a container that is killed because of this probe; `None` for the pod's.
    pub grace: Option<Duration>,
}

/// The action of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeHandler {
    /// Runs a command in the container, with references to variables expanded; exit code 0 is a success.
    Exec(Vec<String>),
    /// Sends an HTTP request; a status of 200 to 399 is a success.
    HttpGet(HttpGetProbe),
    /// Opens a TCP connection.
    TcpSocket {
        /// The host to connect to; `None` for the pod's address.
        host: Option<String>,
        /// The port, resolved if the manifest gives a name.
        port: u16,
    },
    /// Calls the gRPC health service at the pod's address.
    Grpc {
        /// The port.
        port: u16,
        /// Name of the service to ask for; empty for the server as a whole.
        service: String,
    },
}

impl ProbeSpec {
    /// The probes of a container, in the order of [`ProbeKind::ALL`]. Probes without a handler or with an
    /// unknown port name are refused by validation and left out here.
    pub fn of(container: &Container) -> Vec<Self> {
        let asked = |kind| match kind {
            ProbeKind::Startup => container.startup_probe.as_ref(),
            ProbeKind::Readiness => container.readiness_probe.as_ref(),
            ProbeKind::Liveness => container.liveness_probe.as_ref(),
        };
        ProbeKind::ALL.into_iter().filter_map(|kind| Self::one(kind, asked(kind)?, container)).collect()
    }

    fn one(kind: ProbeKind, probe: &Probe, container: &Container) -> Option<Self> {
        let seconds = |value, default| Duration::from_secs(at_least_one(value, default).into());
        let delay = probe.initial_delay_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let grace = probe.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Some(Self {
            kind,
            handler: ProbeHandler::of(probe, container)?,
            initial_delay: Duration::from_secs(delay.unwrap_or(0)),
            timeout: seconds(probe.timeout_seconds, DEFAULT_TIMEOUT),
            period: seconds(probe.period_seconds, DEFAULT_PERIOD),
            success_threshold: at_least_one(probe.success_threshold, DEFAULT_SUCCESSES),
            failure_threshold: at_least_one(probe.failure_threshold, DEFAULT_FAILURES),
            grace: grace.filter(|seconds| *seconds > 0).map(Duration::from_secs),
        })
    }
}

/// Values below 1 mean the default, as 0 does in the API server.
fn at_least_one(value: Option<i32>, default: u32) -> u32 {
    value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
}

impl ProbeHandler {
    /// The handler of a probe; if there are several, the first in the kubelet's order.
    fn of(probe: &Probe, container: &Container) -> Option<Self> {
        if let Some(exec) = &probe.exec {
            return exec_command(exec, container, &mut Expander::new(MAX_COMMANDS)).ok().map(Self::Exec);
        }
        if let Some(get) = &probe.http_get {
            return HttpGetProbe::of(get, container).map(Self::HttpGet);
        }
        if let Some(socket) = &probe.tcp_socket {
            let port = resolve_port(&socket.port, container)?;
            return Some(Self::TcpSocket { host: socket.host.clone().filter(|host| !host.is_empty()), port });
        }
        let grpc = probe.grpc.as_ref()?;
        let port = u16::try_from(grpc.port).ok().filter(|port| *port > 0)?;
        Some(Self::Grpc { port, service: grpc.service.clone().unwrap_or_default() })
    }

    /// The kind of the action.
    pub fn kind(&self) -> HandlerKind {
        match self {
            Self::Exec(_) => HandlerKind::Exec,
            Self::HttpGet(_) => HandlerKind::HttpGet,
            Self::TcpSocket { .. } => HandlerKind::TcpSocket,
            Self::Grpc { .. } => HandlerKind::Grpc,
        }
    }
}

/// The command of a probe, with the literal values of variables in the manifest (kubelet
/// `ExpandContainerCommandOnlyStatic`), the last of several; empty for a variable with another source.
///
/// # Errors
/// It is too long.
pub(crate) fn exec_command(
    exec: &ExecAction,
    container: &Container,
    expander: &mut Expander,
) -> Result<Vec<String>, TooLong> {
    let variables = container.env.iter().flatten();
    let values: HashMap<&str, &str> = variables
        .map(|variable| (variable.name.as_str(), variable.value.as_deref().unwrap_or_default()))
        .collect();
    let words = exec.command.iter().flatten();
    words.map(|word| expander.expand(word, |name| values.get(name).copied())).collect()
}
