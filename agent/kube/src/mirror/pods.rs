//! The task that keeps the mirror pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1;
use kube::api::{DeleteParams, PostParams, Preconditions};
use nodewarden_model::PodView;
use nodewarden_pods::status::PodStatusCache;
use tracing::{info, warn};

use super::decide::{Action, Wanted, decide};
use super::object::object;
use crate::Connection;
use crate::by_value::{Api, ByValue};
use crate::known_pods::{KnownPod, KnownPods, PodKey};
use crate::pod_object::NodeFacts;
use crate::status::NodeFactsSource;
use crate::status::answer::{Answer, of_error};
use crate::status::queue::{Next, Outcome, Queue};
use nodewarden_tasks::rate::Rate;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Manifests that cannot be read, and a node that is not registered yet, are looked at again after this time.
const UNSURE: Duration = Duration::from_secs(10);
/// Requests a second and at once, which come on top of those for statuses: pods of manifests are few.
const RATE: (f64, u32) = (5.0, 10);

/// Keeps the mirror pods of the pods in a cache.
pub struct MirrorPods {
    connection: Connection,
    cache: PodStatusCache,
    known: KnownPods,
    facts: NodeFactsSource,
    /// By namespace and name.
    queue: Queue,
    rate: Rate,
    in_flight: FuturesUnordered<BoxFuture<'static, (PodKey, Outcome)>>,
}

impl MirrorPods {
    /// Nothing is read or written before [`Self::run`].
    pub fn new(
        connection: Connection,
        cache: PodStatusCache,
        known: KnownPods,
        facts: NodeFactsSource,
    ) -> Self {
        Self {
            connection,
            cache,
            known,
            facts,
            queue: Queue::new(2),
            rate: Rate::new(RATE.0, RATE.1, Instant::now()),
            in_flight: FuturesUnordered::new(),
        }
    }

    /// Keeps them for as long as it is polled.
    pub async fn run(mut self) {
        let mut changes = self.cache.subscribe();
        let known = self.known.subscribe();
        loop {
            let wake = self.begin();
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                change = changes.next() => {
                    let keys = match &change.status {
                        Some(view) if view.origin.is_api() => BTreeSet::new(),
                        Some(view) => [key_of(view)].into(),
                        None => self.mirrors(&change.uid),
                    };
                    self.mark(keys);
                }
                () = known.changed() => {
                    let keys = known.take();
                    self.mark(keys);
                }
                Some((key, outcome)) = self.in_flight.next() => {
                    self.queue.done(&key.to_string(), outcome, true, Instant::now());
                }
                () = sleep => {}
            }
        }
    }

    /// The names of the mirror pods of this hash.
    fn mirrors(&self, hash: &str) -> BTreeSet<PodKey> {
        let all = self.known.all();
        all.iter().filter(|pod| pod.mirror.as_deref() == Some(hash)).map(|pod| pod.key()).collect()
    }

    fn mark(&mut self, keys: BTreeSet<PodKey>) {
        let now = Instant::now();
        keys.iter().for_each(|key| self.queue.mark(&key.to_string(), now));
    }

    /// Begins what is due; when to look again if nothing happens before.
    fn begin(&mut self) -> Option<Instant> {
        loop {
            let now = Instant::now();
            if let Some(wait) = self.rate.wait(now) {
                return Some(now + wait);
            }
            let key = match self.queue.next(now) {
                Next::Go(key) => key,
                Next::Wait(at) => return at,
            };
            let request = match self.prepare(&key) {
                Ok(request) => request,
                Err(outcome) => {
                    self.queue.done(&key, outcome, false, now);
                    continue;
                }
            };
            self.rate.take(now);
            self.in_flight.push(request);
        }
    }

    /// The request that is due for this name.
    ///
    /// # Errors
    /// There is none.
    fn prepare(&self, key: &str) -> Result<BoxFuture<'static, (PodKey, Outcome)>, Outcome> {
        let (namespace, name) = key.split_once('/').ok_or(Outcome::Done)?;
        let key = PodKey::new(namespace, name);
        if !self.known.is_complete() {
            // The list brings every name again.
            return Err(Outcome::Done);
        }
        let known = self.known.get(&key);
        let views = self.cache.pods();
        let view = views.iter().find(|view| !view.origin.is_api() && key_of(view) == key);
        let wanted = view.map(|view| Wanted { hash: &view.pod.uid, phase: view.phase });
        let certain = self.is_certain(&key);
        match decide(wanted, certain, known.as_deref()) {
            Action::Keep
                if wanted.is_none() && !certain && known.is_some_and(|known| known.mirror.is_some()) =>
            {
                Err(Outcome::Later(UNSURE))
            }
            Action::Keep => Err(Outcome::Done),
            Action::Create => {
                let view = view.cloned().ok_or(Outcome::Done)?;
                let (client, known, facts) = (self.connection.client(), self.known.clone(), (self.facts)());
                Ok(Box::pin(async move { (key, timely(create(client, view, facts, known)).await) }))
            }
            Action::Delete(uid) => {
                let (client, known) = (self.connection.client(), self.known.clone());
                Ok(Box::pin(async move {
                    let outcome = timely(delete(client, &key, &uid, &known)).await;
                    (key, outcome)
                }))
            }
        }
    }

    /// Whether a name that no pod of a manifest has here is no manifest's either.
    fn is_certain(&self, key: &PodKey) -> bool {
        self.cache.desired().is_some_and(|desired| {
            let named = |pod: &PodKey| pod == key;
            desired.complete
                && !desired.pods.iter().any(|sourced| {
                    !sourced.origin.is_api() && named(&PodKey::new(&sourced.pod.namespace, &sourced.pod.name))
                })
        })
    }
}

