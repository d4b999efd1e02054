//! A pod as listed by `/pods`, read from JSON as any client would.

use serde_json::Value;

use crate::harness::Failure;

/// One pod of the list: its v1 Pod object.
#[derive(Debug, Clone)]
pub struct ListedPod(pub Value);

impl ListedPod {
    /// The pods of a v1 PodList.
    pub fn list(text: &str) -> Result<Vec<Self>, Failure> {
        let list: Value =
            serde_json::from_str(text).map_err(|e| Failure::Unexpected(format!("/pods: {e}: {text}")))?;
        let items = list["items"].as_array().cloned();
        let items = items.ok_or_else(|| Failure::Unexpected(format!("/pods has no items: {text}")))?;
        Ok(items.into_iter().map(Self).collect())
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub fn uid(&self) -> &str {
        self.text("/metadata/uid")
    }

    pub fn phase(&self) -> &str {
        self.text("/status/phase")
    }

    /// A string by its JSON pointer; empty if it is not there.
    pub fn text(&self, pointer: &str) -> &str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// The status of every container, init containers included.
    pub fn statuses(&self) -> impl Iterator<Item = Status<'_>> {
        let of = |key: &str| self.0["status"][key].as_array().into_iter().flatten();
        of("initContainerStatuses").chain(of("containerStatuses")).map(Status)
    }

    /// One container's status.
    pub fn container(&self, name: &str) -> Result<Status<'_>, Failure> {
        let found = self.statuses().find(|status| status.name() == name);
        found.ok_or_else(|| {
            Failure::Unexpected(format!("no status of container {name}: {}", self.0["status"]))
        })
    }

    /// Whether the pod's phase is Running and every container but the init containers is ready.
    pub fn is_up(&self) -> bool {
        let containers = self.0["status"]["containerStatuses"].as_array();
        self.phase() == "Running"
            && containers.is_some_and(|all| !all.is_empty() && all.iter().all(|one| one["ready"] == true))
    }
}

/// One container's status.
#[derive(Debug, Clone, Copy)]
pub struct Status<'a>(pub &'a Value);

impl<'a> Status<'a> {
    pub fn name(&self) -> &'a str {
        self.0["name"].as_str().unwrap_or_default()
    }

    pub fn restarts(&self) -> u64 {
        self.0["restartCount"].as_u64().unwrap_or_default()
    }

    /// The container id without the runtime's name in front.
    pub fn id(&self) -> &'a str {
        let id = self.0["containerID"].as_str().unwrap_or_default();
        id.split_once("://").map_or(id, |(_, id)| id)
    }

    /// The reason for which the container waits; empty if it does not wait.
    pub fn waiting_reason(&self) -> &'a str {
        self.0["state"]["waiting"]["reason"].as_str().unwrap_or_default()
    }

    /// The message of a waiting container.
    pub fn waiting_message(&self) -> &'a str {
        self.0["state"]["waiting"]["message"].as_str().unwrap_or_default()
    }

    pub fn is_running(&self) -> bool {
        self.0["state"]["running"].is_object()
    }

    /// The `terminated` state, if the container has ended.
    pub fn terminated(&self) -> Option<&'a Value> {
        self.0["state"].get("terminated").filter(|ended| ended.is_object())
    }

    /// The `terminated` state of the container's previous instance.
    pub fn last_terminated(&self) -> Option<&'a Value> {
        self.0["lastState"].get("terminated").filter(|ended| ended.is_object())
    }

    /// Exit code of this instance, or of the previous one if this one has not ended.
    pub fn exit_code(&self) -> Option<i64> {
        self.terminated().or(self.last_terminated())?["exitCode"].as_i64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_pod_is_read() {
        let text = r#"{"items": [{"metadata": {"name": "a", "uid": "u"}, "status": {"phase": "Running",
            "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [{"name": "c", "ready": true, "restartCount": 2, "containerID": "containerd://x",
                "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 7}}}]}}]}"#;
        let pods = ListedPod::list(text).unwrap();
        assert_eq!((pods[0].name(), pods[0].uid(), pods[0].is_up()), ("a", "u", true));
        let c = pods[0].container("c").unwrap();
        assert_eq!((c.id(), c.restarts(), c.exit_code(), c.waiting_reason()), ("x", 2, Some(7), ""));
        assert_eq!(pods[0].container("i").unwrap().exit_code(), Some(0));
        assert!(pods[0].container("d").is_err() && ListedPod::list("{}").is_err());
    }
}
