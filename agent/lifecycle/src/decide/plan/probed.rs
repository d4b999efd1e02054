//! Containers that a probe ends (kubelet `computePodActions`, `computeInitContainerActions`).

use super::KillReason;
use super::containers::Round;
use crate::decide::observed::ContainerSeen;
use crate::decide::policy;
use nodewarden_manifest::ProbeKind;
use nodewarden_manifest::{Container, ContainerKind};

impl Round<'_> {
    /// It has failed its liveness or startup probe.
    pub(super) fn kill_for_probe(&mut self, container: &Container, seen: &ContainerSeen, kind: ProbeKind) {
        let (reason, probe) = match kind {
            ProbeKind::Liveness => (KillReason::Liveness, "liveness"),
            ProbeKind::Startup => (KillReason::Startup, "startup"),
            // Has no container ended.
            ProbeKind::Readiness => return,
        };
        let name = &container.name;
        // The kubelet's words: of a sidecar it does not say that it comes again
        // (`computeInitContainerActions`).
        let message = match container.kind {
            ContainerKind::Sidecar | ContainerKind::Init => {
                format!("Init container {name} failed {probe} probe")
            }
            ContainerKind::Regular if policy::restarts(self.pod, container, policy::PROBE_KILLED) => {
                format!("Container {name} failed {probe} probe, will be restarted")
            }
            ContainerKind::Regular | ContainerKind::Ephemeral => {
                format!("Container {name} failed {probe} probe")
            }
        };
        self.kill(seen, reason, message);
    }
}