impl std::fmt::Debug for MirrorPods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MirrorPods").field("queue", &self.queue).finish_non_exhaustive()
    }
}

fn key_of(view: &PodView) -> PodKey {
    PodKey::new(&view.pod.namespace, &view.pod.name)
}

async fn timely(request: impl Future<Output = Outcome>) -> Outcome {
    tokio::time::timeout(TIMEOUT, request).await.unwrap_or(Outcome::Away)
}

async fn create(client: kube::Client, view: Arc<PodView>, facts: NodeFacts, known: KnownPods) -> Outcome {
    let key = key_of(&view);
    // The owner is named by its uid, and a node object that was deleted by hand comes back with another one.
    let node = Api::<v1::Node>::all(client.clone()).get(&facts.name).await;
    let uid = match node {
        Ok(node) => node.0.metadata.uid.unwrap_or_default(),
        Err(error) => {
            return match of_error(&error) {
                Answer::Gone => Outcome::Later(UNSURE),
                _ => failed("read the node for", &key, &error),
            };
        }
    };
    let api: Api<v1::Pod> = Api::namespaced(client, &key.namespace);
    match api.create(&PostParams::default(), &ByValue(object(&view, &facts, &uid))).await {
        Ok(made) => {
            info!(pod = %key, "made the mirror pod");
            if known.get(&key).is_none() {
                known.set(KnownPod::of(&made));
            }
            Outcome::Done
        }
        Err(error) => failed("make", &key, &error),
    }
}

async fn delete(client: kube::Client, key: &PodKey, uid: &str, known: &KnownPods) -> Outcome {
    let api: Api<v1::Pod> = Api::namespaced(client, &key.namespace);
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
        ..DeleteParams::default()
    };
    match api.delete(&key.name, &params).await {
        Ok(_) => {
            info!(pod = %key, "deleted the mirror pod");
            known.remove(key, uid);
            Outcome::Done
        }
        Err(error) if of_error(&error) == Answer::Gone => {
            known.remove(key, uid);
            Outcome::Done
        }
        Err(error) => failed("delete", key, &error),
    }
}

fn failed(what: &str, key: &PodKey, error: &kube::Error) -> Outcome {
    match of_error(error) {
        Answer::Away => Outcome::Away,
        Answer::Refused(after) => {
            warn!(pod = %key, "cannot {what} the mirror pod, tried again: {error}");
            Outcome::Refused(after)
        }
        Answer::Gone | Answer::Written(_) => Outcome::Refused(None),
    }
}
