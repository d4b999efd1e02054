//! Certificate signing requests, as an administrator sees them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixture::Kubectl;
use crate::harness::Failure;

/// The signer of client certificates of nodes.
pub const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of serving certificates of nodes.
pub const SERVING: &str = "kubernetes.io/kubelet-serving";

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    pub name: String,
    pub signer: String,
    /// Who made it.
    pub user: String,
    /// It was neither approved nor denied.
    pub waits: bool,
}

/// The requests of the users whose names begin so. Other nodes of the cluster may make requests meanwhile.
pub fn of(kubectl: &Kubectl, user: &str) -> Result<BTreeSet<Request>, Failure> {
    let requests = all(kubectl)?;
    Ok(requests.into_iter().filter(|request| request.user.starts_with(user)).collect())
}

/// All requests.
pub fn all(kubectl: &Kubectl) -> Result<BTreeSet<Request>, Failure> {
    let list = kubectl.get(&["certificatesigningrequests"])?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |item: &Value| Request {
        name: text(&item["metadata"]["name"]),
        signer: text(&item["spec"]["signerName"]),
        user: text(&item["spec"]["username"]),
        waits: item["status"]["conditions"].as_array().is_none_or(Vec::is_empty),
    };
    Ok(list["items"].as_array().into_iter().flatten().map(read).collect())
}

/// Approves the requests of a node's server that wait.
pub fn approve_serving(kubectl: &Kubectl, node: &str) -> Result<usize, Failure> {
    let user = format!("system:node:{node}");
    let mut approved = 0;
    for request in all(kubectl)?.iter().filter(|one| one.waits && one.signer == SERVING && one.user == user) {
        kubectl.run(&["certificate", "approve", &request.name])?;
        approved += 1;
    }
    Ok(approved)
}

/// Deletes requests.
pub fn delete<'r>(kubectl: &Kubectl, requests: impl IntoIterator<Item = &'r Request>) -> Result<(), Failure> {
    for request in requests {
        kubectl.run(&["delete", "certificatesigningrequest", &request.name, "--ignore-not-found"])?;
    }
    Ok(())
}
