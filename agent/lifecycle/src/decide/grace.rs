//! How long a container may take to end.

use std::time::Duration;

use super::plan::KillReason;
use super::published::specs;
use nodewarden_manifest::{Pod, ProbeKind};

/// How long the container may take to end: as long as its probe says, else its pod; the probe's may be the
/// longer one (kubelet `setTerminationGracePeriod`, KEP-2238).
pub fn grace(pod: &Pod, name: &str, reason: KillReason) -> Duration {
    let kind = match reason {
        KillReason::Liveness => Some(ProbeKind::Liveness),
        KillReason::Startup => Some(ProbeKind::Startup),
        _ => None,
    };
    let own = kind.and_then(|kind| specs(pod, name).into_iter().find(|spec| spec.kind == kind));
    own.and_then(|spec| spec.grace).unwrap_or_else(|| nodewarden_manifest::grace(pod))
}
