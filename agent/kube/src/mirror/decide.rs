//! What to do about the mirror pod of one name.

use crate::known_pods::KnownPod;
use nodewarden_model::PodPhase;

/// The pod of a manifest on the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Its uid on the node, which changes with the manifest.
    pub hash: &'a str,
    /// Its phase.
    pub phase: PodPhase,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Keep,
    /// Make the mirror pod.
    Create,
    /// Delete the mirror pod of this uid, at once.
    Delete(String),
}

/// `wanted`: the pod of a manifest, if the node has one of this name. `certain`: it is known that there is no
/// such manifest if `wanted` is `None`. `known`: what the API server has of this name.
pub fn decide(wanted: Option<Wanted<'_>>, certain: bool, known: Option<&KnownPod>) -> Action {
    let Some(known) = known else {
        return if wanted.is_some() { Action::Create } else { Action::Keep };
    };
    // A pod of the API of the same name is no business of the manifest's.
    let Some(hash) = known.mirror.as_deref() else { return Action::Keep };
    let delete = match wanted {
        None => certain,
        Some(wanted) => known.deleting || hash != wanted.hash || starts_again(known.phase, wanted.phase),
    };
    if delete { Action::Delete(known.uid.to_string()) } else { Action::Keep }
}

/// A pod of a manifest that was evicted starts again, but no pod at the API leaves its last phase.
fn starts_again(known: Option<PodPhase>, now: PodPhase) -> bool {
    let ended = |phase| matches!(phase, PodPhase::Failed | PodPhase::Succeeded);
    known.is_some_and(ended) && !ended(now)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1;
    use serde_json::{Value, json};

    use super::*;

    fn known(hash: Option<&str>, phase: &str, deleting: bool) -> KnownPod {
        let hash = hash.map_or(Value::Null, |hash| json!({"kubernetes.io/config.mirror": hash}));
        let deletion = if deleting { json!("2026-01-01T00:00:00Z") } else { Value::Null };
        let pod = json!({"metadata": {"namespace": "n", "name": "p", "uid": "u", "annotations": hash,
            "deletionTimestamp": deletion}, "status": {"phase": phase}});
        KnownPod::of(&serde_json::from_value::<v1::Pod>(pod).unwrap())
    }

    #[test]
    fn a_mirror_pod_is_as_its_manifest() {
        let running = Some(Wanted { hash: "a", phase: PodPhase::Running });
        let failed = Some(Wanted { hash: "a", phase: PodPhase::Failed });
        let delete = || Action::Delete("u".into());
        for (wanted, certain, known, expected, why) in [
            (running, true, None, Action::Create, "there is none"),
            (None, true, None, Action::Keep, "and none is wanted"),
            (running, true, Some(known(Some("a"), "Pending", false)), Action::Keep, "it is there"),
            (running, true, Some(known(Some("b"), "Running", false)), delete(), "the manifest changed"),
            (
                running,
                false,
                Some(known(Some("a"), "Running", true)),
                delete(),
                "someone deletes it: made again",
            ),
            (None, true, Some(known(Some("a"), "Running", false)), delete(), "the manifest is gone"),
            (
                None,
                false,
                Some(known(Some("a"), "Running", false)),
                Action::Keep,
                "manifests are not read yet",
            ),
            (None, true, Some(known(None, "Running", false)), Action::Keep, "a pod of the API"),
            (
                running,
                true,
                Some(known(None, "Running", true)),
                Action::Keep,
                "a pod of the API in its place",
            ),
            (running, true, Some(known(Some("a"), "Failed", false)), delete(), "evicted, and back"),
            (failed, true, Some(known(Some("a"), "Failed", false)), Action::Keep, "evicted"),
        ] {
            assert_eq!(decide(wanted, certain, known.as_ref()), expected, "{why}");
        }
    }
}
