mod api;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::act::probing::tests::node::{BACK_OFF, Node, Script, until};
use crate::act::probing::tests::runtime::Fake;
use crate::fixture::at;
use crate::orders::{Order, Report};
use crate::record::{ContainerRecord, Ending};
use nodewarden_eviction::Eviction;
use nodewarden_eviction::{NodeCondition, Pressure};
use nodewarden_model::{ContainerState, PodPhase};

fn spec(policy: &str) -> Value {
    json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 30,
           "containers": [{"name": "c", "image": "i"}]})
}

async fn node(spec: Value, runtime: Fake) -> Node {
    let node = Node::start(spec, ContainerRecord::default(), runtime, Script::default()).await;
    until("it was looked at", || node.shown().is_some()).await;
    node
}

fn evict(node: &Node, grace: Option<u64>, condition: Option<NodeCondition>) {
    let (reason, message) = ("Evicted".into(), "The node was low on resource: memory.".into());
    let eviction =
        Eviction { reason, message, grace: grace.map(Duration::from_secs), condition, killed: false };
    node.orders.send(Order::Evict(eviction)).unwrap();
}

fn has_failed(node: &Node) -> bool {
    node.pod().is_some_and(|pod| pod.phase == PodPhase::Failed)
}

fn is_back(node: &Node) -> bool {
    node.runtime.calls().iter().any(|call| call.starts_with("run"))
}

/// It would be back by now.
async fn past_the_back_off() {
    tokio::time::sleep(BACK_OFF * 2).await;
}

fn press(node: &Node, pressed: bool) {
    let conditions = pressed.then(|| (NodeCondition::MemoryPressure, at(0)));
    node.pressure.send_replace(Pressure(conditions.into_iter().collect::<BTreeMap<_, _>>()));
}

#[tokio::test]
async fn an_evicted_pod_ends_at_once_is_shown_as_failed_and_starts_again() {
    let mut known = ContainerRecord { restarts: 0, failures: 3, ..ContainerRecord::default() };
    known.stopped = "other".into();
    let node = Node::start(spec("Always"), known, Fake::new(1), Script::default()).await;
    until("it was looked at", || node.shown().is_some()).await;
    let begun = Instant::now();
    evict(&node, Some(0), None);
    until("it has failed", || has_failed(&node)).await;
    let shown = node.pod().unwrap();
    assert_eq!((shown.reason.to_string().as_str(), shown.terminating), ("Evicted", None));
    assert_eq!(shown.message, "The node was low on resource: memory.");
    let ContainerState::Terminated(ended) = &shown.containers[0].state else { panic!("{shown:?}") };
    assert_eq!((ended.id.as_str(), ended.exit_code), ("c0", 137));
    node.state.saved().await;
    assert!(node.record().evicted().is_some_and(|evicted| evicted.gone.is_some()));
    assert_eq!(node.saved().failures, 4);
    until("it is back", || is_back(&node)).await;
    assert!(begun.elapsed() >= BACK_OFF);
    assert_eq!(node.runtime.calls(), ["stop c0 0", "run s0"]);
    let shown = node.pod().unwrap();
    assert_eq!((shown.phase, shown.reason.to_string().as_str() == "Evicted"), (PodPhase::Pending, false));
    assert_ne!(shown.started, at(0), "another life");
    // What was made is that of a pod that is back, also for the next agent.
    let record = node.record();
    assert!(!record.is_leaving() && record.eviction.is_some_and(|evicted| evicted.times == 1));
    assert_eq!(record.containers.get("c").map_or(0, |own| own.failures), 0);
}

#[tokio::test]
async fn a_shorter_grace_cuts_a_longer_wait_short() {
    let runtime = Fake::new(0);
    let node = node(spec("Always"), runtime.clone()).await;
    evict(&node, None, None);
    until("the runtime is asked to stop it", || runtime.calls().len() == 1).await;
    let shown = node.pod().unwrap();
    assert_eq!((shown.phase, shown.reason.to_string().as_str()), (PodPhase::Running, "Evicted"));
    assert!(shown.terminating.is_some());
    evict(&node, Some(60), None);
    evict(&node, Some(0), None);
    until("the runtime is asked to stop it at once", || runtime.calls().len() == 2).await;
    assert_eq!(runtime.calls(), ["stop c0 30", "stop c0 0"]);
    // One for the call that was given up, should the runtime not have noticed.
    runtime.let_end();
    runtime.let_end();
    until("it has failed", || has_failed(&node)).await;
}

#[tokio::test]
async fn hooks_run_while_there_is_time() {
    let mut spec = spec("Always");
    spec["containers"][0]["lifecycle"] = json!({"preStop": {"exec": {"command": ["sleep", "60"]}}});
    let runtime = Fake::new(1);
    let waits = node(spec.clone(), runtime.clone()).await;
    evict(&waits, None, None);
    until("its hook runs", || runtime.calls() == ["exec c0"]).await;
    evict(&waits, Some(1), None);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(runtime.calls(), ["exec c0"], "there is still time");
    until("its hook is cut short", || has_failed(&waits)).await;
    assert_eq!(runtime.calls()[..2], ["exec c0", "stop c0 0"]);
    let runtime = Fake::new(1);
    let node = node(spec, runtime.clone()).await;
    evict(&node, Some(0), None);
    until("it has failed", || has_failed(&node)).await;
    assert_eq!(runtime.calls()[0], "stop c0 0");
}

