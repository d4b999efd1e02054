//! Reads one pod as the API server sent it. Whatever is wrong with it concerns this pod alone.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use nodewarden_manifest::{Pod, of_value};
use nodewarden_model::{ApiState, PodPhase, ReadinessGate};
use nodewarden_pods::source::Over;
use serde_json::Value;

use crate::known_pods::{KnownPod, PodKey};

/// Reason of a pod that this agent does not run.
const INVALID: &str = "InvalidPodSpec";

/// A pod as it was read.
#[derive(Debug, Clone)]
pub struct SeenPod {
    pub key: PodKey,
    pub uid: Box<str>,
    /// `metadata.resourceVersion` as a number, which it is (KEP-5504).
    pub version: Option<u64>,
    /// What runs here, or why it does not.
    pub pod: Result<Arc<Pod>, Refused>,
    /// It is the image of a static pod, which this agent made itself.
    pub is_mirror: bool,
    /// The grace period of its deletion; `None` if it is not being deleted.
    pub deletion: Option<Duration>,
    /// Its phase is terminal.
    pub over: Option<Over>,
    pub api: ApiState,
}

/// Why a pod is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// `status.reason`.
    pub reason: &'static str,
    /// `status.message`: everything that is wrong with it.
    pub message: String,
}

/// Something in place of a pod that does not even say which pod it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the API server sent something that is no pod: it has no {field}")]
pub struct NoPod {
    field: &'static str,
}

/// Reads a pod. Also returns what else is known of it, unless it is no pod by its types.
///
/// # Errors
/// It has no name or no uid.
pub fn decode(mut value: Value) -> Result<(SeenPod, Option<KnownPod>), NoPod> {
    let head = Head::of(&value)?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        // Often the largest part, and not used.
        metadata.remove("managedFields");
    }
    let refused = |message| Refused { reason: INVALID, message };
    match of_value::<v1::Pod>(value) {
        Err(error) => Ok((head.into_seen(Err(refused(error.to_string()))), None)),
        Ok(pod) => {
            let known = KnownPod::of(&pod);
            let (over, api) = (over(&pod), api_state(&pod));
            let v1::Pod { metadata, spec, .. } = pod;
            let pod = Pod::from_api(v1::Pod { metadata, spec, status: None });
            let pod = pod.map(Arc::new).map_err(|problems| {
                refused(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            });
            Ok((SeenPod { over, api, ..head.into_seen(pod) }, Some(known)))
        }
    }
}

/// Which pod it is, and whether it is being deleted: read also of what is no pod by its types.
struct Head {
    key: PodKey,
    uid: Box<str>,
    version: Option<u64>,
    is_mirror: bool,
    deletion: Option<Duration>,
}

impl Head {
    fn of(value: &Value) -> Result<Self, NoPod> {
        let metadata = value.get("metadata").ok_or(NoPod { field: "metadata" })?;
        let text = |field: &'static str| {
            let text = metadata.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.ok_or(NoPod { field })
        };
        let seconds = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_u64);
        let is_deleted = metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null());
        let annotations = metadata.get("annotations");
        Ok(Self {
            key: PodKey::new(text("namespace")?, text("name")?),
            uid: text("uid")?.into(),
            version: text("resourceVersion").ok().and_then(|text| text.parse().ok()),
            is_mirror: annotations.and_then(|all| all.get(MIRROR)).is_some_and(Value::is_string),
            deletion: is_deleted.then(|| Duration::from_secs(seconds.unwrap_or_default())),
        })
    }

    fn into_seen(self, pod: Result<Arc<Pod>, Refused>) -> SeenPod {
        let Self { key, uid, version, is_mirror, deletion } = self;
        SeenPod { key, uid, version, pod, is_mirror, deletion, over: None, api: ApiState::default() }
    }
}

/// Annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

fn over(pod: &v1::Pod) -> Option<Over> {
    let status = pod.status.as_ref()?;
    let phase = match status.phase.as_deref() {
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        _ => return None,
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(Over { phase, reason: text(&status.reason), message: text(&status.message) })
}

fn api_state(pod: &v1::Pod) -> ApiState {
    let gates = pod.spec.as_ref().and_then(|spec| spec.readiness_gates.as_deref()).unwrap_or_default();
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let gate = |gate: &v1::PodReadinessGate| {
        let found = conditions.iter().find(|condition| condition.type_ == gate.condition_type);
        ReadinessGate {
            condition: gate.condition_type.clone(),
            status: found.map(|condition| condition.status.clone()),
        }
    };
    ApiState { generation: pod.metadata.generation, gates: gates.iter().map(gate).collect() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": "u-1", "resourceVersion": "17"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Pending"},
        })
    }

    fn with(path: &str, to: Value) -> Value {
        let mut pod = pod();
        let (parent, field) = path.rsplit_once('/').unwrap();
        pod.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(field.into(), to);
        pod
    }

    #[test]
    fn a_pod_is_read_with_what_concerns_its_life() {
        let (seen, known) = decode(pod()).unwrap();
        assert_eq!(
            (seen.key.to_string(), &*seen.uid, seen.version),
            ("shop/web".to_owned(), "u-1", Some(17))
        );
        assert_eq!((&*known.unwrap().uid, seen.is_mirror, seen.deletion), ("u-1", false, None));
        assert_eq!(seen.pod.unwrap().name, "web");
        let (seen, _) = decode(with("/status/phase", json!("Failed"))).unwrap();
        assert_eq!(seen.over.unwrap().phase, PodPhase::Failed);
        let mut deleted = with("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        deleted["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(decode(deleted).unwrap().0.deletion, Some(Duration::from_secs(30)));
        let mirror = with("/metadata/annotations", json!({"kubernetes.io/config.mirror": "abc"}));
        assert!(decode(mirror).unwrap().0.is_mirror);
    }

    #[test]
    fn readiness_gates_come_with_their_conditions() {
        let mut pod =
            with("/spec/readinessGates", json!([{"conditionType": "a/b"}, {"conditionType": "a/c"}]));
        pod["status"]["conditions"] =
            json!([{"type": "a/b", "status": "True"}, {"type": "other", "status": "True"}]);
        let gates = decode(pod).unwrap().0.api.gates;
        let gates: Vec<_> =
            gates.iter().map(|gate| (gate.condition.as_str(), gate.status.as_deref())).collect();
        assert_eq!(gates, [("a/b", Some("True")), ("a/c", None)]);
    }

    #[test]
    fn what_is_no_valid_pod_is_refused_and_still_known_by_name_and_deletion() {
        for bad in [
            with("/spec/containers", json!("none")),
            with("/spec/containers", json!([])),
            with(
                "/spec/containers",
                json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "x"}}}]),
            ),
            with("/spec", json!(7)),
        ] {
            let mut bad = bad;
            bad["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            let (seen, _) = decode(bad.clone()).unwrap();
            assert_eq!((&*seen.uid, seen.deletion), ("u-1", Some(Duration::ZERO)), "{bad}");
            let refused = seen.pod.unwrap_err();
            assert!(refused.reason == INVALID && !refused.message.is_empty(), "{bad}");
        }
    }

    #[test]
    fn without_a_name_or_a_uid_it_is_no_pod() {
        for bad in [
            json!(null),
            json!([1]),
            json!({"metadata": 1}),
            with("/metadata/uid", json!("")),
            with("/metadata/name", json!(5)),
            with("/metadata/namespace", json!(null)),
        ] {
            assert!(decode(bad.clone()).is_err(), "{bad}");
        }
    }
}
