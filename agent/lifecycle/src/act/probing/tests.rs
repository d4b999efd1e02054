//! Workers with probes, on a runtime and with a prober of our own.

pub mod node;
pub mod runtime;

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::sink::Sink;
use node::{FIRST_ADDRESS, Node, Script, saved, until};
use runtime::Fake;
use serde_json::{Value, json};

use crate::fixture::{at, memory};
use crate::orders::{Order, Report};
use crate::record::{ContainerRecord, Ending, ProbeRecord};
use crate::set_aside::tests::Immutable;
use nodewarden_manifest::ProbeKind;
use nodewarden_manifest::ProbeKind::{Liveness, Readiness};
use nodewarden_model::Outcome::{Failure, Success};
use nodewarden_model::Verdict;
use nodewarden_model::{ContainerState, PodPhase};
use nodewarden_pods::probes::{Change, ProbeSink};

/// Of every probe here.
const PERIOD: Duration = Duration::from_secs(1);

/// Container `c` with these probes, changed by the first result.
fn spec(policy: &str, kinds: &[ProbeKind]) -> Value {
    let mut container = json!({"name": "c", "image": "i"});
    for kind in kinds {
        container[kind.field()] =
            json!({"exec": {"command": ["true"]}, "periodSeconds": PERIOD.as_secs(), "failureThreshold": 1});
    }
    json!({"restartPolicy": policy, "terminationGracePeriodSeconds": 30, "containers": [container]})
}

/// What an agent knew of container `c0`.
fn known(results: &[(ProbeKind, Verdict)]) -> ContainerRecord {
    let probes = ProbeRecord { memory: memory("c0", results), ended: String::new() };
    ContainerRecord { probes: Some(Box::new(probes)), ..ContainerRecord::default() }
}

fn kernel_saw_it_end(node: &Node) {
    node.orders.send(Order::Exited { container: "c0".into(), sure: true }).unwrap();
}

#[tokio::test]
async fn a_failed_liveness_probe_ends_the_container_when_that_is_on_disk() {
    let mut spec = spec("Never", &[Liveness]);
    spec["containers"][0]["livenessProbe"]["terminationGracePeriodSeconds"] = json!(40);
    let script = Script::default();
    script.answer(Liveness, Failure);
    let runtime = Fake::new(1);
    let node = Node::start(spec, ContainerRecord::default(), runtime.clone(), script).await;
    let found = Arc::new(Mutex::new(None));
    let (dir, seen) = (node.dir(), found.clone());
    runtime.on_stop(move || *seen.lock() = Some(saved(dir.clone())));
    until("the pod has failed", || {
        node.state.env.status.pods().iter().any(|pod| pod.phase == PodPhase::Failed)
    })
    .await;
    // More than the pod's.
    assert_eq!(runtime.calls(), ["stop c0 40"]);
    let found = found.lock().take().unwrap();
    assert!(found.ended_by_probe("c0"));
    assert_eq!(found.memory("c0").unwrap().liveness.result, Some(Verdict::Failure));
    let ContainerState::Terminated(ended) = node.shown().unwrap().state else { panic!("{:?}", node.shown()) };
    assert_eq!((ended.exit_code, ended.reason.to_string().as_str()), (137, "Error"));
    node.state.saved().await;
    assert_eq!(node.saved().failures, 1);
    assert!(node.state.read().probing.is_none());
}

#[tokio::test]
async fn a_pod_with_a_network_of_its_own_is_probed_at_its_own_address() {
    let script = Script::default();
    script.answer(Readiness, Success);
    let spec = spec("Always", &[Readiness]);
    let node = Node::start(spec, ContainerRecord::default(), Fake::new(1), script).await;
    until("it is probed", || node.script.runs(Readiness) > 0).await;
    assert_eq!(node.script.address(), "10.0.0.7".parse().ok());
}

#[tokio::test]
async fn a_pod_on_the_nodes_network_is_probed_at_the_address_that_the_node_has_now() {
    let script = Script::default();
    script.answer(Readiness, Success);
    let mut spec = spec("Always", &[Readiness]);
    spec["hostNetwork"] = json!(true);
    let node = Node::start(spec, ContainerRecord::default(), Fake::new(1), script).await;
    until("it is probed", || node.script.runs(Readiness) > 0).await;
    assert_eq!(node.script.address(), Some(FIRST_ADDRESS));
    until("its address is shown", || node.pod().is_some_and(|pod| pod.ips == [FIRST_ADDRESS])).await;

    // DHCP gives the node another one.
    let now = "198.51.100.9".parse().unwrap();
    node.addresses.send(vec![now]).unwrap();
    node.orders.send(Order::Look).unwrap();
    until("it is probed there", || node.script.address() == Some(now)).await;
    until("its new address is shown", || node.pod().is_some_and(|pod| pod.ips == [now])).await;
    assert!(node.is_ready(), "what the probes found is not forgotten");
}

