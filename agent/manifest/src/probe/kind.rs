//! Kinds of probes and handlers, with the kubelet's names (pkg/kubelet/prober, pkg/probe).

use serde::{Deserialize, Serialize};

/// The kind of a probe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
pub enum ProbeKind {
    /// Until it succeeds, the other probes do not run; its failure kills the container.
    Startup,
    /// Its result decides whether the container is ready.
    Readiness,
    /// Its failure kills the container.
    Liveness,
}

impl ProbeKind {
    /// Every kind, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// The name in the kubelet's events and in the label `probe_type`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The name of the field in the manifest: `startupProbe`, `readinessProbe` or `livenessProbe`.
    pub fn field(self) -> &'static str {
        match self {
            Self::Startup => "startupProbe",
            Self::Readiness => "readinessProbe",
            Self::Liveness => "livenessProbe",
        }
    }
}

/// The kind of a probe's action; each kind has its own limit on concurrent runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "camelCase")]
pub enum HandlerKind {
    /// A command in the container.
    Exec,
    /// An HTTP request.
    HttpGet,
    /// A TCP connection.
    TcpSocket,
    /// A call of the gRPC health service.
    Grpc,
}

impl HandlerKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Exec, Self::HttpGet, Self::TcpSocket, Self::Grpc];

    /// The name of the field in the manifest: `exec`, `httpGet`, `tcpSocket` or `grpc`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
