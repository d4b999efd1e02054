//! The uid of a pod whose manifest has none.

use serde_json::json;
use sha2::{Digest, Sha256};

use nodewarden_manifest::Pod;

/// Stable as long as the pod's content and its place are: as the kubelet's `applyDefaults`
/// (pkg/kubelet/config/common.go) it is a hash of both, 32 hexadecimal digits without dashes. `place` is
/// `host:<node>file:<path>` or `url:<url>`. (The kubelet hashes Go's own dump of the pod with MD5; its digits
/// cannot be had outside Go.)
pub fn derive(pod: &Pod, place: &str) -> String {
    // Objects of serde_json are sorted by key.
    let content = json!({
        "namespace": pod.namespace, "name": pod.name, "labels": pod.labels, "annotations": pod.annotations,
        "spec": &*pod.spec(),
    });
    let mut hash = Sha256::new();
    hash.update(content.to_string());
    hash.update(place);
    hash.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect()
}
