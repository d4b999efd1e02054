//! Statuses for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_manifest::ContainerKind;
use nodewarden_model::{ContainerState, ContainerView, PodPhase, PodView, StatusReason};

/// A pod whose only container, with this id, runs.
pub(crate) fn running_pod(uid: &str, id: &str) -> PodView {
    let container = ContainerView {
        name: "c".into(),
        kind: ContainerKind::Regular,
        image: "i".into(),
        image_id: "i".into(),
        id: id.into(),
        state: ContainerState::Running { since: Timestamp::UNIX_EPOCH },
        last: None,
        restarts: 0,
        ready: true,
        started: true,
        resources: None,
        devices: BTreeMap::new(),
        oom: None,
    };
    PodView { containers: vec![container], ..view(uid, PodPhase::Running) }
}

/// A pod that is called as its uid.
pub(crate) fn view(uid: &str, phase: PodPhase) -> PodView {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: \"{uid}\", uid: \"{uid}\"}}\nspec: {{containers: [{{name: c, image: i}}]}}"
    );
    PodView {
        pod: Arc::new(nodewarden_manifest::manifest::parse(&text).remove(0).unwrap()),
        origin: "/m".into(),
        phase,
        reason: StatusReason::None,
        message: String::new(),
        started: Timestamp::UNIX_EPOCH,
        terminating: None,
        ips: Vec::new(),
        sandbox_id: String::new(),
        containers: Vec::new(),
        resize: None,
        resizing: None,
        evicted: None,
        unseen: false,
        ended: false,
        api: None,
    }
}
