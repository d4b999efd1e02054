//! The state of probes, as `nodewarden pods describe` and `/metrics` show it.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use nodewarden_manifest::ProbeSpec;

/// All probes of the node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbesView {
    /// Ordered by pod, container and kind.
    pub probes: Vec<ProbeView>,
    /// Seconds from when a probe was due to its begin, by handler (`exec`, `httpGet`, …).
    pub delays: Vec<(&'static str, Buckets)>,
    /// By handler: how many probes run now.
    pub running: Vec<(&'static str, u64)>,
    /// By handler: how many probes are due and wait until fewer run.
    pub waiting: Vec<(&'static str, u64)>,
}

/// One probe of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeView {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's uid.
    pub uid: String,
    /// The container's name in the manifest.
    pub container: String,
    /// The runtime's id of the newest container.
    pub container_id: String,
    /// The probe as the manifest defines it, with defaults.
    pub spec: ProbeSpec,
    /// The result after applying the thresholds; `None` until one was reached.
    pub result: Option<Verdict>,
    /// The newest run; `None` before the first.
    pub last: Option<ProbeRun>,
    /// How many of the last runs had the same verdict.
    pub in_a_row: u32,
    /// When it is due, or was due if it waits for its turn; `None` while it runs or waits for something other
    /// than the time.
    pub next: Option<Timestamp>,
    /// What it waits for besides its schedule, as text after "waits for"; empty if nothing.
    pub waits_for: &'static str,
    /// Results since the pod exists, including those of earlier containers.
    pub counts: ProbeCounts,
    /// Seconds that successful runs took: the kubelet does not observe others (`worker.doProbe`). The bounds
    /// are the kubelet's (prometheus `DefBuckets`).
    pub durations: Buckets,
}

/// One run of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRun {
    /// When it began.
    pub begun: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// `Err` with a message if the prober itself failed; such a run does not count towards the thresholds and
    /// has no output.
    pub outcome: Result<Outcome, String>,
    /// Output of the application, or what failed; at most 10 KiB.
    pub output: String,
}

/// `prober_probe_total`, by the kubelet's words for results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProbeCounts {
    /// Runs that succeeded.
    pub successful: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Runs in which the prober itself failed.
    pub unknown: u64,
}

/// A histogram of seconds with its own bounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Buckets {
    /// Upper bounds in seconds in ascending order, each with the number of values that are at most that and
    /// above the bound before.
    pub counts: Vec<(f64, u64)>,
    /// Number of values above every bound.
    pub above: u64,
    /// Sum of all values in seconds.
    pub sum: f64,
}

/// The result of one run of a probe (pkg/probe `Result`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The container answered as it should.
    Success,
    /// A success with a remark: a redirect that was not followed.
    Warning,
    /// The container did not answer as it should, or not in time.
    Failure,
}

impl Outcome {
    /// What it counts as towards the thresholds: a warning is a success.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Success | Self::Warning => Verdict::Success,
            Self::Failure => Verdict::Failure,
        }
    }
}

/// What a run counts as, and the result of a probe after its thresholds (pkg/kubelet/prober/results).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// The kubelet's `results.Success`.
    Success,
    /// The kubelet's `results.Failure`.
    Failure,
}

impl Verdict {
    /// `success` or `failure`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
