//! What the API showed of every pod, and what of it must not be: a status that goes backwards.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// What is remembered of a pod.
#[derive(Debug, Default)]
struct Shown {
    name: String,
    phase: String,
    start: Option<String>,
    /// Restarts by container.
    restarts: BTreeMap<String, u64>,
    /// Ids of containers that were shown as terminated.
    ended: BTreeSet<String>,
    /// Whether it was ready, and with which containers.
    ready: Option<Vec<String>>,
    /// With which containers it was ready before it was not, and what was shown then.
    lost: Option<(Vec<String>, Value)>,
    /// The same of one that was ready again with the same containers.
    flipped: Option<Value>,
    /// Whether its probes fail at random.
    is_probed: bool,
}

/// Everything that was shown so far.
#[derive(Debug, Default)]
pub struct History {
    pods: BTreeMap<String, Shown>,
    violations: Vec<String>,
    /// How many changes were read.
    pub changes: u64,
    /// How often the node controller has set a pod to not ready, since it took the node for gone.
    pub of_node_controller: u64,
}

impl History {
    /// Takes over one change of a watch.
    pub fn take(&mut self, kind: &str, pod: &Value) {
        self.changes += 1;
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        let uid = text("/metadata/uid").unwrap_or_default().to_owned();
        let shown = self.pods.entry(uid).or_default();
        shown.name = text("/metadata/name").unwrap_or_default().to_owned();
        shown.is_probed = pod.pointer("/spec/containers/0/readinessProbe").is_some();
        // The last state of a deleted pod may be that of a forced deletion.
        if kind == "DELETED" {
            return;
        }
        let mut found = shown.phase(text("/status/phase").unwrap_or_default());
        found.extend(shown.start(text("/status/startTime")));
        let statuses = pod["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
        found.extend(statuses.iter().flat_map(|status| shown.container(status)));
        let ends = text("/metadata/deletionTimestamp").is_some();
        self.of_node_controller += u64::from(shown.ready(pod, statuses, ends));
        let name = shown.name.clone();
        self.violations.extend(found.into_iter().map(|text| format!("pod {name}: {text}")));
    }

    /// What was shown and must not be. Each is returned once. To be called when nothing changes: what is not
    /// ready may be about to end.
    pub fn violations(&mut self) -> Vec<String> {
        let mut found = std::mem::take(&mut self.violations);
        for shown in self.pods.values_mut() {
            let flipped = shown.flipped.take();
            found.extend(flipped.map(|status| {
                format!("pod {}: not ready without a cause, and ready again: {status}", shown.name)
            }));
        }
        found
    }

    /// How many pods there were.
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// The restarts of each container by uid of its pod, and the pod's name.
    pub fn restarted(&self) -> impl Iterator<Item = (&str, &str, &str, u64)> {
        self.pods.iter().flat_map(|(uid, shown)| {
            let restarts = shown.restarts.iter().filter(|(_, count)| **count > 0);
            restarts.map(|(container, count)| (uid.as_str(), shown.name.as_str(), container.as_str(), *count))
        })
    }
}

impl Shown {
    fn phase(&mut self, now: &str) -> Vec<String> {
        let rank = |phase: &str| match phase {
            "Pending" => 1,
            "Running" => 2,
            "Succeeded" | "Failed" => 3,
            _ => 0,
        };
        let before = std::mem::replace(&mut self.phase, now.to_owned());
        let is_backwards = rank(now) < rank(&before) || (rank(&before) == 3 && now != before);
        if is_backwards { vec![format!("phase {now} after {before}")] } else { Vec::new() }
    }

    fn start(&mut self, now: Option<&str>) -> Option<String> {
        let before = self.start.clone();
        if let Some(now) = now {
            self.start = Some(now.to_owned());
        }
        let before = before?;
        (now != Some(before.as_str())).then(|| format!("startTime {now:?} after {before}"))
    }

