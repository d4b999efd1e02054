//! The deletion for good of pods that have ended here: with no grace, and only of the very pod that has ended
//! (kubelet: the status manager's `syncPod`).
//!
//! A pod is deleted when nothing of it is left here and its status at the API server says so, which is then
//! the last that anyone sees of it. It is tried until the API server has done it, also by the next agent.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1;
use kube::api::{DeleteParams, Preconditions};
use nodewarden_model::{PodPhase, PodView};
use nodewarden_pods::status::PodStatusCache;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::follow::Gone;
use super::pace::Pace;
use crate::by_value::Api;
use crate::known_pods::PodKey;
use crate::{Connection, KnownPods};

/// How long its last status is waited for, where it cannot be written.
const STATUS: Duration = Duration::from_secs(15);
/// How long a request may take.
const ANSWER: Duration = Duration::from_secs(30);
/// Requests at a time.
const REQUESTS: usize = 8;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Deletes the pods at the API server that have ended here.
pub struct LastDeletes {
    connection: Connection,
    status: PodStatusCache,
    known: KnownPods,
    gone: mpsc::UnboundedSender<Gone>,
    /// By uid.
    ended: BTreeMap<String, Ended>,
}

/// A pod that has ended.
#[derive(Debug)]
struct Ended {
    key: PodKey,
    /// Until when its status is waited for.
    patience: Instant,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waits,
    UnderWay,
    /// The API server has taken the request: finalizers may keep the pod.
    Done,
}

/// What an attempt came to.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The API server deletes it.
    Taken,
    /// It has no such pod, or another one of its name.
    Gone,
}

impl LastDeletes {
    pub fn new(
        connection: Connection,
        status: PodStatusCache,
        known: KnownPods,
        gone: mpsc::UnboundedSender<Gone>,
    ) -> Self {
        Self { connection, status, known, gone, ended: BTreeMap::new() }
    }

    /// Runs until it is dropped.
    pub async fn run(mut self) {
        let mut statuses = self.status.subscribe();
        let known = self.known.subscribe();
        let mut under_way = FuturesUnordered::new();
        loop {
            for uid in self.due() {
                if under_way.len() >= REQUESTS {
                    break;
                }
                if let Some(ended) = self.ended.get_mut(&uid) {
                    ended.stage = Stage::UnderWay;
                    under_way.push(delete(self.connection.clone(), ended.key.clone(), uid));
                }
            }
            let next = self.next_patience();
            tokio::select! {
                change = statuses.next() => self.take(&change.uid, change.status.as_deref()),
                () = known.changed() => drop(known.take()),
                Some((uid, outcome)) = under_way.next() => self.finish(&uid, outcome),
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    fn take(&mut self, uid: &str, view: Option<&PodView>) {
        match view.filter(|view| view.ended && view.origin.is_api()) {
            None => drop(self.ended.remove(uid)),
            Some(view) if !self.ended.contains_key(uid) => {
                let key = PodKey::new(&view.pod.namespace, &view.pod.name);
                let ended = Ended { key, patience: Instant::now() + STATUS, stage: Stage::Waits };
                self.ended.insert(uid.to_owned(), ended);
            }
            Some(_) => {}
        }
    }

    /// Pods to be deleted now.
    fn due(&self) -> Vec<String> {
        let now = Instant::now();
        let is_due = |(uid, ended): &(&String, &Ended)| {
            let known = self.known.get(&ended.key).filter(|known| *known.uid == ***uid);
            let is_shown = known
                .is_some_and(|known| matches!(known.phase, Some(PodPhase::Succeeded | PodPhase::Failed)));
            ended.stage == Stage::Waits && (is_shown || now >= ended.patience)
        };
        self.ended.iter().filter(is_due).map(|(uid, _)| uid.clone()).collect()
    }

    fn next_patience(&self) -> Option<Instant> {
        let now = Instant::now();
        let waits = self.ended.values().filter(|ended| ended.stage == Stage::Waits && ended.patience > now);
        waits.map(|ended| ended.patience).min()
    }

    fn finish(&mut self, uid: &str, outcome: Outcome) {
        let Some(ended) = self.ended.get_mut(uid) else { return };
        ended.stage = Stage::Done;
        if outcome == Outcome::Gone {
            // The watch may have missed it. The receiver is gone when the agent ends.
            let _ = self.gone.send((ended.key.clone(), uid.into()));
        }
    }
}

/// Deletes one pod, however often it has to be tried.
async fn delete(connection: Connection, key: PodKey, uid: String) -> (String, Outcome) {
    let mut pace = Pace::default();
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: Some(uid.clone()), ..Preconditions::default() }),
        ..DeleteParams::default()
    };
    let mut failing = false;
    loop {
        let pods: Api<v1::Pod> = Api::namespaced(connection.client(), &key.namespace);
        match timeout(ANSWER, pods.delete(&key.name, &params)).await {
            Ok(Ok(_)) => {
                debug!("pod {key} ({uid}) is deleted at the API server");
                return (uid, Outcome::Taken);
            }
            // An API server that has just started answers a node's DELETE of an existing pod with 404: its
            // admission plugin NodeRestriction looks the pod up in a cache that is still empty. A GET is
            // answered from etcd.
            Ok(Err(kube::Error::Api(status)))
                if matches!(status.code, NOT_FOUND | CONFLICT) && is_another(&pods, &key, &uid).await =>
            {
                return (uid, Outcome::Gone);
            }
            Ok(Err(error)) => {
                if !std::mem::replace(&mut failing, true) {
                    warn!("pod {key} ({uid}) has ended and cannot be deleted at the API server yet: {error}");
                }
                pace.failed(Some(&error)).await;
            }
            Err(_) => pace.failed(None).await,
        }
    }
}

