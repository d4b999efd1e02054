//! Follows the node object at the API server.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use nodewarden_model::backoff::Backoff;
use tokio::sync::watch::Sender;
use tracing::debug;

use crate::Connection;
use crate::objects::follow::{Selection, Then, Update, follow as follow_objects};

/// How long to wait after an error: a node that is not registered yet is, soon after the API server is there
/// again.
const AGAIN: Backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(4));

/// What is known of the node object.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Seen {
    /// Nothing yet.
    #[default]
    Unknown,
    /// There is none.
    Missing,
    /// It is this.
    Node(Arc<Node>),
}

/// Writes into `to` what the node object is, without end. What fails is tried again, with newer credentials
/// at once.
pub async fn follow(mut connection: Connection, to: &Sender<Seen>) {
    let node = Selection { path: "/api/v1/nodes".to_owned(), name: Some(connection.node().to_owned()) };
    loop {
        connection.identified().await;
        let own = connection.clone();
        tokio::select! {
            () = follow_objects(&own, &node, AGAIN, |update| take(update, to)) => {}
            () = connection.renewed() => {}
        }
    }
}

fn take(update: Update<Node>, to: &Sender<Seen>) -> Then {
    let seen = match update {
        Update::All(nodes) => nodes.into_iter().next().map_or(Seen::Missing, seen),
        Update::Set(node) => seen(node),
        Update::Removed(_) => Seen::Missing,
        Update::Failed(reason) => {
            debug!("watching the node object: {reason}");
            return Then::GoOn;
        }
    };
    to.send_replace(seen);
    Then::GoOn
}

fn seen(mut node: Node) -> Seen {
    node.metadata.managed_fields = None;
    Seen::Node(node.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(version: &str) -> Node {
        let meta = json!({"name": "n", "resourceVersion": version, "managedFields": [{"manager": "m"}]});
        serde_json::from_value(json!({"metadata": meta})).unwrap()
    }

    #[test]
    fn what_is_known_of_the_node() {
        let (to, now) = tokio::sync::watch::channel(Seen::Unknown);
        let version = || match &*now.borrow() {
            Seen::Unknown => "unknown".to_owned(),
            Seen::Missing => "missing".to_owned(),
            Seen::Node(node) => {
                assert_eq!(node.metadata.managed_fields, None);
                node.metadata.resource_version.clone().unwrap()
            }
        };
        for (update, expected) in [
            (Update::Failed("no answer".into()), "unknown"),
            (Update::All(Vec::new()), "missing"),
            (Update::Set(node("1")), "1"),
            (Update::Failed("no answer".into()), "1"),
            (Update::All(vec![node("3")]), "3"),
            (Update::Removed(node("4")), "missing"),
        ] {
            let text = format!("{update:?}");
            assert_eq!(take(update, &to), Then::GoOn);
            assert_eq!(version(), expected, "after {text}");
        }
    }
}