#[tokio::test]
async fn an_evicted_pod_does_not_restart_while_the_pressure_lasts() {
    let node = node(spec("Always"), Fake::new(1)).await;
    press(&node, true);
    evict(&node, Some(0), Some(NodeCondition::MemoryPressure));
    until("it has failed", || has_failed(&node)).await;
    past_the_back_off().await;
    assert!(has_failed(&node) && !is_back(&node));
    // News of the runtime change nothing.
    node.orders.send(Order::Look).unwrap();
    past_the_back_off().await;
    assert!(has_failed(&node) && !is_back(&node));
    press(&node, false);
    until("it is back", || is_back(&node)).await;
}

#[tokio::test]
async fn an_evicted_pod_without_a_manifest_is_removed() {
    let mut node = node(spec("Always"), Fake::new(1)).await;
    press(&node, true);
    evict(&node, Some(0), Some(NodeCondition::MemoryPressure));
    until("it has failed", || has_failed(&node)).await;
    let ending = Ending { since: at(0), grace_seconds: 0, why: "its manifest is gone".into() };
    node.orders.send(Order::End(ending)).unwrap();
    assert!(matches!(node.reports.recv().await, Some(Report::Evicted { uid }) if uid == "u"));
    assert!(matches!(node.reports.recv().await, Some(Report::Gone { uid }) if uid == "u"));
    assert!(node.pod().is_none() && !is_back(&node));
    assert_eq!(std::fs::read_dir(node.dir().join("records")).unwrap().count(), 0);
}

#[tokio::test]
async fn the_next_agent_continues_an_eviction_from_any_point() {
    let runtime = Fake::new(0);
    let node = node(spec("Always"), runtime.clone()).await;
    evict(&node, Some(20), Some(NodeCondition::MemoryPressure));
    until("the runtime is asked to stop it", || runtime.calls().len() == 1).await;
    let node = node.killed().await;
    assert_eq!(node.pod().unwrap().reason.to_string(), "Evicted");
    until("the runtime is asked to stop it again", || runtime.calls().len() == 2).await;
    assert!(matches!(runtime.calls()[1].as_str(), "stop c0 20" | "stop c0 19"), "{:?}", runtime.calls());
    press(&node, true);
    runtime.let_end();
    runtime.let_end();
    until("it has failed", || has_failed(&node)).await;
    node.state.saved().await;
    let node = node.killed().await;
    press(&node, true);
    assert!(has_failed(&node));
    let shown = node.pod().unwrap();
    assert_eq!((shown.reason.to_string().as_str(), shown.message.is_empty()), ("Evicted", false));
    assert!(
        matches!(&shown.containers[0].state, ContainerState::Terminated(ended) if ended.exit_code == 137)
    );
    past_the_back_off().await;
    assert!(has_failed(&node) && !is_back(&node));
    press(&node, false);
    until("it is back", || is_back(&node)).await;
    assert_eq!(runtime.calls().last().unwrap(), "run s0");
}

#[tokio::test]
async fn a_pod_that_had_succeeded_before_its_eviction_does_not_restart() {
    let runtime = Fake::new(1);
    let node = node(spec("Never"), runtime.clone()).await;
    // The runtime was not asked since.
    runtime.exit(0);
    evict(&node, Some(0), None);
    until("it is gone", || {
        node.pod().is_some_and(|pod| pod.phase == PodPhase::Succeeded && pod.sandbox_id.is_empty())
    })
    .await;
    past_the_back_off().await;
    assert_eq!(runtime.calls(), Vec::<String>::new());
    // What it was stopped at is.
    let runtime = Fake::new(1);
    let stopped = self::node(spec("Never"), runtime.clone()).await;
    evict(&stopped, Some(0), None);
    until("it is back", || is_back(&stopped)).await;
}

/// It would unmount and remove what the pod has there.
#[tokio::test]
async fn a_pod_starts_again_once_no_removal_of_its_directory_is_under_way() {
    let node = node(spec("Always"), Fake::new(1)).await;
    let removal = node.state.env.set_aside.removal_that_hangs("u");
    evict(&node, Some(0), None);
    until("it has failed", || has_failed(&node)).await;
    past_the_back_off().await;
    tokio::time::sleep(BACK_OFF).await;
    assert!(!is_back(&node));
    drop(removal);
    until("it is back", || is_back(&node)).await;
}

/// Other pods have all the permits to start when its back-off is over.
#[tokio::test]
async fn one_that_is_to_start_again_waits_for_a_permit() {
    let node = node(spec("Always"), Fake::new(1)).await;
    let permit = node.state.env.starts.clone().try_acquire_owned().unwrap();
    evict(&node, Some(0), None);
    until("it has failed", || has_failed(&node)).await;
    past_the_back_off().await;
    assert!(!is_back(&node));
    drop(permit);
    until("it is back", || is_back(&node)).await;
}

#[tokio::test]
async fn one_that_waits_for_a_permit_can_be_ended() {
    let mut node = node(spec("Always"), Fake::new(1)).await;
    let _permit = node.state.env.starts.clone().try_acquire_owned().unwrap();
    evict(&node, Some(0), None);
    until("it has failed", || has_failed(&node)).await;
    past_the_back_off().await;
    let ending = Ending { since: at(0), grace_seconds: 0, why: "removed".into() };
    node.orders.send(Order::End(ending)).unwrap();
    while !matches!(node.reports.recv().await.unwrap(), Report::Gone { .. }) {}
    assert!(!is_back(&node));
}
