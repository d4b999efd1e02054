//! What of a container's probes must outlive the agent.

use serde::{Deserialize, Serialize};

use nodewarden_manifest::ProbeKind;
use nodewarden_model::Verdict;

/// How the probes of one container (one run of it) stand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeMemory {
    /// Its id: of another one nothing is remembered.
    pub container: String,
    pub startup: Standing,
    pub readiness: Standing,
    pub liveness: Standing,
}

/// How one probe stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Standing {
    /// After the thresholds; none until they were reached once.
    pub result: Option<Verdict>,
    /// What its last run counted as.
    pub last: Option<Verdict>,
    /// How many in a row.
    pub run: u32,
}

impl ProbeMemory {
    /// Of a container that was never probed.
    pub fn new(container: &str) -> Self {
        Self { container: container.to_owned(), ..Self::default() }
    }

    pub fn of(&self, kind: ProbeKind) -> &Standing {
        match kind {
            ProbeKind::Startup => &self.startup,
            ProbeKind::Readiness => &self.readiness,
            ProbeKind::Liveness => &self.liveness,
        }
    }

    pub fn of_mut(&mut self, kind: ProbeKind) -> &mut Standing {
        match kind {
            ProbeKind::Startup => &mut self.startup,
            ProbeKind::Readiness => &mut self.readiness,
            ProbeKind::Liveness => &mut self.liveness,
        }
    }
}
