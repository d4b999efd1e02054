//! Pods and containers of the tests: everything of owner `me`.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_proto::runtime::v1 as cri;
use serde_json::{Value, json};

use nodewarden_manifest::{ContainerKind, Pod};
use nodewarden_model::{ContainerState, ContainerView, Ended, PodPhase, PodView};
use nodewarden_pods::spec::OWNER;
use nodewarden_pods::spec::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID};

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// `shop/<uid>`.
pub fn pod(uid: &str, containers: Value) -> Arc<Pod> {
    let manifest = json!({
        "metadata": {"namespace": "shop", "name": uid, "uid": uid}, "spec": {"containers": containers}
    });
    Arc::new(Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap())
}

pub fn view(pod: Arc<Pod>, containers: Vec<ContainerView>) -> Arc<PodView> {
    Arc::new(PodView {
        pod,
        origin: "/manifests/p.yaml".into(),
        phase: PodPhase::Running,
        reason: String::new(),
        message: String::new(),
        started: at(0),
        terminating: None,
        ips: Vec::new(),
        sandbox_id: String::new(),
        containers,
        resize: String::new(),
    })
}

/// A container whose newest is `id`, with what is noted of the last that ended.
pub fn waiting(name: &str, id: &str, last: Option<&str>) -> ContainerView {
    ContainerView {
        name: name.into(),
        kind: ContainerKind::Ordinary,
        image: "i".into(),
        image_id: String::new(),
        id: id.into(),
        state: ContainerState::Waiting { reason: "CrashLoopBackOff".into(), message: String::new() },
        last: last.map(end),
        restarts: 0,
        ready: false,
        started: false,
        devices: Default::default(),
        oom: None,
    }
}

pub fn ended(name: &str, id: &str) -> ContainerView {
    ContainerView { state: ContainerState::Terminated(end(id)), ..waiting(name, id, None) }
}

fn end(id: &str) -> Ended {
    Ended {
        id: id.into(),
        exit_code: 1,
        signal: 0,
        reason: "Error".into(),
        message: String::new(),
        started: None,
        finished: None,
        oom: None,
    }
}

/// In sandbox `s`, of image `i`.
pub fn container(
    id: &str,
    uid: &str,
    name: &str,
    attempt: u32,
    state: cri::ContainerState,
) -> cri::Container {
    let mut labels = labels(uid);
    labels.insert(CONTAINER_NAME.into(), name.into());
    cri::Container {
        id: id.into(),
        pod_sandbox_id: "s".into(),
        metadata: Some(cri::ContainerMetadata { name: name.into(), attempt }),
        state: state.into(),
        labels,
        image_ref: "i".into(),
        created_at: i64::try_from(at(attempt.into()).as_nanosecond()).unwrap(),
        ..Default::default()
    }
}

pub fn sandbox(id: &str, uid: &str, attempt: u32, ready: bool) -> cri::PodSandbox {
    let state =
        if ready { cri::PodSandboxState::SandboxReady } else { cri::PodSandboxState::SandboxNotready };
    cri::PodSandbox {
        id: id.into(),
        metadata: Some(cri::PodSandboxMetadata {
            name: uid.into(),
            uid: uid.into(),
            namespace: "shop".into(),
            attempt,
        }),
        state: state.into(),
        created_at: i64::try_from(at(attempt.into()).as_nanosecond()).unwrap(),
        labels: labels(uid),
        ..Default::default()
    }
}

fn labels(uid: &str) -> HashMap<String, String> {
    let labels = [(POD_UID, uid), (POD_NAMESPACE, "shop"), (POD_NAME, uid), (OWNER, "me")];
    labels.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}
