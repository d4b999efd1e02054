//! A DaemonSet of agents in mode augment that puts back what was written on every node before it is removed.
//!
//! An agent puts everything back when it ends, but not when it was killed. So the pods are replaced by ones
//! that run `nodewarden undo`, and wait to be removed.

use std::time::{Duration, Instant};

use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::sleep;

/// How often the DaemonSet is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often the update is tried when the API server answers 409: another client updated the DaemonSet in
/// between.
const TRIES: usize = 5;
/// The container that puts back before the pod counts as ready.
const UNDO: &str = "undo";
/// Of a container that does not listen.
const SERVES: [&str; 5] = ["ports", "startupProbe", "livenessProbe", "readinessProbe", "lifecycle"];

/// Why a DaemonSet does not put everything back.
#[derive(Debug, thiserror::Error)]
pub enum StandDownError {
    /// Not the name of an object.
    #[error("{0:?} is no DaemonSet: expected NAMESPACE/NAME")]
    Name(String),
    /// No container of it is an agent.
    #[error("DaemonSet {0} has no container with the arguments `agent …`: is it nodewarden's?")]
    NoAgent(String),
    /// A request failed.
    #[error("{call} DaemonSet {name}: {source}")]
    Request {
        /// What was asked.
        call: &'static str,
        /// The DaemonSet.
        name: String,
        /// The API server's answer, or why there is none.
        source: Box<kube::Error>,
    },
    /// Not every node was done in time.
    #[error(
        "DaemonSet {name}: {ready} of {wanted} nodes have put everything back after {seconds} s; see its pods. On a node \
         that does not come back nothing is left to put back after its next boot"
    )]
    TimedOut {
        /// The DaemonSet.
        name: String,
        /// Nodes that are done.
        ready: u64,
        /// All nodes.
        wanted: u64,
        /// How long was waited.
        seconds: u64,
    },
}

/// How far the nodes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Nodes that are done.
    pub ready: u64,
    /// All nodes.
    pub wanted: u64,
    /// Whether no node is left.
    pub done: bool,
}

/// Replaces the pods of this DaemonSet (`NAMESPACE/NAME`) by ones that put everything back, and waits until
/// every node has done it. `show` gets each change of the progress.
///
/// # Errors
/// It is not there or no DaemonSet of agents; the API server refuses; time is over.
pub async fn stand_down(
    client: &Client,
    name: &str,
    limit: Duration,
    mut show: impl FnMut(Progress),
) -> Result<(), StandDownError> {
    let path = path(name)?;
    let begun = Instant::now();
    change(client, name, &path).await?;
    let mut shown = None;
    loop {
        let now = progress(&ask(client, name, "read", Method::GET, &path, Vec::new()).await?);
        if shown != Some(now) {
            show(now);
            shown = Some(now);
        }
        if now.done {
            return Ok(());
        }
        if begun.elapsed() >= limit {
            let Progress { ready, wanted, .. } = now;
            return Err(StandDownError::TimedOut {
                name: name.into(),
                ready,
                wanted,
                seconds: limit.as_secs(),
            });
        }
        sleep(LOOK).await;
    }
}

async fn change(client: &Client, name: &str, path: &str) -> Result<(), StandDownError> {
    let mut tries = 0;
    loop {
        let mut object = ask(client, name, "read", Method::GET, path, Vec::new()).await?;
        if !put_back(&mut object).ok_or_else(|| StandDownError::NoAgent(name.into()))? {
            return Ok(());
        }
        tries += 1;
        match ask(client, name, "change", Method::PUT, path, object.to_string().into_bytes()).await {
            Err(StandDownError::Request { source, .. }) if is_conflict(&source) && tries < TRIES => {}
            changed => return changed.map(drop),
        }
    }
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

async fn ask(
    client: &Client,
    name: &str,
    call: &'static str,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Value, StandDownError> {
    let fail = |source| StandDownError::Request { call, name: name.to_owned(), source: Box::new(source) };
    let request = Request::builder().method(method).uri(path).header("Content-Type", "application/json");
    let request = request.body(body).map_err(|error| fail(kube::Error::HttpError(error)))?;
    client.request::<Value>(request).await.map_err(fail)
}

/// The path of a DaemonSet at the API server.
fn path(name: &str) -> Result<String, StandDownError> {
    let is_name = |part: &str| {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
        !part.is_empty() && part.chars().all(allowed)
    };
    match name.split_once('/') {
        Some((namespace, own)) if is_name(namespace) && is_name(own) => {
            Ok(format!("/apis/apps/v1/namespaces/{namespace}/daemonsets/{own}"))
        }
        _ => Err(StandDownError::Name(name.into())),
    }
}

/// Has each pod run `nodewarden undo` in a container before all others, and wait in place of the agent. False
/// if it does already; `None` if no container is an agent.
fn put_back(object: &mut Value) -> Option<bool> {
    let spec = object.pointer_mut("/spec/template/spec")?;
    let containers = spec["containers"].as_array_mut()?;
    let runs = |word: &'static str| move |own: &&mut Value| own["args"][0] == word;
    if containers.iter_mut().find(runs(UNDO)).is_some() {
        return Some(false);
    }
    let agent = containers.iter_mut().find(runs("agent"))?;
    let mut arguments = vec![UNDO.to_owned()];
    arguments.extend(configuration(&agent["args"]));
    for field in SERVES {
        agent.as_object_mut()?.remove(field);
    }
    let mut first = agent.clone();
    first["name"] = json!(UNDO);
    first["args"] = json!(arguments);
    arguments.push("--stay".into());
    agent["args"] = json!(arguments);
    let others = spec["initContainers"].as_array().cloned().unwrap_or_default();
    spec["initContainers"] = json!([vec![first], others].concat());
    object["spec"]["updateStrategy"] =
        json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "100%" } });
    Some(true)
}

