//! Labels and annotations by which the agent knows sandboxes and containers in the runtime's lists (kubelet:
//! `staging/…/kubelet/pkg/types/labels.go`).

/// Label with the pod's name.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// Label with the pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// Label with the pod's uid; for a static pod the kubelet computes it from the manifest.
pub const POD_UID: &str = "io.kubernetes.pod.uid";
/// Label with the container's name in its pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// Label with the agent that owns a sandbox or container. Those with another value are never touched, and
/// those without it only where a kubelet's are taken over.
pub const OWNER: &str = "nodewarden.io/owner";
/// Annotation with the pod's grace period in seconds, for a pod that has to be ended without its manifest.
pub const TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
/// Annotation of a container with its devices: resource → NUMA node → ids, as JSON. From it allocations are
/// recovered when the checkpoint is damaged.
pub const DEVICES: &str = "nodewarden.io/devices";

/// All labels and annotations that are read from lists.
pub(super) const READ: [&str; 7] =
    [POD_NAME, POD_NAMESPACE, POD_UID, CONTAINER_NAME, OWNER, TERMINATION_GRACE_PERIOD, DEVICES];