#[tokio::test]
async fn the_next_agent_ends_what_an_earlier_one_began_to_end() {
    let mut known = known(&[(Liveness, Verdict::Failure)]);
    known.probes.as_mut().unwrap().ended = "c0".into();
    let runtime = Fake::new(1);
    let node = Node::start(spec("Never", &[Liveness]), known, runtime.clone(), Script::default()).await;
    until("it has ended", || node.shown().is_some_and(|c| matches!(c.state, ContainerState::Terminated(_))))
        .await;
    assert_eq!(runtime.calls(), ["stop c0 30"]);
    assert_eq!(node.script.runs(Liveness), 0);
    node.state.saved().await;
    assert_eq!(node.saved().failures, 1);
}

#[tokio::test]
async fn a_container_that_ended_by_itself_is_not_ended_for_its_probe() {
    let script = Script::default();
    script.answer(Liveness, Failure);
    let runtime = Fake::new(1);
    let exits = runtime.clone();
    script.on_run(move || exits.exit(0));
    let node =
        Node::start(spec("OnFailure", &[Liveness]), ContainerRecord::default(), runtime.clone(), script)
            .await;
    until("the pod has succeeded", || {
        node.state.env.status.pods().iter().any(|pod| pod.phase == PodPhase::Succeeded)
    })
    .await;
    assert_eq!(runtime.calls(), Vec::<String>::new());
    node.state.saved().await;
    assert!(!node.saved().ended_by_probe("c0"));
}

