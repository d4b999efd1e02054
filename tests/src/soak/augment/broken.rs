//! What must not happen to a pod: a container that is started again, and failure. A start that the end of the
//! kubelet cut off is neither: the runtime gives it up, and the next kubelet has to start the container
//! again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The containers whose start was cut off, by the pod's uid and the container's name.
#[derive(Debug, Default)]
pub struct Broken(BTreeMap<(String, String), BTreeSet<String>>);

impl Broken {
    /// Takes a pod as the API server has it now. Returns what has happened to it that must not.
    pub fn update(&mut self, pod: &Value) -> Vec<String> {
        let (metadata, status) = (&pod["metadata"], &pod["status"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (uid, name) = (text(&metadata["uid"]), text(&metadata["name"]));
        let mut broken = Vec::new();
        let mut has_failed = false;
        for container in status["containerStatuses"].as_array().into_iter().flatten() {
            let cut_off = self.0.entry((uid.clone(), text(&container["name"]))).or_default();
            for ended in [&container["state"]["terminated"], &container["lastState"]["terminated"]] {
                if was_cut_off(ended) {
                    cut_off.insert(text(&ended["containerID"]));
                }
            }
            if container["restartCount"].as_u64().unwrap_or(0) > cut_off.len() as u64 {
                broken.push(format!("{name}: a container was restarted: {container}"));
            }
            let ended = &container["state"]["terminated"];
            has_failed |= ended["exitCode"].as_i64().is_some_and(|code| code != 0) && !was_cut_off(ended);
        }
        // One that is deleted while it runs may be killed at the end of its grace period.
        let stays = metadata["deletionTimestamp"].is_null();
        // One that failed otherwise has a reason, such as Evicted.
        if status["phase"] == "Failed" && stays && (has_failed || status["reason"].is_string()) {
            broken.push(format!("{name} has failed: {status}"));
        }
        broken
    }
}

/// Whether the container never ran because the kubelet ended: during StartContainer, whose context containerd
/// cancels with the connection, or between CreateContainer and StartContainer.
fn was_cut_off(ended: &Value) -> bool {
    let is_canceled = ended["message"].as_str().is_some_and(|message| message.contains("context canceled"));
    let was_only_made = ended["exitCode"] == 0 && ended["startedAt"].is_null() && ended["reason"].is_null();
    ended["reason"] == "StartError" && is_canceled || was_only_made
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cut_off(id: &str) -> Value {
        let message = "failed to start containerd task \"a\": context canceled: unknown";
        json!({"containerID": id, "exitCode": 128, "reason": "StartError", "message": message})
    }

    fn pod(restarts: u64, last: &Value) -> Value {
        let container = json!({"name": "main", "restartCount": restarts, "lastState": {"terminated": last}});
        json!({"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Running", "containerStatuses": [container]}})
    }

    #[test]
    fn only_a_start_that_was_cut_off_is_no_restart() {
        let mut broken = Broken::default();
        assert_eq!(broken.update(&pod(0, &Value::Null)).len(), 0);
        assert_eq!(broken.update(&pod(1, &cut_off("a"))).len(), 0);
        assert_eq!(broken.update(&pod(2, &cut_off("a"))).len(), 1);
        assert_eq!(broken.update(&pod(2, &cut_off("b"))).len(), 0);
        let made = json!({"containerID": "d", "exitCode": 0, "startedAt": null, "finishedAt": null});
        assert_eq!(broken.update(&pod(3, &made)).len(), 0);
        let ended = json!({"containerID": "e", "exitCode": 0, "startedAt": "2026-11-27T12:00:00Z", "reason": "Completed"});
        assert_eq!(broken.update(&pod(4, &ended)).len(), 1);
        let refused =
            json!({"containerID": "c", "reason": "StartError", "message": "write cpu.shares: invalid"});
        assert_eq!(broken.update(&pod(4, &refused)).len(), 1);
        assert_eq!(
            Broken::default().update(&pod(1, &json!({"exitCode": 137, "reason": "OOMKilled"}))).len(),
            1
        );
    }

    #[test]
    fn only_a_pod_that_is_deleted_or_never_began_may_fail() {
        let failed = |ended: Value| {
            let container = json!({"name": "main", "restartCount": 0, "state": {"terminated": ended}});
            json!({"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Failed", "containerStatuses": [container]}})
        };
        let count = |pod: &Value| Broken::default().update(pod).len();
        assert_eq!(count(&failed(cut_off("a"))), 0);
        let mut killed = failed(json!({"exitCode": 137, "reason": "Error"}));
        assert_eq!(count(&killed), 1);
        killed["metadata"]["deletionTimestamp"] = json!("2026-11-27T12:00:00Z");
        assert_eq!(count(&killed), 0);
        let mut evicted = json!({"metadata": {"name": "p", "uid": "u"}, "status": {"phase": "Failed", "reason": "Evicted"}});
        assert_eq!(count(&evicted), 1);
        evicted["status"]["phase"] = json!("Running");
        assert_eq!(count(&evicted), 0);
    }
}
