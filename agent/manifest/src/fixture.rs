//! Pods for tests.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Pod;

/// The pod `default/p` with uid `u` and this spec.
///
/// # Panics
/// If the spec is not that of a pod.
pub fn pod(spec: Value) -> Arc<Pod> {
    let manifest = json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec});
    let pod = serde_json::from_value(manifest).expect("a pod's fields");
    Arc::new(Pod::unchecked(pod).expect("quantities that can be read"))
}