    fn container(&mut self, status: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let name = status["name"].as_str().unwrap_or_default().to_owned();
        let restarts = status["restartCount"].as_u64().unwrap_or(0);
        let before = self.restarts.insert(name.clone(), restarts).unwrap_or(0);
        if restarts < before {
            found.push(format!("container {name} has {restarts} restarts after {before}"));
        }
        for state in ["state", "lastState"] {
            let ended = status[state]["terminated"]["containerID"].as_str().unwrap_or_default();
            if !ended.is_empty() {
                self.ended.insert(ended.to_owned());
            }
        }
        let id = status["containerID"].as_str().unwrap_or_default();
        if status["state"]["running"].is_object() && self.ended.contains(id) {
            found.push(format!("container {name} runs with the id {id}, which has ended"));
        }
        found
    }

    /// A pod without failing probes that was ready stays ready, unless it ends or its containers end: a
    /// container whose process has ended is unready a moment before the runtime says that it has ended. (A
    /// runtime that takes very long has it ready again until then.) Returns whether the node controller has
    /// set it to not ready: a node's agent changes ContainersReady with it.
    fn ready(&mut self, pod: &Value, statuses: &[Value], ends: bool) -> bool {
        let conditions = pod["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is = |kind: &str| conditions.iter().any(|one| one["type"] == kind && one["status"] == "True");
        let is_ready = is("Ready");
        if !is_ready && is("ContainersReady") && self.ready.is_some() {
            // It counts as ready until the agent says something else.
            return true;
        }
        let ids: Vec<String> =
            statuses.iter().filter_map(|one| one["containerID"].as_str().map(str::to_owned)).collect();
        let before = std::mem::replace(&mut self.ready, is_ready.then(|| ids.clone()));
        if ends || self.is_probed {
            self.lost = None;
        } else if statuses.iter().any(|one| one["state"]["terminated"].is_object()) {
            (self.lost, self.flipped) = (None, None);
        } else if !is_ready {
            self.lost = before.map(|before| (before, pod["status"].clone())).or(self.lost.take());
        } else if let Some((_, shown)) = self.lost.take().filter(|(before, _)| *before == ids) {
            self.flipped = Some(shown);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(phase: &str, restarts: u64, state: Value, ready: &str) -> Value {
        json!({
            "metadata": { "name": "p", "uid": "u" },
            "status": {
                "phase": phase, "startTime": "t",
                "conditions": [{ "type": "Ready", "status": ready }],
                "containerStatuses": [{ "name": "c", "restartCount": restarts, "containerID": "x", "state": state }],
            },
        })
    }

    fn found(changes: &[Value]) -> Vec<String> {
        let mut history = History::default();
        changes.iter().for_each(|change| history.take("MODIFIED", change));
        history.violations()
    }

    #[test]
    fn what_goes_backwards_is_found() {
        let running = || json!({ "running": {} });
        let ended = || json!({ "terminated": { "containerID": "x" } });
        let up = || pod("Running", 0, running(), "True");
        assert!(
            found(&[pod("Pending", 0, json!({}), "False"), up(), pod("Failed", 0, ended(), "False")])
                .is_empty()
        );
        for wrong in [
            [up(), pod("Pending", 0, running(), "True")],
            [pod("Failed", 0, ended(), "False"), pod("Succeeded", 0, ended(), "False")],
            [pod("Running", 2, running(), "True"), up()],
            [pod("Running", 0, ended(), "False"), up()],
        ] {
            assert_eq!(found(&wrong).len(), 1, "{wrong:?}");
        }
        let unready = || pod("Running", 0, running(), "False");
        let over = || pod("Failed", 0, ended(), "False");
        assert_eq!(found(&[up(), unready(), unready(), up()]).len(), 1);
        assert!(found(&[up(), unready(), up(), over()]).is_empty());
        assert!(found(&[up(), unready(), pod("Running", 0, ended(), "False")]).is_empty());
        let mut of_controller = unready();
        of_controller["status"]["conditions"] = json!([
            { "type": "Ready", "status": "False" }, { "type": "ContainersReady", "status": "True" },
        ]);
        let mut history = History::default();
        [up(), of_controller.clone(), of_controller, up()]
            .iter()
            .for_each(|change| history.take("MODIFIED", change));
        assert_eq!((history.violations().len(), history.of_node_controller), (0, 2));
        let mut late = up();
        late["status"]["startTime"] = "later".into();
        assert_eq!(found(&[up(), late]).len(), 1);
        let mut ends = pod("Running", 0, running(), "False");
        ends["metadata"]["deletionTimestamp"] = "t".into();
        assert!(found(&[up(), ends]).is_empty());
    }
}
