//! The task that lets the API server know of evictions. An eviction never waits for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use nodewarden_metrics::Own;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::decide::{self, Asked, Next, Way, way};
use super::record::{Killed, Record};
use super::request;
use crate::Connection;
use crate::status::answer::Answer;

/// How often the kubelet's version is read: it is updated while the node runs.
const VERSION_AGAIN: Duration = Duration::from_secs(300);
/// The same while it is not known.
const VERSION_SOON: Duration = Duration::from_secs(1);

/// What became of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pod was killed, and its status says so.
    Failed,
    /// The pod was killed, and is deleted.
    Deleted,
    /// The pod was killed, and is no longer at the API server.
    Gone,
    /// The API server asks it to end.
    Asked,
    /// It may not be evicted now, for this reason.
    Refused(String),
    /// The API server does not answer: the pod stays.
    Away(String),
}

impl Outcome {
    /// As it is counted.
    fn name(&self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Deleted => "deleted",
            Self::Gone => "gone",
            Self::Asked => "asked",
            Self::Refused(_) => "refused",
            Self::Away(_) => "away",
        }
    }
}

/// Takes evictions. Cloning shares it.
#[derive(Clone)]
pub struct Evictor {
    shared: Arc<Shared>,
    orders: mpsc::UnboundedSender<Order>,
}

type Report = Box<dyn Fn(&Killed, Outcome) + Send + Sync>;

struct Shared {
    record: Record,
    held: Mutex<Held>,
    version: Mutex<Option<Option<String>>>,
    report: Report,
}

/// Which soft evictions are not to be tried.
#[derive(Default)]
struct Held {
    /// Those that were refused, until when.
    pods: BTreeMap<String, Instant>,
    /// None at all until then: the API server does not answer.
    all: Option<Instant>,
    /// Pods that end because they were asked to.
    asked: BTreeSet<String>,
}

impl Shared {
    fn finish(&self, pod: &Killed, outcome: Outcome) {
        metrics::counter!(Own::AugmentEvictions.name(), "result" => outcome.name()).increment(1);
        (self.report)(pod, outcome);
    }
}

enum Order {
    Say(Killed),
    Ask(Killed, Duration),
}

impl Evictor {
    /// Continues with what an earlier agent has left in the state directory. The future does the work;
    /// `report` takes what becomes of each eviction. Also returns why the record cannot be read, if so.
    pub fn start(
        connection: Connection,
        state_dir: &Path,
        report: impl Fn(&Killed, Outcome) + Send + Sync + 'static,
    ) -> (Self, impl Future<Output = ()> + Send + 'static, Option<String>) {
        let (record, problem) = Record::open(state_dir);
        let (orders, taken) = mpsc::unbounded_channel();
        for left in record.waiting() {
            // The receiver is here.
            let _ = orders.send(Order::Say(left));
        }
        let shared = Arc::new(Shared {
            record,
            held: Mutex::default(),
            version: Mutex::default(),
            report: Box::new(report),
        });
        let run = run(connection, shared.clone(), taken);
        (Self { shared, orders }, run, problem)
    }

    /// Whether an earlier agent has left something to be said in this state directory.
    pub fn has_left(state_dir: &Path) -> bool {
        !Record::open(state_dir).0.waiting().is_empty()
    }

    /// The pod is being killed: the API server hears of it, however long that takes.
    pub fn killed(&self, killed: Killed) {
        if self.shared.record.add(killed.clone()) {
            // It is in the record if the task has ended.
            let _ = self.orders.send(Order::Say(killed));
        }
    }

    /// Asks the API server for the eviction of a pod, once; `pod` says which and why.
    pub fn ask(&self, pod: Killed, grace: Duration) {
        let _ = self.orders.send(Order::Ask(pod, grace));
    }

    /// Whether the eviction of this pod is not to be asked for now.
    pub fn holds(&self, uid: &str) -> bool {
        let now = Instant::now();
        let mut held = self.shared.held.lock();
        held.pods.retain(|_, until| now < *until);
        held.all.is_some_and(|until| now < until) || held.pods.contains_key(uid)
    }

    /// Forgets that the eviction of pods was asked for which are not there any more.
    pub fn forget_asked(&self, is_there: impl Fn(&str) -> bool) {
        self.shared.held.lock().asked.retain(|uid| is_there(uid));
    }

