//! The state of a container's probes that must survive a restart of the agent.

use serde::{Deserialize, Serialize};

use nodewarden_manifest::ProbeKind;
use nodewarden_model::Verdict;

/// The state of the probes of one container (one run of it).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeMemory {
    /// The container's id; the state is not used for another container.
    pub container: String,
    /// The startup probe; the default if the container has none.
    pub startup: ProbeState,
    /// The readiness probe; the default if the container has none.
    pub readiness: ProbeState,
    /// The liveness probe; the default if the container has none.
    pub liveness: ProbeState,
}

/// The state of one probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeState {
    /// The result after the thresholds; `None` until one was reached.
    pub result: Option<Verdict>,
    /// The verdict of its last run.
    pub last: Option<Verdict>,
    /// Number of equal verdicts in a row.
    pub run: u32,
}

impl ProbeMemory {
    /// The state of a container that was never probed.
    pub fn new(container: &str) -> Self {
        Self { container: container.to_owned(), ..Self::default() }
    }

    /// The state of the probe of this kind.
    pub fn of(&self, kind: ProbeKind) -> &ProbeState {
        match kind {
            ProbeKind::Startup => &self.startup,
            ProbeKind::Readiness => &self.readiness,
            ProbeKind::Liveness => &self.liveness,
        }
    }

    /// The state of the probe of this kind, to be changed.
    pub fn of_mut(&mut self, kind: ProbeKind) -> &mut ProbeState {
        match kind {
            ProbeKind::Startup => &mut self.startup,
            ProbeKind::Readiness => &mut self.readiness,
            ProbeKind::Liveness => &mut self.liveness,
        }
    }
}
