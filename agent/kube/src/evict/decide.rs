//! What is sent to the API server, and what follows from its answer. Pure.

use std::time::Duration;

use jiff::Timestamp;
use nodewarden_model::backoff::Backoff;
use serde_json::{Value, json};

use super::record::Killed;
use crate::status::answer::Answer;

/// How the API server hears that a pod was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Its status becomes Failed and Evicted. A kubelet from 1.22 on takes a pod down whose phase is final at
    /// the API server, and starts none of its containers again (`pod_workers.go`).
    Status,
    /// It is deleted with no grace: an older kubelet keeps its own view of the phase, and would start the
    /// containers again.
    Delete,
}

/// The minor version of Kubernetes 1 whose kubelet takes a pod down by the phase at the API server.
const FIRST_WITH_STATUS: u32 = 22;

/// The way for a kubelet of this version (`status.nodeInfo.kubeletVersion`). One that is not known is treated
/// as an old one: every kubelet obeys a deletion.
pub fn way(kubelet: Option<&str>) -> Way {
    match kubelet.and_then(version) {
        Some(version) if version >= (1, FIRST_WITH_STATUS) => Way::Status,
        _ => Way::Delete,
    }
}

/// Major and minor version of `v1.29.3+k3s1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.strip_prefix('v').unwrap_or(text).split(['.', '-', '+']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The strategic merge patch of the status of a killed pod, with the words of a kubelet that evicts. It is
/// refused if the pod of this name has another uid.
pub fn status_patch(killed: &Killed) -> Value {
    let time = whole_seconds(killed.time);
    json!({
        "metadata": { "uid": killed.uid },
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "message": killed.message,
            "conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "TerminationByKubelet",
                "message": killed.message,
                "lastTransitionTime": time,
            }],
        },
    })
}

/// The body that asks for the eviction of the pod of this uid, for which disruption budgets hold. `grace` is
/// the longest time that it may take to end; at least a second, since with none the API server forgets a pod
/// that still runs.
///
/// API servers have `policy/v1` from 1.22 on and `policy/v1beta1` up to 1.24, and are never older than their
/// kubelets and at most three minor versions newer.
pub fn eviction(way: Way, name: &str, namespace: &str, uid: &str, grace: Duration) -> Value {
    let version = match way {
        Way::Status => "policy/v1",
        Way::Delete => "policy/v1beta1",
    };
    json!({
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": { "name": name, "namespace": namespace },
        "deleteOptions": {
            "gracePeriodSeconds": grace.as_secs().max(1),
            "preconditions": { "uid": uid },
        },
    })
}

/// What follows from the answer about a killed pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The API server has it.
    Done,
    /// There is no such pod any more: nothing is left to say.
    Gone,
    /// Again after this time.
    Again(Duration),
}

/// The first wait.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// The waits while the API server does not answer.
const AWAY_AGAIN: Backoff = Backoff::doubling(FIRST_WAIT, Duration::from_secs(5));
/// The longest wait after refusals, such as for a missing right.
const LONGEST_REFUSED: Duration = Duration::from_secs(60);
/// The waits after refusals, unless the API server asks for longer ones.
const REFUSED_AGAIN: Backoff = Backoff::doubling(FIRST_WAIT, LONGEST_REFUSED);

/// What follows from an answer after so many failures in a row. What was done is never given up: the pod's
/// processes are gone, and no other program says why.
pub fn after(answer: Answer, failures: u32) -> Next {
    match answer {
        Answer::Written(_) => Next::Done,
        Answer::Gone => Next::Gone,
        Answer::Away => Next::Again(AWAY_AGAIN.nth(failures)),
        Answer::Refused(asked) => {
            let asked = asked.unwrap_or_default().min(LONGEST_REFUSED);
            Next::Again(REFUSED_AGAIN.nth(failures).max(asked))
        }
    }
}

/// What follows from the answer to the question whether a pod may be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The API server has asked for its end.
    Taken,
    /// There is no such pod any more.
    Gone,
    /// A disruption budget, or something else, forbids it: this pod is not asked about again for this time.
    Refused(Duration),
    /// There is no answer: no pod is asked about for this time.
    Away(Duration),
}

/// How long a pod that may not be evicted is left alone, unless the API server says for how long.
const REFUSED: Duration = Duration::from_secs(30);
/// The bounds of what the API server says.
const REFUSED_BOUNDS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(300)];
/// How long no question is asked while the API server does not answer.
const AWAY: Duration = Duration::from_secs(5);

