//! Runs for dead containers, sandboxes and logs.

use std::fs;

use nodewarden_cri::ListedContainer;
use nodewarden_model::{EvictionCause, PodPhase};
use nodewarden_pods::status::DesiredPods;
use nodewarden_proto::runtime::v1 as cri;
use serde_json::json;
use tokio::sync::mpsc;

use crate::fixture::views::{container, ended, pod, sandbox, view, waiting};
use crate::fixture::{Fixture, State, settings};

const EXITED: cri::ContainerState = cri::ContainerState::ContainerExited;

/// Pod `u` with two dead containers of one name in its sandbox and an older sandbox; pod `gone` with one of
/// each.
fn dead() -> State {
    let mut state = State::default();
    let in_sandbox = |mut container: ListedContainer, sandbox: &str| {
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

fn show(fixture: &Fixture, phase: PodPhase) {
    let pod = pod("u", json!([{"name": "c", "image": "i"}]));
    let mut view = (*view(pod, vec![waiting("c", "c1", Some("c1"))])).clone();
    if phase != PodPhase::Running {
        view.containers = vec![ended("c", "c1")];
    }
    view.phase = phase;
    fixture.board.set(view);
}

async fn collect(fixture: &Fixture, dry: bool) -> Vec<(&'static str, String)> {
    let (steps, mut taken) = mpsc::unbounded_channel();
    fixture.collector.collect(dry, steps).await.unwrap();
    let mut steps = Vec::new();
    while let Ok(step) = taken.try_recv() {
        steps.push((step.what, step.id));
    }
    steps
}

#[tokio::test(start_paused = true)]
async fn the_newest_dead_container_is_kept_and_everything_of_gone_pods_removed() {
    let fixture = Fixture::new(dead(), &settings());
    show(&fixture, PodPhase::Running);
    let logs = fixture.dir.path().join("logs");
    for file in [
        "shop_u_u/c/0.log",
        "shop_u_u/c/1.log",
        "shop_gone_gone/c/0.log",
        "shop_k_k/c/0.log",
        "foreign/c/0.log",
    ] {
        fs::create_dir_all(logs.join(file).parent().unwrap()).unwrap();
        fs::write(logs.join(file), "x").unwrap();
    }
    nodewarden_pods::log_owner::mark(&logs.join("shop_gone_gone"), "me").unwrap();
    let links = nodewarden_pods::log_links::directory(&logs);
    for (name, file) in [("gone.log", "shop_gone_gone/c/0.log"), ("kept.log", "shop_u_u/c/1.log")] {
        nodewarden_pods::log_links::link(&links, name, &logs.join(file)).unwrap();
    }
    let planned = collect(&fixture, true).await;
    assert!(fixture.runtime.state().removed.is_empty() && links.join("gone.log").is_symlink());
    let steps = collect(&fixture, false).await;
    let mut removed = fixture.runtime.state().removed.clone();
    removed.sort();
    assert_eq!(removed, ["c0", "g", "g0", "u0"]);
    let of = |steps: &[(&str, String)], what: &str| {
        let mut ids: Vec<String> =
            steps.iter().filter(|(own, _)| *own == what).map(|(_, id)| id.clone()).collect();
        ids.sort();
        ids
    };
    for what in ["container", "sandbox"] {
        assert_eq!(of(&planned, what), of(&steps, what));
    }
    let path = |file: &str| logs.join(file).to_string_lossy().into_owned();
    assert_eq!(of(&steps, "logs"), [path("shop_gone_gone"), path("shop_u_u/c/0.log")]);
    assert!(logs.join("shop_u_u/c/1.log").exists() && logs.join("foreign/c/0.log").exists());
    // Of a kubelet's pod that is gone.
    assert!(logs.join("shop_k_k/c/0.log").exists());
    // The pod was started by an earlier version.
    assert_eq!(nodewarden_pods::log_owner::owner(&logs.join("shop_u_u")).as_deref(), Some("me"));
    assert!(!logs.join("shop_gone_gone").exists() && !logs.join("shop_u_u/c/0.log").exists());
    assert!(!links.join("gone.log").is_symlink() && links.join("kept.log").is_symlink());
    assert_eq!(collect(&fixture, false).await, []);
    // A log that another has removed.
    fs::remove_file(logs.join("shop_u_u/c/1.log")).unwrap();
    assert_eq!(collect(&fixture, true).await, []);
    assert!(links.join("kept.log").is_symlink(), "nothing is removed when it is only planned");
    assert_eq!(collect(&fixture, false).await, []);
    assert!(!links.join("kept.log").is_symlink());
}

#[tokio::test(start_paused = true)]
async fn no_pod_counts_as_gone_while_a_manifest_cannot_be_read() {
    let fixture = Fixture::new(dead(), &settings());
    fixture.board.set_desired(DesiredPods::default());
    show(&fixture, PodPhase::Running);
    collect(&fixture, false).await;
    assert!(!fixture.runtime.state().removed.contains(&"g0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_is_kept_while_its_container_cannot_be_removed() {
    let mut state = dead();
    state.fails = ["g".to_owned()].into();
    let fixture = Fixture::new(state, &settings());
    show(&fixture, PodPhase::Running);
    collect(&fixture, false).await;
    assert!(!fixture.runtime.state().removed.contains(&"g0".to_owned()));
    fixture.runtime.state().fails.clear();
    collect(&fixture, false).await;
    assert!(fixture.runtime.state().removed.contains(&"g0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn everything_of_evicted_pods_is_removed() {
    let mut state = dead();
    state.listing.sandboxes[1].state = cri::PodSandboxState::SandboxNotready.into();
    let fixture = Fixture::new(state, &settings());
    let pod = pod("u", json!([{"name": "c", "image": "i"}]));
    let mut view = (*view(pod, vec![ended("c", "c1")])).clone();
    (view.phase, view.evicted) = (PodPhase::Failed, Some(EvictionCause::NodePressure));
    fixture.board.set(view);
    collect(&fixture, false).await;
    assert!(fixture.runtime.state().listing.sandboxes.is_empty());
    assert!(fixture.runtime.state().listing.containers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn under_disk_pressure_even_the_newest_of_an_ended_pod_is_removed() {
    let mut state = dead();
    state.listing.sandboxes[1].state = cri::PodSandboxState::SandboxNotready.into();
    let fixture = Fixture::new(state, &settings());
    show(&fixture, PodPhase::Succeeded);
    collect(&fixture, false).await;
    assert!(fixture.runtime.state().listing.containers.iter().any(|c| c.id == "c1"));
    fixture.collector.delete_all_unused_containers().await.unwrap();
    assert_eq!(fixture.runtime.state().listing.containers, []);
    assert_eq!(fixture.runtime.state().listing.sandboxes, []);
}
