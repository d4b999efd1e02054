//! The object of a mirror pod, as a kubelet makes it (`pkg/kubelet/pod/mirror_client.go`).

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use nodewarden_model::PodView;

use crate::pod_object::{MIRROR, NodeFacts, without_status};

/// The mirror pod of the pod of a manifest, owned by the node object of this uid: a node's credentials may
/// make no other (admission plugin NodeRestriction).
pub fn object(view: &PodView, node: &NodeFacts, node_uid: &str) -> v1::Pod {
    let mut pod = without_status(view, node);
    let meta = &mut pod.metadata;
    (meta.uid, meta.creation_timestamp, meta.deletion_timestamp) = (None, None, None);
    meta.annotations.get_or_insert_default().insert(MIRROR.into(), view.pod.uid.clone());
    meta.owner_references = Some(vec![OwnerReference {
        api_version: "v1".into(),
        kind: "Node".into(),
        name: node.name.clone(),
        uid: node_uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }]);
    if let Some(spec) = &mut pod.spec {
        // The API server computes it from the class, and refuses another one.
        spec.priority = None;
        let tolerations = spec.tolerations.get_or_insert_default();
        // A pod of a manifest stays whatever the node's taints are.
        let everything = v1::Toleration {
            operator: Some("Exists".into()),
            effect: Some("NoExecute".into()),
            ..v1::Toleration::default()
        };
        if !tolerations.contains(&everything) {
            tolerations.push(everything);
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nodewarden_model::fixture;

    #[test]
    fn a_mirror_pod_names_its_manifest_and_its_node() {
        let mut view = fixture::pod();
        view.terminating = Some(view.started);
        let node = NodeFacts { name: "node-1".into(), ..NodeFacts::default() };
        let made = serde_json::to_value(object(&view, &node, "7e57")).unwrap();
        assert_eq!(
            made["metadata"],
            json!({
                "name": "cart-5d9c", "namespace": "shop", "labels": {"app": "cart"},
                "annotations": {
                    "kubernetes.io/config.hash": "8c5e", "kubernetes.io/config.mirror": "8c5e",
                    "kubernetes.io/config.seen": "2023-11-14T22:13:20Z", "kubernetes.io/config.source": "file",
                },
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "7e57", "controller": true}],
            })
        );
        assert_eq!(made["spec"]["nodeName"], "node-1");
        assert_eq!(made["spec"]["tolerations"], json!([{"operator": "Exists", "effect": "NoExecute"}]));
        assert!(made["spec"].get("priority").is_none() && made.get("status").is_none());
    }
}