/// What follows from an answer.
pub fn asked(answer: Answer) -> Asked {
    let [least, most] = REFUSED_BOUNDS;
    match answer {
        Answer::Written(_) => Asked::Taken,
        Answer::Gone => Asked::Gone,
        Answer::Refused(wait) => Asked::Refused(wait.unwrap_or(REFUSED).clamp(least, most)),
        Answer::Away => Asked::Away(AWAY),
    }
}

/// A time as the API has it.
fn whole_seconds(time: Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_by_the_kubelets_version() {
        for (version, expected) in [
            (Some("v1.20.2"), Way::Delete),
            (Some("v1.21.14-gke.700"), Way::Delete),
            (Some("v1.22.0"), Way::Status),
            (Some("v1.22.0-alpha.1"), Way::Status),
            (Some("v1.29.3+k3s1"), Way::Status),
            (Some("v1.100.0"), Way::Status),
            (Some("1.30.1"), Way::Status),
            (Some("v2.0.0"), Way::Status),
            (Some("v0.30.0"), Way::Delete),
            (Some("v1"), Way::Delete),
            (Some("v1.x"), Way::Delete),
            (Some("none"), Way::Delete),
            (Some(""), Way::Delete),
            (None, Way::Delete),
        ] {
            assert_eq!(way(version), expected, "{version:?}");
        }
    }

    #[test]
    fn a_killed_pods_status() {
        let killed = Killed {
            uid: "u".into(),
            namespace: "n".into(),
            name: "p".into(),
            message: "low".into(),
            time: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        };
        assert_eq!(
            status_patch(&killed),
            json!({
                "metadata": {"uid": "u"},
                "status": {
                    "phase": "Failed", "reason": "Evicted", "message": "low",
                    "conditions": [{
                        "type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
                        "message": "low", "lastTransitionTime": "2026-01-02T03:04:05Z",
                    }],
                },
            })
        );
    }

    #[test]
    fn the_question_names_the_pod_and_its_grace() {
        for (way, grace, version, seconds) in [
            (Way::Status, Duration::from_secs(30), "policy/v1", 30),
            (Way::Delete, Duration::from_secs(30), "policy/v1beta1", 30),
            (Way::Status, Duration::ZERO, "policy/v1", 1),
        ] {
            let body = eviction(way, "p", "n", "u", grace);
            assert_eq!(body["apiVersion"], version);
            assert_eq!(body["metadata"], json!({"name": "p", "namespace": "n"}));
            let options = json!({"gracePeriodSeconds": seconds, "preconditions": {"uid": "u"}});
            assert_eq!(body["deleteOptions"], options);
        }
    }

    #[test]
    fn a_kill_is_said_until_the_api_server_has_it() {
        let ms = Duration::from_millis;
        let s = Duration::from_secs;
        for (answer, failures, expected) in [
            (Answer::Written(1), 0, Next::Done),
            (Answer::Written(1), 99, Next::Done),
            (Answer::Gone, 3, Next::Gone),
            (Answer::Away, 0, Next::Again(ms(200))),
            (Answer::Away, 1, Next::Again(ms(400))),
            (Answer::Away, 5, Next::Again(s(5))),
            (Answer::Away, u32::MAX, Next::Again(s(5))),
            (Answer::Refused(None), 0, Next::Again(ms(200))),
            (Answer::Refused(None), 20, Next::Again(s(60))),
            (Answer::Refused(Some(s(10))), 0, Next::Again(s(10))),
            (Answer::Refused(Some(s(3600))), 0, Next::Again(s(60))),
        ] {
            assert_eq!(after(answer, failures), expected, "{answer:?} after {failures}");
        }
    }

    #[test]
    fn a_refused_eviction_is_not_tried_again_at_once() {
        let s = Duration::from_secs;
        for (answer, expected) in [
            (Answer::Written(0), Asked::Taken),
            (Answer::Gone, Asked::Gone),
            (Answer::Refused(None), Asked::Refused(s(30))),
            (Answer::Refused(Some(s(10))), Asked::Refused(s(10))),
            (Answer::Refused(Some(s(1))), Asked::Refused(s(5))),
            (Answer::Refused(Some(s(9999))), Asked::Refused(s(300))),
            (Answer::Away, Asked::Away(s(5))),
        ] {
            assert_eq!(asked(answer), expected, "{answer:?}");
        }
    }
}
