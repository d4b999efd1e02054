//! Runs for dead containers, sandboxes and logs.

use std::fs;

use nodewarden_proto::runtime::v1 as cri;
use serde_json::json;
use tokio::sync::mpsc;

use super::views::{container, ended, pod, sandbox, view, waiting};
use super::world::{Node, State, settings};
use nodewarden_model::PodPhase;
use nodewarden_pods::status::Wanted;

const EXITED: cri::ContainerState = cri::ContainerState::ContainerExited;

/// Pod `u` with two dead containers of a name in its sandbox and an older sandbox; pod `gone` with both of its kind.
fn dead() -> State {
    let mut state = State::default();
    let in_sandbox = |mut container: cri::Container, sandbox: &str| {
        container.pod_sandbox_id = sandbox.into();
        container
    };
    state.listing.sandboxes =
        vec![sandbox("u0", "u", 0, false), sandbox("u1", "u", 1, true), sandbox("g0", "gone", 0, false)];
    state.listing.containers = vec![
        in_sandbox(container("c0", "u", "c", 0, EXITED), "u1"),
        in_sandbox(container("c1", "u", "c", 1, EXITED), "u1"),
        in_sandbox(container("g", "gone", "c", 0, EXITED), "g0"),
    ];
    state
}

fn shown(node: &Node, phase: PodPhase) {
    let pod = pod("u", json!([{"name": "c", "image": "i"}]));
    let mut view = (*view(pod, vec![waiting("c", "c1", Some("c1"))])).clone();
    if phase != PodPhase::Running {
        view.containers = vec![ended("c", "c1")];
    }
    view.phase = phase;
    node.board.show(view);
}

async fn collect(node: &Node, dry: bool) -> Vec<(&'static str, String)> {
    let (steps, mut taken) = mpsc::unbounded_channel();
    node.collector.collect(dry, steps).await.unwrap();
    let mut told = Vec::new();
    while let Ok(step) = taken.try_recv() {
        told.push((step.what, step.id));
    }
    told
}

#[tokio::test(start_paused = true)]
async fn the_newest_stays_and_pods_that_are_gone_leave_nothing() {
    let node = Node::new(dead(), &settings());
    shown(&node, PodPhase::Running);
    let logs = node.dir.path().join("logs");
    for file in ["shop_u_u/c/0.log", "shop_u_u/c/1.log", "shop_gone_gone/c/0.log", "foreign/c/0.log"] {
        fs::create_dir_all(logs.join(file).parent().unwrap()).unwrap();
        fs::write(logs.join(file), "x").unwrap();
    }
    let planned = collect(&node, true).await;
    assert!(node.world.state().removed.is_empty());
    let told = collect(&node, false).await;
    let mut removed = node.world.state().removed.clone();
    removed.sort();
    assert_eq!(removed, ["c0", "g", "g0", "u0"]);
    let of = |told: &[(&str, String)], what: &str| {
        let mut ids: Vec<String> =
            told.iter().filter(|(own, _)| *own == what).map(|(_, id)| id.clone()).collect();
        ids.sort();
        ids
    };
    for what in ["container", "sandbox"] {
        assert_eq!(of(&planned, what), of(&told, what));
    }
    let path = |file: &str| logs.join(file).to_string_lossy().into_owned();
    assert_eq!(of(&told, "logs"), [path("shop_gone_gone"), path("shop_u_u/c/0.log")]);
    assert!(logs.join("shop_u_u/c/1.log").exists() && logs.join("foreign/c/0.log").exists());
    assert!(!logs.join("shop_gone_gone").exists() && !logs.join("shop_u_u/c/0.log").exists());
    assert_eq!(collect(&node, false).await, []);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_gone_while_a_manifest_cannot_be_read() {
    let node = Node::new(dead(), &settings());
    node.board.want(Wanted::default());
    shown(&node, PodPhase::Running);
    collect(&node, false).await;
    assert!(!node.world.state().removed.contains(&"g0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_stays_as_long_as_its_container_cannot_be_removed() {
    let mut state = dead();
    state.fails = ["g".to_owned()].into();
    let node = Node::new(state, &settings());
    shown(&node, PodPhase::Running);
    collect(&node, false).await;
    assert!(!node.world.state().removed.contains(&"g0".to_owned()));
    node.world.state().fails.clear();
    collect(&node, false).await;
    assert!(node.world.state().removed.contains(&"g0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn evicted_pods_leave_nothing() {
    let mut state = dead();
    state.listing.sandboxes[1].state = cri::PodSandboxState::SandboxNotready.into();
    let node = Node::new(state, &settings());
    let pod = pod("u", json!([{"name": "c", "image": "i"}]));
    let mut view = (*view(pod, vec![ended("c", "c1")])).clone();
    (view.phase, view.reason) = (PodPhase::Failed, "Evicted".into());
    node.board.show(view);
    collect(&node, false).await;
    assert!(node.world.state().listing.sandboxes.is_empty());
    assert!(node.world.state().listing.containers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn with_pressure_not_even_the_newest_of_an_ended_pod_stays() {
    let mut state = dead();
    state.listing.sandboxes[1].state = cri::PodSandboxState::SandboxNotready.into();
    let node = Node::new(state, &settings());
    shown(&node, PodPhase::Succeeded);
    collect(&node, false).await;
    assert!(node.world.state().listing.containers.iter().any(|c| c.id == "c1"));
    node.collector.delete_all_unused_containers().await.unwrap();
    assert_eq!(node.world.state().listing.containers, []);
    assert_eq!(node.world.state().listing.sandboxes, []);
}
