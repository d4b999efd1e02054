//! The task that writes statuses.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::api::{Patch, PatchParams};
use nodewarden_metrics::Own;
use nodewarden_model::Origin;
use nodewarden_pods::status::{PodStatusCache, StatusChange, StatusChanges};
use tracing::{debug, info, warn};

use super::answer::{Answer, of_error};
use super::due::{Due, Sent, due};
use super::patch::patch;
use super::queue::{Next, Outcome, Queue};
use super::written::{Questions, Written};
use crate::Connection;
use crate::by_value::Api;
use crate::known_pods::{KnownChanges, KnownPod, KnownPods, PodKey, status_digest};
use crate::pod_object::{Memory, NodeFacts, shown};
use nodewarden_tasks::rate::Rate;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A watch that shows something else than was answered is behind by less than this.
const WATCH_BEHIND: Duration = Duration::from_secs(10);

/// How many requests may be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Requests a second (`kubeAPIQPS`); 0 for no limit.
    pub per_second: f64,
    /// Requests at once after a pause (`kubeAPIBurst`).
    pub burst: u32,
    /// Requests at a time.
    pub at_a_time: usize,
}

impl Default for Settings {
    /// A kubelet's rate; as many at a time as two workers can use.
    fn default() -> Self {
        Self { per_second: 50.0, burst: 100, at_a_time: 8 }
    }
}

/// Tells what objects of pods say about the node now.
pub type NodeFactsSource = Box<dyn Fn() -> NodeFacts + Send + Sync>;

/// Writes the statuses of the pods in a cache to the API server.
pub struct StatusWriter {
    connection: Connection,
    cache: PodStatusCache,
    known: KnownPods,
    facts: NodeFactsSource,
    queue: Queue,
    rate: Rate,
    /// By uid on the node.
    pods: HashMap<String, Remembered>,
    in_flight: FuturesUnordered<BoxFuture<'static, Answered>>,
    questions: Questions,
}

/// What is known of a pod's status since the agent's start.
#[derive(Debug)]
struct Remembered {
    /// The pod's uid at the API server: a mirror pod that was made again has nothing of the one before.
    uid: Box<str>,
    memory: Memory,
    sent: Option<Sent>,
    /// The digest that the API server is known to have and should not have, and since when: the watch may be
    /// behind.
    doubted: Option<(u64, Instant)>,
    /// Refusals are logged once.
    complained: bool,
}

impl Remembered {
    fn new(known: &KnownPod, memory: Memory) -> Self {
        Self { uid: known.uid.clone(), memory, sent: None, doubted: None, complained: false }
    }
}

/// The end of a request.
struct Answered {
    uid: String,
    known: Arc<KnownPod>,
    own: u64,
    answer: Answer,
    /// Why it was refused.
    error: String,
}

impl StatusWriter {
    /// Nothing is read or written before [`Self::run`].
    pub fn new(
        connection: Connection,
        cache: PodStatusCache,
        known: KnownPods,
        facts: NodeFactsSource,
        settings: Settings,
    ) -> Self {
        Self {
            connection,
            cache,
            known,
            facts,
            queue: Queue::new(settings.at_a_time),
            rate: Rate::new(settings.per_second, settings.burst, Instant::now()),
            pods: HashMap::new(),
            in_flight: FuturesUnordered::new(),
            questions: Questions::new(),
        }
    }

    /// To wait until everything is written, while [`Self::run`] runs.
    pub fn written(&self) -> Written {
        self.questions.written()
    }

    /// Writes statuses for as long as it is polled.
    pub async fn run(mut self) {
        let mut changes = self.cache.subscribe();
        let known = self.known.subscribe();
        loop {
            let wake = self.begin();
            if self.queue.is_empty() {
                self.questions.answer();
            }
            self.wait(&mut changes, &known, wake).await;
        }
    }

    /// Begins what is due; when to look again if nothing happens before.
    fn begin(&mut self) -> Option<Instant> {
        loop {
            let now = Instant::now();
            if let Some(wait) = self.rate.wait(now) {
                return Some(now + wait);
            }
            let uid = match self.queue.next(now) {
                Next::Go(uid) => uid,
                Next::Wait(at) => return at,
            };
            let request = match self.prepare(&uid) {
                Ok(request) => request,
                Err(outcome) => {
                    self.queue.done(&uid, outcome, false, now);
                    continue;
                }
            };
            self.rate.take(now);
            self.in_flight.push(request);
        }
    }