/// The option that names the configuration file.
fn configuration(arguments: &Value) -> Vec<String> {
    let words: Vec<&str> = arguments.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let at = words.iter().position(|word| word.starts_with("--config"));
    let Some(at) = at else { return Vec::new() };
    let count = if words[at].contains('=') { 1 } else { 2 };
    words[at..].iter().take(count).map(|&word| word.to_owned()).collect()
}

fn progress(object: &Value) -> Progress {
    let of = |path: &str| object.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let (ready, wanted) = (of("/status/numberReady"), of("/status/desiredNumberScheduled"));
    let updated = of("/status/updatedNumberScheduled");
    // What is ready may still be a pod of before.
    let ready = ready.min(updated);
    let seen = object.pointer("/status/observedGeneration").and_then(Value::as_u64);
    let done = seen >= Some(of("/metadata/generation")) && updated == wanted && ready == wanted;
    Progress { ready, wanted, done }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon_set() -> Value {
        json!({
            "metadata": { "generation": 3 },
            "spec": {
                "updateStrategy": { "type": "OnDelete" },
                "template": { "spec": { "containers": [{
                    "name": "nodewarden", "image": "n:1", "command": ["/usr/bin/nodewarden"],
                    "args": ["agent", "--config", "/etc/nodewarden/config.yaml", "--hostname-override", "$(NODE_NAME)"],
                    "volumeMounts": [{ "name": "state", "mountPath": "/var/lib/nodewarden" }],
                    "readinessProbe": {}, "livenessProbe": {}, "startupProbe": {}, "ports": [{}],
                }] } },
            },
        })
    }

    #[test]
    fn its_pods_put_back_and_wait() {
        let mut object = daemon_set();
        assert_eq!(put_back(&mut object), Some(true));
        let spec = &object["spec"]["template"]["spec"];
        let (first, agent) = (&spec["initContainers"][0], &spec["containers"][0]);
        let config = "/etc/nodewarden/config.yaml";
        assert_eq!(first["args"], json!(["undo", "--config", config]));
        assert_eq!(agent["args"], json!(["undo", "--config", config, "--stay"]));
        assert_eq!((&first["name"], &first["image"]), (&json!("undo"), &json!("n:1")));
        assert_eq!(first["volumeMounts"], agent["volumeMounts"]);
        for field in SERVES {
            assert!(first.get(field).is_none() && agent.get(field).is_none(), "{field}");
        }
        assert_eq!(object["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"], "100%");
        assert_eq!(put_back(&mut object), Some(false), "it does already");
        assert_eq!(
            put_back(&mut json!({ "spec": { "template": { "spec": { "containers": [{}] } } } })),
            None
        );
        let mut other = daemon_set();
        other["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["agent", "--config=/c"]);
        put_back(&mut other);
        assert_eq!(
            other["spec"]["template"]["spec"]["initContainers"][0]["args"],
            json!(["undo", "--config=/c"])
        );
    }

    #[test]
    fn it_is_done_when_every_node_has_a_new_pod_that_is_ready() {
        let of = |observed: u64, wanted: u64, updated: u64, ready: u64| {
            let mut object = daemon_set();
            object["status"] = json!({
                "observedGeneration": observed, "desiredNumberScheduled": wanted,
                "updatedNumberScheduled": updated, "numberReady": ready,
            });
            progress(&object)
        };
        assert!(!of(2, 3, 3, 3).done, "the change was not seen yet");
        assert_eq!(of(3, 3, 1, 3), Progress { ready: 1, wanted: 3, done: false });
        assert!(!of(3, 3, 3, 2).done);
        assert!(of(3, 3, 3, 3).done && of(4, 0, 0, 0).done);
        assert!(!progress(&daemon_set()).done, "there is no status yet");
    }

    #[test]
    fn only_names_of_objects_are_in_the_path() {
        assert_eq!(path("a/b-1.c").unwrap(), "/apis/apps/v1/namespaces/a/daemonsets/b-1.c");
        for name in ["a", "a/", "/b", "a/b/c", "a/..%2f", "A/b"] {
            assert!(path(name).is_err(), "{name}");
        }
    }
}
