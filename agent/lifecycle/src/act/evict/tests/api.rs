//! Pods of the API server.

use std::sync::Arc;

use super::*;
use nodewarden_model::{EvictionCause, PodReason, PodView};
use nodewarden_pods::source::Over;

async fn api_node(policy: &str, runtime: Fake) -> Node {
    let node =
        Node::start_from("api:n/p", spec(policy), ContainerRecord::default(), runtime, Script::default())
            .await;
    until("it was looked at", || node.shown().is_some()).await;
    node
}

fn end(node: &Node, grace_seconds: u64) {
    let ending = Ending { since: at(0), grace_seconds, why: "deleted".into() };
    node.orders.send(Order::End(ending)).unwrap();
}

fn ended(node: &Node) -> Option<Arc<PodView>> {
    node.pod().filter(|pod| pod.ended)
}

#[tokio::test]
async fn a_deleted_pod_is_shown_as_ended_until_the_api_server_no_longer_has_it() {
    let mut node = api_node("Always", Fake::new(1)).await;
    end(&node, 0);
    until("it has ended", || ended(&node).is_some()).await;
    let shown = ended(&node).unwrap();
    assert_eq!((shown.phase, shown.reason.to_string().as_str()), (PodPhase::Failed, ""));
    assert!(shown.sandbox_id.is_empty());
    assert!(matches!(&shown.containers[0].state, ContainerState::Terminated(end) if end.exit_code == 137));
    assert!(matches!(node.reports.recv().await, Some(Report::Evicted { .. })));
    node.state.saved().await;
    // The next agent does not know that it had ended, and finds out.
    let mut node = node.killed().await;
    until("it has ended", || ended(&node).is_some()).await;
    assert_eq!(ended(&node).unwrap().containers, shown.containers);
    assert!(matches!(node.reports.recv().await, Some(Report::Evicted { .. })));
    node.orders.send(Order::Forget).unwrap();
    assert!(matches!(node.reports.recv().await, Some(Report::Gone { uid }) if uid == "u"));
    assert!(node.pod().is_none());
    assert_eq!(std::fs::read_dir(node.dir().join("records")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_pod_that_was_deleted_by_force_is_forgotten_when_it_has_ended() {
    let mut node = api_node("Always", Fake::new(1)).await;
    end(&node, 0);
    node.orders.send(Order::Forget).unwrap();
    assert!(matches!(node.reports.recv().await, Some(Report::Gone { uid }) if uid == "u"));
    assert_eq!(node.runtime.calls()[0], "stop c0 0");
}

#[tokio::test]
async fn a_pod_that_succeeded_is_deleted_as_succeeded() {
    let runtime = Fake::new(1);
    let node = api_node("Never", runtime.clone()).await;
    runtime.exit(0);
    node.orders.send(Order::Look).unwrap();
    until("it has succeeded", || node.pod().is_some_and(|pod| pod.phase == PodPhase::Succeeded)).await;
    end(&node, 0);
    until("it has ended", || ended(&node).is_some()).await;
    assert_eq!(ended(&node).unwrap().phase, PodPhase::Succeeded);
}

#[tokio::test]
async fn an_evicted_pod_stays_failed() {
    let node = api_node("Always", Fake::new(1)).await;
    evict(&node, Some(0), Some(NodeCondition::MemoryPressure));
    until("it has failed", || has_failed(&node)).await;
    past_the_back_off().await;
    assert!(has_failed(&node) && !is_back(&node));
    end(&node, 0);
    until("it has ended", || ended(&node).is_some()).await;
    let shown = ended(&node).unwrap();
    assert_eq!((shown.phase, shown.reason.to_string().as_str()), (PodPhase::Failed, "Evicted"));
    assert_eq!(shown.evicted, Some(EvictionCause::NodePressure));
}

#[tokio::test]
async fn a_rejected_pod_has_failed_and_never_starts() {
    let node = api_node("Always", Fake::new(1)).await;
    crate::act::evict::reject(&node.state, &PodReason::OutOf("cpu".into()), "too little");
    node.orders.send(Order::Look).unwrap();
    until("it has failed", || has_failed(&node)).await;
    let shown = node.pod().unwrap();
    assert_eq!(
        (shown.reason.to_string().as_str(), shown.message.as_str()),
        ("OutOfcpu", "Pod was rejected: too little")
    );
    assert_eq!(shown.evicted, Some(EvictionCause::Other));
    past_the_back_off().await;
    assert!(has_failed(&node) && !is_back(&node));
}

#[tokio::test]
async fn a_pod_that_the_api_server_has_as_failed_ends() {
    let over = |phase| Over { phase, reason: "NodeLost".into(), message: "gone".into() };
    let runtime = Fake::new(1);
    let node = api_node("Always", runtime.clone()).await;
    node.orders.send(Order::Over(over(PodPhase::Failed))).unwrap();
    until("it has failed", || has_failed(&node)).await;
    let shown = node.pod().unwrap();
    assert_eq!((shown.reason.to_string().as_str(), shown.message.as_str()), ("NodeLost", "gone"));
    // One that has succeeded stays as it is, its containers too.
    let runtime = Fake::new(1);
    let node = api_node("Never", runtime.clone()).await;
    runtime.exit(0);
    node.orders.send(Order::Over(over(PodPhase::Succeeded))).unwrap();
    until("it has succeeded", || node.pod().is_some_and(|pod| pod.phase == PodPhase::Succeeded)).await;
    past_the_back_off().await;
    let shown = node.pod().unwrap();
    assert_eq!((shown.reason.to_string().as_str(), shown.containers[0].id.as_str()), ("", "c0"));
}
