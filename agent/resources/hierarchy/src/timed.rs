//! Duration of cgroup operations, in the kubelet's histogram.

use std::time::Instant;

use nodewarden_metrics::Own;

/// Values of the label `operation_type` (pkg/kubelet/cm, `metrics.CgroupManagerDuration`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Operation {
    Create,
    Update,
    Destroy,
}

impl Operation {
    fn name(self) -> &'static str {
        self.into()
    }
}

/// Runs `what` and records its duration.
pub fn timed<T>(operation: Operation, what: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = what();
    ::metrics::histogram!(Own::CgroupManager.name(), "operation_type" => operation.name())
        .record(started.elapsed());
    result
}
