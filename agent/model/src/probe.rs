//! Probes as they stand: what `nodewarden pods describe` and `/metrics` show.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use nodewarden_manifest::ProbeSpec;

/// All probes of the node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbesView {
    /// By pod, container and kind.
    pub probes: Vec<ProbeView>,
    /// Seconds from when a probe was due to its begin, by handler (`exec`, `httpGet`, …).
    pub delays: Vec<(&'static str, Buckets)>,
    /// By handler: how many are under way now, and how many wait for their turn.
    pub running: Vec<(&'static str, u64)>,
    pub waiting: Vec<(&'static str, u64)>,
}

/// One probe of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeView {
    pub namespace: String,
    pub pod: String,
    pub uid: String,
    pub container: String,
    /// The newest one's.
    pub container_id: String,
    pub spec: ProbeSpec,
    /// After the thresholds; none as long as they were not reached.
    pub result: Option<Verdict>,
    pub last: Option<ProbeRun>,
    /// How many of its last runs came to the same.
    pub in_a_row: u32,
    /// When it is due; none while it is not due by the clock.
    pub next: Option<Timestamp>,
    /// What it waits for besides its schedule, as text after "waits for"; empty if nothing.
    pub waits_for: &'static str,
    /// Since the pod is there, through restarts of its container.
    pub counts: ProbeCounts,
    /// Seconds that runs took which succeeded: others a kubelet does not observe (`worker.doProbe`), and its bounds are
    /// these (prometheus `DefBuckets`).
    pub durations: Buckets,
}

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRun {
    pub begun: Timestamp,
    pub took: Duration,
    /// `Err` with a message if the prober itself failed; the run is not counted, and there is no output.
    pub outcome: Result<Outcome, String>,
    pub output: String,
}

/// `prober_probe_total`, by the kubelet's words for results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    pub successful: u64,
    pub failed: u64,
    /// The prober itself failed.
    pub unknown: u64,
}

/// A histogram with bounds of its own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Buckets {
    /// Upper bounds in seconds, and how many were at most that and above the one before.
    pub counts: Vec<(f64, u64)>,
    /// Above every bound.
    pub above: u64,
    /// Seconds.
    pub sum: f64,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    Success,
    Failure,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        self.into()
    }
}
