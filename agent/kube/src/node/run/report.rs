//! Registers the node and reports its status.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeStatus};
use kube::api::{Patch, PatchParams, PostParams};
use nodewarden_tasks::parts::Pulse;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::super::conditions::READY;
use super::super::facts::Readings;
use super::super::patch::status_patch;
use super::super::register::{initial, missing};
use super::super::status::desired;
use super::super::watch::Seen;
use super::NodeSync;
use super::claim::answer;
use crate::by_value::{Api, ByValue};
use crate::credentials::AGAIN;

/// How often the status is computed until the node is ready for the first time, and for how long.
const STARTING: Duration = Duration::from_millis(500);
const START: Duration = Duration::from_secs(60);
/// Changes within this time are reported together.
const SETTLE: Duration = Duration::from_millis(100);

/// What was done about the node object.
struct Progress {
    begun: Instant,
    /// When the status was last written.
    reported: Option<Instant>,
    /// The last patch without heartbeats: what the server does not take (fields that are newer than it) is
    /// not sent again each time.
    last: Option<Value>,
    /// Labels and annotations of an object that existed already were completed.
    completed: bool,
    was_ready: bool,
    failures: u32,
}

impl NodeSync {
    /// Registers the node and keeps its status, without end.
    pub(super) async fn keep_status(&self, pulse: &Pulse) {
        let mut claimed = self.deps.connection.claimed().subscribe();
        if claimed.wait_for(|claimed| *claimed).await.is_err() {
            return std::future::pending().await;
        }
        let mut seen = self.to.subscribe();
        let mut progress = Progress {
            begun: Instant::now(),
            reported: None,
            last: None,
            completed: false,
            was_ready: false,
            failures: 0,
        };
        loop {
            pulse.progress();
            let readings = self.deps.reader.read().await;
            let known = seen.borrow_and_update().clone();
            let done = match known {
                Seen::Unknown => Ok(()),
                Seen::Missing if self.deps.facts.register => self.register(&readings, &mut progress).await,
                Seen::Missing => Err("there is no node object, and registerNode is false".to_owned()),
                Seen::Node(node) => self.update(&node, &readings, &mut progress).await,
            };
            let wait = match done {
                Ok(()) => {
                    progress.failures = 0;
                    self.pause(&progress)
                }
                Err(error) => {
                    if progress.failures == 0 {
                        warn!("the node object cannot be written: {error}");
                    }
                    progress.failures += 1;
                    AGAIN.nth(progress.failures - 1).min(self.deps.pace.update)
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                () = self.deps.reader.changed(), if progress.failures == 0 => sleep(SETTLE).await,
                changed = seen.changed(), if progress.failures == 0 => match changed {
                    Ok(()) => sleep(SETTLE).await,
                    Err(_) => return std::future::pending().await,
                },
            }
        }
    }

    /// The time until the status is computed again.
    fn pause(&self, progress: &Progress) -> Duration {
        let starting = !progress.was_ready && progress.begun.elapsed() < START;
        if starting { STARTING } else { self.deps.pace.update }
    }

    async fn register(&self, readings: &Readings, progress: &mut Progress) -> Result<(), String> {
        let facts = &self.deps.facts;
        let status = desired(facts, readings, &NodeStatus::default(), Timestamp::now());
        let node = Node { status: Some(status.clone()), ..initial(facts) };
        let api = Api::<Node>::all(self.deps.connection.client());
        match timeout(super::CALL, api.create(&PostParams::default(), &ByValue(node))).await {
            Err(_) => Err(format!("no answer within {} s", super::CALL.as_secs())),
            // The watch will show it.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                let node = answer(api.get(&facts.name)).await?;
                self.show(node.0);
                Ok(())
            }
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(node)) => {
                info!(node = facts.name, "registered the node");
                progress.completed = true;
                progress.reported = Some(Instant::now());
                progress.was_ready |= is_ready(&status);
                self.report_changes(&NodeStatus::default(), &status);
                self.show(node.0);
                Ok(())
            }
        }
    }

    async fn update(&self, node: &Node, readings: &Readings, progress: &mut Progress) -> Result<(), String> {
        let facts = &self.deps.facts;
        let api = Api::<Node>::all(self.deps.connection.client());
        if !progress.completed && facts.register {
            if let Some(patch) = missing(facts, &node.metadata) {
                answer(api.patch(&facts.name, &PatchParams::default(), &Patch::Merge(&patch))).await?;
            }
            progress.completed = true;
        }
        let empty = NodeStatus::default();
        let known = node.status.as_ref().unwrap_or(&empty);
        let now = desired(facts, readings, known, Timestamp::now());
        let due = progress.reported.is_none_or(|at| at.elapsed() >= self.deps.pace.report);
        let changes = status_patch(known, &now, false).map(without_heartbeats);
        if !due && (changes.is_none() || changes == progress.last) {
            progress.was_ready |= is_ready(&now);
            return Ok(());
        }
        let Some(patch) = status_patch(known, &now, due) else { return Ok(()) };
        let body = json!({ "metadata": {"uid": node.metadata.uid}, "status": patch });
        let written =
            answer(api.patch_status(&facts.name, &PatchParams::default(), &Patch::Strategic(&body))).await?;
        progress.last = changes;
        progress.reported = Some(Instant::now());
        progress.was_ready |= is_ready(&now);
        self.report_changes(known, &now);
        self.show(written.0);
        Ok(())
    }

    /// Takes the object of an answer as what is known, before the watch shows it.
    fn show(&self, mut node: Node) {
        node.metadata.managed_fields = None;
        self.to.send_replace(Seen::Node(Arc::new(node)));
    }
}

/// The patch to compare with the next one.
fn without_heartbeats(mut patch: Value) -> Value {
    for condition in patch.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("lastHeartbeatTime");
        }
    }
    patch
}

fn is_ready(status: &NodeStatus) -> bool {
    status.conditions.iter().flatten().any(|own| own.type_ == READY && own.status == "True")
}