/// Whether the API server is known to have no pod of this name with this uid.
async fn is_another(pods: &Api<v1::Pod>, key: &PodKey, uid: &str) -> bool {
    match timeout(ANSWER, pods.get_metadata_opt(&key.name)).await {
        Ok(Ok(found)) => found.is_none_or(|found| found.metadata.uid.as_deref() != Some(uid)),
        Ok(Err(_)) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::fixture::Script;

    const POD: &str = "/api/v1/namespaces/default/pods/web";

    fn refusal(code: u16) -> String {
        let reason = if code == NOT_FOUND { "NotFound" } else { "Conflict" };
        format!(r#"{{"kind": "Status", "status": "Failure", "reason": "{reason}", "code": {code}}}"#)
    }

    /// An object of this kind with the pod's name.
    fn object(api_version: &str, kind: &str, uid: &str) -> String {
        format!(
            r#"{{"kind": "{kind}", "apiVersion": "{api_version}",
                "metadata": {{"name": "web", "namespace": "default", "uid": "{uid}"}}}}"#
        )
    }

    fn metadata(uid: &str) -> String {
        object("meta.k8s.io/v1", "PartialObjectMetadata", uid)
    }

    async fn outcome(script: &Script) -> Outcome {
        let done = delete(script.connection(), PodKey::new("default", "web"), "u1".into());
        let done = timeout(Duration::from_secs(20), done).await;
        done.unwrap_or_else(|_| panic!("not done after {:?}", script.requests())).1
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_gone_when_the_api_server_has_none_or_another_of_its_name() {
        for (refused, seen) in
            [(404, (404, refusal(404))), (409, (200, metadata("u2"))), (404, (200, metadata("u2")))]
        {
            let script = Script::default().then(refused, refusal(refused)).then(seen.0, seen.1);
            assert_eq!(outcome(&script).await, Outcome::Gone, "{refused}");
            assert_eq!(script.requests(), [format!("DELETE {POD}?"), format!("GET {POD}")]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_a_starting_api_server_does_not_find_for_a_deletion_is_deleted_again() {
        let script = Script::default()
            .then(404, refusal(404))
            .then(200, metadata("u1"))
            .then(200, object("v1", "Pod", "u1"));
        assert_eq!(outcome(&script).await, Outcome::Taken);
        assert_eq!(script.requests().len(), 3);
    }
}