#[tokio::test]
async fn a_container_that_ends_between_the_decision_and_its_end_is_left_alone() {
    let runtime = Fake::new(1);
    // The first look leads to the decision, the second one to nothing.
    runtime.exit_at(2);
    let known = known(&[(Liveness, Verdict::Failure)]);
    let node = Node::start(spec("OnFailure", &[Liveness]), known, runtime.clone(), Script::default()).await;
    until("the pod has succeeded", || {
        node.state.env.status.pods().iter().any(|pod| pod.phase == PodPhase::Succeeded)
    })
    .await;
    assert_eq!(runtime.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_change_of_readiness_is_on_disk_before_it_is_shown() {
    let script = Script::default();
    script.answer(Readiness, Success);
    let node =
        Node::start(spec("Always", &[Readiness]), ContainerRecord::default(), Fake::new(1), script).await;
    let result = |node: &Node| node.saved().memory("c0").and_then(|memory| memory.readiness.result);
    until("it is ready", || node.is_ready()).await;
    assert_eq!(result(&node), Some(Verdict::Success));
    node.script.answer(Readiness, Failure);
    until("it is not ready", || !node.is_ready()).await;
    assert_eq!(result(&node), Some(Verdict::Failure));
    assert!(node.shown().is_some_and(|container| container.started));
    assert_eq!(node.runtime.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn the_last_result_is_kept_across_a_restart_of_the_agent() {
    // Not one answer from the application.
    let node = Node::start(
        spec("Always", &[Readiness]),
        known(&[(Readiness, Verdict::Success)]),
        Fake::new(1),
        Script::default(),
    )
    .await;
    let unready = Arc::new(AtomicU32::new(0));
    let seen = unready.clone();
    until("it was probed", || {
        if let Some(container) = node.shown() {
            seen.fetch_add(u32::from(!container.ready), Ordering::Relaxed);
        }
        node.script.runs(Readiness) > 0
    })
    .await;
    assert!(node.is_ready());
    assert_eq!(unready.load(Ordering::Relaxed), 0);
    // Results of another run of the container do not count.
    let mut other = known(&[(Readiness, Verdict::Success)]);
    other.probes.as_mut().unwrap().memory.container = "other".into();
    let node = Node::start(spec("Always", &[Readiness]), other, Fake::new(1), Script::default()).await;
    until("it is shown", || node.shown().is_some()).await;
    assert!(!node.is_ready());
}

#[tokio::test]
async fn a_container_that_the_kernel_saw_end_is_neither_ready_nor_probed_unless_the_runtime_says_it_runs() {
    let script = Script::default();
    script.answer(Readiness, Success);
    let node =
        Node::start(spec("Always", &[Readiness]), ContainerRecord::default(), Fake::new(1), script).await;
    until("it is ready", || node.is_ready()).await;
    kernel_saw_it_end(&node);
    until("it is not ready", || !node.is_ready()).await;
    let runs = node.script.runs(Readiness);
    assert!(matches!(node.shown().unwrap().state, ContainerState::Running { .. }));
    let begun = Instant::now();
    until("it is ready again", || {
        let now = node.script.runs(Readiness);
        let ready = node.is_ready();
        assert!(ready || now == runs, "probed meanwhile");
        ready
    })
    .await;
    assert!(begun.elapsed() > PERIOD, "it would not have been probed anyway");
    until("it is probed again", || node.script.runs(Readiness) > runs).await;
}

#[tokio::test]
async fn a_pod_without_probes_holds_no_probe_state() {
    let node =
        Node::start(spec("Always", &[]), ContainerRecord::default(), Fake::new(1), Script::default()).await;
    until("it is ready", || node.is_ready()).await;
    assert!(node.state.read().probing.is_none());
    // Its end shows at once all the same.
    kernel_saw_it_end(&node);
    until("it is not ready", || !node.is_ready()).await;
    until("the runtime insists", || node.is_ready()).await;
    until("nothing is held", || node.state.read().probing.is_none()).await;
    node.state.saved().await;
    assert_eq!(node.saved().probes, None);
}

#[tokio::test]
async fn only_readiness_is_probed_while_a_pod_ends() {
    let script = Script::default();
    script.answer(Readiness, Success);
    script.answer(Liveness, Success);
    let mut node =
        Node::start(spec("Always", &[Readiness, Liveness]), ContainerRecord::default(), Fake::new(0), script)
            .await;
    until("it is ready and alive", || node.is_ready() && node.script.runs(Liveness) > 0).await;
    let ending = Ending { since: at(0), grace_seconds: 0, why: "its manifest is gone".into() };
    node.orders.send(Order::End(ending)).unwrap();
    until("the runtime is asked to stop it", || !node.runtime.calls().is_empty()).await;
    let (ready, alive) = (node.script.runs(Readiness), node.script.runs(Liveness));
    // A failure now ends nothing and shows.
    node.script.answer(Readiness, Failure);
    until("it is not ready", || !node.is_ready()).await;
    assert!(node.script.runs(Readiness) > ready);
    assert_eq!(node.script.runs(Liveness), alive);
    node.runtime.let_end();
    assert!(matches!(node.reports.recv().await, Some(Report::Gone { uid }) if uid == "u"));
    (&mut node.worker).await.unwrap();
    assert_eq!(node.runtime.calls().len(), 1);
    let ready = node.script.runs(Readiness);
    tokio::time::sleep(PERIOD * 3 / 2).await;
    assert_eq!(node.script.runs(Readiness), ready);
}

/// A probe that was under way when its pod ended reports when the pod's record is gone.
#[tokio::test]
async fn a_late_probe_result_does_not_bring_the_record_back() {
    let runtime = Fake::new(1);
    let known = known(&[(Readiness, Verdict::Success)]);
    let mut node = Node::start(spec("Always", &[Readiness]), known, runtime, Script::default()).await;
    until("it runs", || node.shown().is_some()).await;
    let sink = Sink { state: node.state.own(), name: "c".into(), id: "c0".into() };
    let record = node.dir().join("records/u.json");
    sink.keep(&memory("c0", &[(Readiness, Verdict::Failure)]), None).await;
    node.state.saved().await;
    assert!(record.exists());
    let ending = Ending { since: jiff::Timestamp::now(), grace_seconds: 30, why: "tests".into() };
    node.orders.send(Order::End(ending)).unwrap();
    while !matches!(node.reports.recv().await, Some(Report::Gone { .. })) {}
    assert!(!record.exists());
    sink.keep(&memory("c0", &[(Readiness, Verdict::Success)]), None).await;
    node.state.saved().await;
    assert!(!record.exists(), "the record of a pod that is gone");
}

/// A probe that was under way reports after its pod has ended, when only its volumes are left.
#[tokio::test]
async fn a_late_probe_result_brings_back_neither_the_record_nor_volumes_that_were_set_aside() {
    let known = ContainerRecord::default();
    let mut node = Node::start(spec("Always", &[]), known, Fake::new(0), Script::default()).await;
    until("it runs", || node.shown().is_some()).await;
    let (pod_dir, record) = (node.dir().join("pods/u"), node.dir().join("records/u.json"));
    let Some(immutable) = Immutable::make(&pod_dir.join("volumes/a/file")) else { return };
    let sink = Sink { state: node.state.own(), name: "c".into(), id: "c0".into() };
    let late = |verdict| memory("c0", &[(Readiness, verdict)]);
    node.orders.send(Order::End(Ending { since: at(0), grace_seconds: 0, why: "tests".into() })).unwrap();
    node.runtime.let_end();
    let change = Change { kind: Readiness, from: None, to: Verdict::Success, output: String::new() };
    // While the volumes are tried, between being set aside and forgotten, and after that.
    let mut ended = false;
    while !ended {
        sink.keep(&late(Verdict::Failure), None).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        ended = matches!(node.reports.try_recv(), Ok(Report::Gone { .. }));
    }
    assert!(!record.exists());
    sink.keep(&late(Verdict::Success), Some(&change)).await;
    node.state.saved().await;
    assert!(!record.exists(), "the record of a pod that is gone");
    assert!(!pod_dir.exists() && node.state.env.set_aside.shown().len() == 1);
    assert!(node.state.env.set_aside.has("u"));
    drop(immutable);
}
