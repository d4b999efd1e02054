//! Labels and annotations of sandboxes and containers, by which the agent finds them after a restart (kubelet
//! pkg/kubelet/types/labels.go, kuberuntime/labels.go).

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1;

use super::Host;
use nodewarden_manifest::Pod;
use nodewarden_model::fnv::fnv32a;

pub use nodewarden_cri::labels::{
    CONTAINER_NAME, OWNER, POD_NAME, POD_NAMESPACE, POD_UID, TERMINATION_GRACE_PERIOD,
};

/// Annotation with the number of earlier runs of the container in this pod.
pub(super) const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
/// Annotation with the hash of the manifest's fields whose change requires a new container.
pub(super) const HASH: &str = "io.kubernetes.container.hash";
/// Annotation with the path in the container of the file whose content becomes the message of its status.
pub(super) const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// Annotation with `terminationMessagePolicy`: `File` or `FallbackToLogsOnError`.
pub(super) const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";

/// `terminationMessagePath` of a container that sets none.
pub(super) const DEFAULT_TERMINATION_MESSAGE_PATH: &str = "/dev/termination-log";

/// The pod's own labels and those by which the agent finds the sandbox.
pub(super) fn sandbox_labels(pod: &Pod, host: &Host) -> HashMap<String, String> {
    let own = pod.labels.iter().map(|(name, value)| (name.clone(), value.clone()));
    own.chain(identity(pod, host)).collect()
}

/// The labels by which the agent finds the container; the pod's own labels are not among them.
pub(super) fn container_labels(pod: &Pod, container: &str, host: &Host) -> HashMap<String, String> {
    let name = (CONTAINER_NAME.to_owned(), container.to_owned());
    identity(pod, host).into_iter().chain([name]).collect()
}

fn identity(pod: &Pod, host: &Host) -> [(String, String); 4] {
    [(POD_NAME, &*pod.name), (POD_NAMESPACE, &pod.namespace), (POD_UID, &pod.uid), (OWNER, host.owner)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// What a restarted agent has to know about a container and cannot read from the manifest, which may have
/// changed.
pub(super) fn container_annotations(
    pod: &Pod,
    container: &v1::Container,
    attempt: u32,
) -> HashMap<String, String> {
    let grace = nodewarden_manifest::grace(pod).as_secs().to_string();
    let annotations: BTreeMap<&str, String> = BTreeMap::from([
        (RESTART_COUNT, attempt.to_string()),
        (HASH, hash(container)),
        (TERMINATION_MESSAGE_PATH, termination_message_path(container).to_owned()),
        (TERMINATION_MESSAGE_POLICY, termination_message_policy(container).to_owned()),
        (TERMINATION_GRACE_PERIOD, grace),
    ]);
    annotations.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn termination_message_path(container: &v1::Container) -> &str {
    let own = container.termination_message_path.as_deref().filter(|path| !path.is_empty());
    own.unwrap_or(DEFAULT_TERMINATION_MESSAGE_PATH)
}

fn termination_message_policy(container: &v1::Container) -> &str {
    container.termination_message_policy.as_deref().unwrap_or("File")
}

/// Hash of the fields whose change requires a new container: name and image (kubelet `pickFieldsToHash`).
/// FNV-1a like the kubelet's, but over JSON instead of Go's dump.
fn hash(container: &v1::Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    let text = serde_json::json!({"name": container.name, "image": image}).to_string();
    format!("{:x}", fnv32a(&text))
}