    /// The request that writes a pod's newest status.
    ///
    /// # Errors
    /// There is nothing to write.
    fn prepare(&mut self, uid: &str) -> Result<BoxFuture<'static, Answered>, Outcome> {
        let Some(view) = self.cache.get(uid) else {
            self.pods.remove(uid);
            return Err(Outcome::Done);
        };
        if view.unseen {
            // What the API server has is at least as new.
            return Err(Outcome::Done);
        }
        let key = PodKey::new(&view.pod.namespace, &view.pod.name);
        // A pod that is not known (yet) is looked at again when it is.
        let known =
            self.known.get(&key).filter(|known| is_of(known, uid, &view.origin)).ok_or(Outcome::Done)?;
        let before = self.pods.get(uid).filter(|before| before.uid == known.uid);
        let memory = before.map(|before| &before.memory);
        let shown = shown(&view, &(self.facts)(), &known, memory, Timestamp::now());
        let own = status_digest(&shown.status);
        if before.is_none() {
            self.pods.insert(uid.to_owned(), Remembered::new(&known, shown.memory));
        }
        // Inserted above, if it was not there.
        let before = self.pods.get_mut(uid).ok_or(Outcome::Done)?;
        before.memory = shown.memory;
        match due(own, known.digest, before.sent) {
            Due::No => {
                before.doubted = None;
                return Err(Outcome::Done);
            }
            Due::Later => {
                let now = Instant::now();
                let since = before.doubted.filter(|(digest, _)| *digest == known.digest);
                let (_, since) = *before.doubted.insert(since.unwrap_or((known.digest, now)));
                let left = WATCH_BEHIND.saturating_sub(now.saturating_duration_since(since));
                if !left.is_zero() {
                    return Err(Outcome::Later(left));
                }
            }
            Due::Now => {}
        }
        before.doubted = None;
        Ok(Box::pin(write(
            self.connection.client(),
            uid.to_owned(),
            own,
            patch(&shown.status, &known),
            known,
        )))
    }

    async fn wait(&mut self, changes: &mut StatusChanges, known: &KnownChanges, wake: Option<Instant>) {
        let sleep = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            change = changes.next() => self.note(&change),
            () = self.questions.arrives() => {
                // What had changed before the question is written first.
                while let Some(change) = changes.next().now_or_never() {
                    self.note(&change);
                }
            }
            () = known.changed() => {
                for key in known.take() {
                    if let Some(pod) = self.known.get(&key) {
                        self.queue.mark(pod.mirror.as_deref().unwrap_or(&pod.uid), Instant::now());
                    }
                }
            }
            Some(answered) = self.in_flight.next() => self.answered(answered),
            () = sleep => {}
        }
    }

    fn note(&mut self, change: &StatusChange) {
        if change.status.is_some() {
            self.queue.mark(&change.uid, Instant::now());
        } else {
            self.queue.forget(&change.uid);
            self.pods.remove(&change.uid);
        }
    }

    fn answered(&mut self, Answered { uid, known, own, answer, error }: Answered) {
        count(answer);
        let was_away = self.queue.is_away();
        let remembered = self.pods.get_mut(&uid).filter(|own| own.uid == known.uid);
        let outcome = match answer {
            Answer::Written(answered) => {
                if let Some(remembered) = remembered {
                    remembered.sent = Some(Sent { own, answered });
                    remembered.complained = false;
                }
                Outcome::Done
            }
            Answer::Gone => {
                debug!(uid, "the pod whose status was to be written is gone: {error}");
                Outcome::Refused(None)
            }
            Answer::Refused(after) => {
                if remembered.is_none_or(|own| !std::mem::replace(&mut own.complained, true)) {
                    warn!(uid, "the API server refuses the status of a pod, tried again: {error}");
                }
                Outcome::Refused(after)
            }
            Answer::Away => {
                if !was_away {
                    info!("statuses wait, the API server does not answer: {error}");
                }
                Outcome::Away
            }
        };
        self.queue.done(&uid, outcome, true, Instant::now());
        if was_away && !self.queue.is_away() {
            info!("the API server answers again, statuses are written");
        }
    }
}

impl std::fmt::Debug for StatusWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusWriter").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// Whether this is the pod at the API server that shows the pod of this uid and origin on the node.
fn is_of(known: &KnownPod, uid: &str, origin: &Origin) -> bool {
    match &known.mirror {
        Some(hash) => !origin.is_api() && **hash == *uid,
        None => origin.is_api() && *known.uid == *uid,
    }
}

/// Counts requests by how they went.
fn count(answer: Answer) {
    let result = match answer {
        Answer::Written(_) => "written",
        Answer::Gone => "gone",
        Answer::Refused(_) => "refused",
        Answer::Away => "away",
    };
    ::metrics::counter!(Own::KubeStatusPatches.name(), "result" => result).increment(1);
}

async fn write(
    client: kube::Client,
    uid: String,
    own: u64,
    patch: serde_json::Value,
    known: Arc<KnownPod>,
) -> Answered {
    let api: Api<v1::Pod> = Api::namespaced(client, &known.namespace);
    let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
    let request = api.patch_status(&known.name, &params, &patch);
    let (answer, error) = match tokio::time::timeout(TIMEOUT, request).await {
        Ok(Ok(pod)) => (Answer::Written(pod.status.as_ref().map_or(0, status_digest)), String::new()),
        Ok(Err(error)) => (of_error(&error), error.to_string()),
        Err(_) => (Answer::Away, format!("no answer within {} s", TIMEOUT.as_secs())),
    };
    Answered { uid, known, own, answer, error }
}
