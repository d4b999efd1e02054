//! Metrics counted by workers, under the kubelet's names (pkg/kubelet/metrics).

use nodewarden_manifest::ContainerKind;
use nodewarden_metrics::Own;

/// Values of the label `container_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerType {
    Container,
    Init,
    Ephemeral,
    Sandbox,
}

impl ContainerType {
    fn name(self) -> &'static str {
        match self {
            Self::Container => "container",
            Self::Init => "init_container",
            Self::Ephemeral => "ephemeral_container",
            Self::Sandbox => "podsandbox",
        }
    }
}

/// Sidecars are init containers to the kubelet.
impl From<ContainerKind> for ContainerType {
    fn from(kind: ContainerKind) -> Self {
        match kind {
            ContainerKind::Regular => Self::Container,
            ContainerKind::Init | ContainerKind::Sidecar => Self::Init,
            ContainerKind::Ephemeral => Self::Ephemeral,
        }
    }
}

/// A pod's first sandbox runs (the kubelet counts when it begins to make one).
pub fn pod_started() {
    ::metrics::counter!(Own::StartedPods.name()).increment(1);
}

/// A pod's sandbox could not be made.
pub fn pod_failed() {
    ::metrics::counter!(Own::StartedPodsErrors.name()).increment(1);
}

/// A pod that was ended starts again with the same uid.
pub fn pod_restarted() {
    ::metrics::counter!(Own::RestartedPods.name(), "static" => "true").increment(1);
}

/// A sandbox or container is about to be started.
pub fn container_started(container: ContainerType) {
    ::metrics::counter!(Own::StartedContainers.name(), "container_type" => container.name()).increment(1);
}

/// It could not be: `code` is the kubelet's reason (`ErrImagePull`, `CreateContainerError`,
/// `RunContainerError`, …).
pub fn container_failed(container: ContainerType, code: &'static str) {
    ::metrics::counter!(
        Own::StartedContainersErrors.name(), "code" => code, "container_type" => container.name()
    )
    .increment(1);
}
