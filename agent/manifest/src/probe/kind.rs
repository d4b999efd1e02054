//! Kinds of probes and of their handlers, in the kubelet's words (pkg/kubelet/prober, pkg/probe).

use serde::{Deserialize, Serialize};

/// What a probe is for.
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

    /// As in the kubelet's events and in the label `probe_type`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The manifest's field.
    pub fn field(self) -> &'static str {
        match self {
            Self::Startup => "startupProbe",
            Self::Readiness => "readinessProbe",
            Self::Liveness => "livenessProbe",
        }
    }
}

/// How a probe is made; each has a bound of its own on how many are under way.
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

    /// The manifest's field.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
