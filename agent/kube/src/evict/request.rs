//! The requests, each once.

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::Value;
use tokio::time::timeout;

use super::decide::{self, Way};
use super::record::Killed;
use crate::Connection;
use crate::by_value::Api;
use crate::status::answer::{Answer, of_error};

/// How long a request may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Lets the API server know that a pod was killed. Also returns its error, if there is one.
pub async fn say(connection: &Connection, way: Way, killed: &Killed) -> (Answer, Option<String>) {
    let pods: Api<v1::Pod> = Api::namespaced(connection.client(), &killed.namespace);
    let (name, none) = (&killed.name, PatchParams::default());
    match way {
        Way::Status => {
            let patch = Patch::Strategic(decide::status_patch(killed));
            answer(pods.patch_status(name, &none, &patch)).await
        }
        Way::Delete => {
            let uid = Some(killed.uid.clone());
            let params = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions { uid, ..Preconditions::default() }),
                ..DeleteParams::default()
            };
            answer(pods.delete(name, &params)).await
        }
    }
}

/// Asks for the eviction of a pod, of which `killed` has the names.
pub async fn ask(
    connection: &Connection,
    way: Way,
    pod: &Killed,
    grace: Duration,
) -> (Answer, Option<String>) {
    let pods: Api<v1::Pod> = Api::namespaced(connection.client(), &pod.namespace);
    let body = decide::eviction(way, &pod.name, &pod.namespace, &pod.uid, grace);
    let (name, none) = (&pod.name, PostParams::default());
    answer(pods.create_subresource::<Value, Value>("eviction", name, &none, &body)).await
}

/// The version of the node's kubelet; `Ok(None)` if the node object has none or may not be read.
///
/// # Errors
/// There is no answer.
pub async fn kubelet_version(connection: &Connection) -> Result<Option<String>, String> {
    let nodes: Api<v1::Node> = Api::all(connection.client());
    match timeout(ANSWER, nodes.get(connection.node())).await {
        Ok(Ok(node)) => {
            let info = node.0.status.and_then(|status| status.node_info);
            Ok(info.map(|info| info.kubelet_version).filter(|version| !version.is_empty()))
        }
        Ok(Err(error)) => match of_error(&error) {
            Answer::Away => Err(error.to_string()),
            _ => Ok(None),
        },
        Err(_) => Err("no answer in time".to_owned()),
    }
}

async fn answer<T>(request: impl Future<Output = Result<T, kube::Error>>) -> (Answer, Option<String>) {
    match timeout(ANSWER, request).await {
        Ok(Ok(_)) => (Answer::Written(0), None),
        Ok(Err(error)) => (of_error(&error), Some(error.to_string())),
        Err(_) => (Answer::Away, Some("no answer in time".to_owned())),
    }
}
