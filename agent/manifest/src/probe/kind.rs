//! Kinds of probes and handlers, with the kubelet's names (pkg/kubelet/prober, pkg/probe).

use serde::{Deserialize, Serialize};

/// The kind of a probe.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr,
)]
pub enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// The name in the kubelet's events and in the label `probe_type`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The field of the manifest.
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
    Exec,
    HttpGet,
    TcpSocket,
    Grpc,
}

impl HandlerKind {
    pub const ALL: [Self; 4] = [Self::Exec, Self::HttpGet, Self::TcpSocket, Self::Grpc];

    /// The field of the manifest.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
