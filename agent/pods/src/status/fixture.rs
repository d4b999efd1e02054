//! Statuses for tests.

use std::sync::Arc;

use nodewarden_model::{PodPhase, PodView, StatusReason};

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
        started: jiff::Timestamp::UNIX_EPOCH,
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