    /// Whether this pod ends because its eviction was asked for.
    pub fn has_asked(&self, uid: &str) -> bool {
        self.shared.held.lock().asked.contains(uid)
    }
}

async fn run(connection: Connection, shared: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut under_way = FuturesUnordered::new();
    let versions = follow_version(&connection, &shared);
    tokio::pin!(versions);
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(order) => under_way.push(carry_out(&connection, &shared, order)),
                // The part that evicts has ended; what is not sent yet is on disk.
                None => return,
            },
            Some(()) = under_way.next() => {}
            () = &mut versions => {}
        }
    }
}

/// Keeps the kubelet's version current, without end.
async fn follow_version(connection: &Connection, shared: &Shared) {
    loop {
        let wait = match request::kubelet_version(connection).await {
            Ok(version) => {
                let changed = shared.version.lock().replace(version.clone()) != Some(version.clone());
                match &version {
                    Some(version) if changed => debug!("the kubelet is {version}"),
                    None if changed => warn!(
                        "the kubelet's version is not known (status.nodeInfo.kubeletVersion): pods that are evicted are \
                         deleted"
                    ),
                    _ => {}
                }
                VERSION_AGAIN
            }
            Err(error) => {
                debug!("the kubelet's version: {error}");
                if shared.version.lock().is_some() { VERSION_AGAIN } else { VERSION_SOON }
            }
        };
        sleep(wait).await;
    }
}

async fn carry_out(connection: &Connection, shared: &Shared, order: Order) {
    match order {
        Order::Say(killed) => say(connection, shared, &killed).await,
        Order::Ask(pod, grace) => ask(connection, shared, &pod, grace).await,
    }
}

/// The way for this node's kubelet; `None` as long as the API server has not said which it is.
async fn known_way(connection: &Connection, shared: &Shared) -> Option<Way> {
    let known = shared.version.lock().clone();
    if let Some(version) = known {
        return Some(way(version.as_deref()));
    }
    let version = request::kubelet_version(connection).await.ok()?;
    let way = way(version.as_deref());
    *shared.version.lock() = Some(version);
    Some(way)
}

/// Says it until the API server has it.
async fn say(connection: &Connection, shared: &Shared, killed: &Killed) {
    let Killed { uid, namespace, name, .. } = killed;
    let mut failures: u32 = 0;
    loop {
        let (way, (answer, error)) = match known_way(connection, shared).await {
            Some(way) => (way, request::say(connection, way, killed).await),
            None => {
                let away = (Answer::Away, Some("no answer".to_owned()));
                (Way::Delete, away)
            }
        };
        let outcome = match decide::after(answer, failures) {
            Next::Done if way == Way::Status => Outcome::Failed,
            Next::Done => Outcome::Deleted,
            Next::Gone => Outcome::Gone,
            Next::Again(wait) => {
                if failures == 0 {
                    let error = error.unwrap_or_default();
                    warn!(
                        "pod {namespace}/{name} ({uid}) was evicted, and the API server does not have it yet: {error}"
                    );
                }
                failures = failures.saturating_add(1);
                sleep(wait).await;
                continue;
            }
        };
        shared.record.remove(uid);
        return shared.finish(killed, outcome);
    }
}

/// Asks once. What comes of it decides whether this pod is chosen again.
async fn ask(connection: &Connection, shared: &Shared, pod: &Killed, grace: Duration) {
    let (answer, error) = match known_way(connection, shared).await {
        Some(way) => request::ask(connection, way, pod, grace).await,
        None => (Answer::Away, None),
    };
    let error = error.unwrap_or_else(|| "no answer".to_owned());
    let now = Instant::now();
    let outcome = {
        let mut held = shared.held.lock();
        match decide::asked(answer) {
            Asked::Taken => {
                held.asked.insert(pod.uid.clone());
                Outcome::Asked
            }
            Asked::Gone => Outcome::Gone,
            Asked::Refused(wait) => {
                held.pods.insert(pod.uid.clone(), now + wait);
                Outcome::Refused(error)
            }
            Asked::Away(wait) => {
                held.all = Some(now + wait);
                Outcome::Away(error)
            }
        }
    };
    shared.finish(pod, outcome);
}
