//! What a claim is bound to, as far as this node provides it: `hostPath` and local persistent volumes
//! (kubelet `getPVCExtractPV`, `getPVSpec`).

use k8s_openapi::api::core::v1::{NodeSelectorTerm, PersistentVolume, PersistentVolumeClaim};
use nodewarden_pods::objects::{BoundVolume, NodeRequirement};

/// Name of the volume that a claim is bound to. `owner`: the uid of the pod for which it must have been made.
pub(super) fn volume_of(claim: &PersistentVolumeClaim, owner: Option<&str>) -> Result<String, String> {
    if let Some(owner) = owner {
        let owners = claim.metadata.owner_references.iter().flatten();
        if !owners.into_iter().any(|of| of.uid == owner && of.controller == Some(true)) {
            return Err("was not created for this pod (pod is not owner)".to_owned());
        }
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if phase != "Bound" || volume.is_empty() {
        return Err(format!("is not bound to a volume yet (phase {phase:?})"));
    }
    Ok(volume.to_owned())
}

/// What of the volume the node needs.
pub(super) fn bound(claim: &PersistentVolumeClaim, volume: PersistentVolume) -> Result<BoundVolume, String> {
    let name = volume.metadata.name.unwrap_or_default();
    let spec = volume.spec.ok_or_else(|| format!("persistent volume {name:?} has no spec"))?;
    let claimed = spec.claim_ref.as_ref().and_then(|claim| claim.uid.as_deref());
    if claimed != claim.metadata.uid.as_deref() {
        return Err(format!("persistent volume {name:?} is bound to another claim"));
    }
    if spec.volume_mode.as_deref() == Some("Block") {
        return Err(format!("persistent volume {name:?} is a block volume, which this agent does not map"));
    }
    let (path, path_type, is_local) = if let Some(host) = spec.host_path {
        (host.path, host.type_.unwrap_or_default(), false)
    } else if let Some(local) = spec.local {
        (local.path, "Directory".to_owned(), true)
    } else {
        return Err(format!(
            "persistent volume {name:?} is neither a hostPath nor a local volume: this agent provides no others"
        ));
    };
    let required = spec.node_affinity.and_then(|affinity| affinity.required);
    let node_terms = required.map(|required| required.node_selector_terms.into_iter().map(term).collect());
    let node_terms = node_terms.unwrap_or_default();
    Ok(BoundVolume { name, path: path.into(), path_type, is_local, node_terms })
}

/// Requirements on labels, and on fields, of which there is only the node's name.
fn term(term: NodeSelectorTerm) -> Vec<NodeRequirement> {
    let all = term.match_expressions.into_iter().chain(term.match_fields).flatten();
    let requirement = |asked: k8s_openapi::api::core::v1::NodeSelectorRequirement| NodeRequirement {
        key: asked.key,
        operator: asked.operator,
        values: asked.values.unwrap_or_default(),
    };
    all.map(requirement).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(phase: &str, volume: &str) -> PersistentVolumeClaim {
        let claim = json!({
            "metadata": {"name": "c", "uid": "cu", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pu", "controller": true}]},
            "spec": {"volumeName": volume}, "status": {"phase": phase},
        });
        serde_json::from_value(claim).unwrap()
    }

    fn volume(spec: Value) -> Result<BoundVolume, String> {
        let mut object = json!({"metadata": {"name": "v"}, "spec": {"claimRef": {"uid": "cu"}}});
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        bound(&claim("Bound", "v"), serde_json::from_value(object).unwrap())
    }

    #[test]
    fn only_a_bound_claim_has_a_volume() {
        assert_eq!(volume_of(&claim("Bound", "v"), None).unwrap(), "v");
        assert_eq!(volume_of(&claim("Bound", "v"), Some("pu")).unwrap(), "v");
        assert!(volume_of(&claim("Bound", "v"), Some("other")).unwrap_err().contains("not owner"));
        assert!(volume_of(&claim("Pending", ""), None).unwrap_err().contains("Pending"));
        assert!(volume_of(&claim("Lost", "v"), None).is_err());
    }

    #[test]
    fn host_paths_and_local_volumes_are_provided() {
        let host = volume(json!({"hostPath": {"path": "/h", "type": "DirectoryOrCreate"}})).unwrap();
        assert_eq!((host.path.to_str(), host.path_type.as_str()), (Some("/h"), "DirectoryOrCreate"));
        let local =
            volume(json!({"local": {"path": "/l"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "k", "operator": "In", "values": ["a"]}]}]}}}))
            .unwrap();
        assert_eq!(local.path_type, "Directory");
        assert!(local.is_local && !host.is_local);
        assert_eq!(local.node_terms[0][0].key, "k");
        for (spec, why) in [
            (json!({"csi": {"driver": "d", "volumeHandle": "h"}}), "neither a hostPath nor a local"),
            (json!({"local": {"path": "/l"}, "volumeMode": "Block"}), "block volume"),
            (json!({"local": {"path": "/l"}, "claimRef": {"uid": "x"}}), "another claim"),
        ] {
            assert!(volume(spec).unwrap_err().contains(why), "{why}");
        }
    }
}
