//! The words of probes, the kubelet's (pkg/kubelet/prober, pkg/probe).

use serde::{Deserialize, Serialize};

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProbeKind {
    Startup,
    Readiness,
    Liveness,
}

impl ProbeKind {
    pub const ALL: [Self; 3] = [Self::Startup, Self::Readiness, Self::Liveness];

    /// As in the kubelet's events and in the label `probe_type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
        match self {
            Self::Exec => "exec",
            Self::HttpGet => "httpGet",
            Self::TcpSocket => "tcpSocket",
            Self::Grpc => "grpc",
        }
    }
}

/// What one run of a probe came to (pkg/probe `Result`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Success,
    /// A success with something to say: a redirect that was not followed.
    Warning,
    Failure,
}

impl Outcome {
    /// What it counts as.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Success | Self::Warning => Verdict::Success,
            Self::Failure => Verdict::Failure,
        }
    }
}

/// What runs of a probe count as, and what its result is after its thresholds (pkg/kubelet/prober/results).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    Success,
    Failure,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

/// One run of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub outcome: Outcome,
    /// What the application said, or what went wrong; at most 10 KiB.
    pub output: String,
}
