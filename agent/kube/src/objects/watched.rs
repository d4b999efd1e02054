//! Config maps and secrets that pods name: each is read by its name as long as a pod names it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinHandle};

use super::follow::{self, Selection, Then, Update};
use super::slim;
use crate::Connection;
use nodewarden_config::ChangeDetection;
use nodewarden_pods::objects::{ConfigMap, ObjectError, ObjectKind, Secret};
use nodewarden_tasks::parts;

/// How long a caller waits for the first answer about an object.
const PATIENCE: Duration = Duration::from_secs(3);
/// What keeps one object, as a part of the agent: one for each.
const PART: &str = "config maps and secrets";
/// How long it may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);
/// Between two reads of an object that is not watched.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// An object, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) kind: ObjectKind,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// An object's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    ConfigMap(Arc<ConfigMap>),
    Secret(Arc<Secret>),
}

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reading {
    /// There was no answer yet; with why, if there was an error.
    Unread(Option<String>),
    Missing,
    Found(Value),
}

impl Reading {
    fn is_known(&self) -> bool {
        !matches!(self, Self::Unread(_))
    }
}

/// Objects that are kept current.
#[derive(Debug)]
pub(super) struct Watched {
    connection: Connection,
    detection: ChangeDetection,
    /// Where the uids of pods go of which an object has changed.
    changes: mpsc::UnboundedSender<String>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    /// What each pod names, by its uid.
    pods: HashMap<String, BTreeSet<Key>>,
    objects: HashMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// Uids of the pods that name it.
    pods: BTreeSet<String>,
    reading: watch::Receiver<Reading>,
    task: AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watched {
    pub(super) fn new(
        connection: Connection,
        detection: ChangeDetection,
        changes: mpsc::UnboundedSender<String>,
    ) -> Self {
        Self { connection, detection, changes, kept: Arc::default() }
    }

    /// From now on the pod names exactly these.
    pub(super) fn register(&self, uid: &str, keys: BTreeSet<Key>) {
        let mut kept = self.kept.lock();
        let before = kept.pods.remove(uid).unwrap_or_default();
        for key in before.difference(&keys) {
            if let Some(entry) = kept.objects.get_mut(key) {
                entry.pods.remove(uid);
                if entry.pods.is_empty() {
                    kept.objects.remove(key);
                }
            }
        }
        for key in &keys {
            let entry = kept.objects.entry(key.clone()).or_insert_with(|| self.begin(key));
            entry.pods.insert(uid.to_owned());
        }
        if !keys.is_empty() {
            kept.pods.insert(uid.to_owned(), keys);
        }
    }

    fn begin(&self, key: &Key) -> Entry {
        let (sender, reading) = watch::channel(Reading::Unread(None));
        let kept = self.kept.clone();
        let (own, changes) = (key.clone(), self.changes.clone());
        let note = move |reading: Reading| note(&sender, reading, &own, &kept, &changes);
        let (connection, selection) = (self.connection.clone(), key.selection());
        let watches = self.detection == ChangeDetection::Watch;
        let task = match key.kind {
            ObjectKind::ConfigMap => spawn(keep::<v1::ConfigMap>(connection, selection, watches, note)),
            _ => spawn(keep::<v1::Secret>(connection, selection, watches, note)),
        };
        Entry { pods: BTreeSet::new(), reading, task: task.abort_handle() }
    }

    /// The object, waiting a moment if it is not known yet.
    pub(super) async fn get(&self, key: Key) -> Result<Value, ObjectError> {
        let reading = self.kept.lock().objects.get(&key).map(|entry| entry.reading.clone());
        let known = match reading {
            Some(mut reading) if self.detection != ChangeDetection::Get => {
                // Time-out or not: what is known counts.
                let _ = tokio::time::timeout(PATIENCE, reading.wait_for(Reading::is_known)).await;
                reading.borrow().clone()
            }
            // A pod that is not registered, or every read is to be a new one.
            _ => self.read(&key).await,
        };
        let Key { kind, name, .. } = key;
        match known {
            Reading::Found(value) => Ok(value),
            Reading::Missing => Err(ObjectError::NotFound { kind, name }),
            Reading::Unread(reason) => {
                let reason = reason.unwrap_or_else(|| "the API server has not answered yet".to_owned());
                Err(ObjectError::Unread { kind, name, reason })
            }
        }
    }

    async fn read(&self, key: &Key) -> Reading {
        let selection = key.selection();
        match key.kind {
            ObjectKind::ConfigMap => read::<v1::ConfigMap>(&self.connection, &selection).await,
            _ => read::<v1::Secret>(&self.connection, &selection).await,
        }
    }
}

impl Key {
    fn selection(&self) -> Selection {
        let resource = if self.kind == ObjectKind::ConfigMap { "configmaps" } else { "secrets" };
        let path = format!("/api/v1/namespaces/{}/{resource}", self.namespace);
        Selection { path, name: Some(self.name.clone()) }
    }
}

/// An object of the API server that has a slim value.
trait Kind:
    Clone
    + serde::de::DeserializeOwned
    + k8s_openapi::Metadata<Ty = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>
    + Send
{
    fn is_immutable(&self) -> bool;
    fn value(self) -> Value;
}

impl Kind for v1::ConfigMap {
    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    fn value(self) -> Value {
        Value::ConfigMap(Arc::new(slim::config_map(self)))
    }
}

impl Kind for v1::Secret {
    fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    fn value(self) -> Value {
        Value::Secret(Arc::new(slim::secret(self)))
    }
}

fn spawn(keep: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(parts::register(PART, LIMIT).task(keep))
}

/// Keeps one object current until it is immutable.
async fn keep<K: Kind>(
    connection: Connection,
    selection: Selection,
    watches: bool,
    note: impl Fn(Reading) + Send + 'static,
) {
    if watches {
        return follow::follow::<K>(&connection, &selection, follow::AGAIN, |update| noted(update, &note))
            .await;
    }
    loop {
        let update = match follow::list::<K>(&connection, &selection).await {
            Ok((all, _)) => Update::All(all),
            Err(reason) => Update::Failed(reason),
        };
        if noted(update, &note) == Then::Stop {
            return;
        }
        tokio::time::sleep(READ_AGAIN).await;
    }
}

fn noted<K: Kind>(update: Update<K>, note: &impl Fn(Reading)) -> Then {
    let object = match update {
        Update::All(all) => all.into_iter().next(),
        Update::Set(object) => Some(object),
        Update::Removed(_) => None,
        Update::Failed(reason) => {
            note(Reading::Unread(Some(reason)));
            return Then::GoOn;
        }
    };
    let is_last = object.as_ref().is_some_and(Kind::is_immutable);
    note(object.map_or(Reading::Missing, |object| Reading::Found(object.value())));
    if is_last { Then::Stop } else { Then::GoOn }
}

async fn read<K: Kind>(connection: &Connection, selection: &Selection) -> Reading {
    match follow::list::<K>(connection, selection).await {
        Ok((all, _)) => {
            all.into_iter().next().map_or(Reading::Missing, |object| Reading::Found(object.value()))
        }
        Err(reason) => Reading::Unread(Some(reason)),
    }
}

/// Takes over what has become known of an object, and reports the pods that name it if that is another value.
fn note(
    sender: &watch::Sender<Reading>,
    reading: Reading,
    key: &Key,
    kept: &Mutex<Kept>,
    changes: &mpsc::UnboundedSender<String>,
) {
    let changed = sender.send_if_modified(|known| {
        // What was known before an outage stays.
        if *known == reading || (known.is_known() && !reading.is_known()) {
            return false;
        }
        *known = reading;
        true
    });
    if changed && sender.borrow().is_known() {
        for uid in kept.lock().objects.get(key).into_iter().flat_map(|entry| &entry.pods) {
            // The receiver is gone when the agent ends.
            let _ = changes.send(uid.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_tasks::parts::Parts;

    use super::super::fixture::Script;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_what_keeps_an_object_is_noticed() {
        let key = Key { kind: ObjectKind::ConfigMap, namespace: "ns".into(), name: "m".into() };
        // Without the message and the backtrace, which would load the symbols into this process.
        let note = |_| std::panic::resume_unwind(Box::new("planted"));
        let script = Script::default().list("");
        let task = spawn(keep::<v1::ConfigMap>(script.connection(), key.selection(), false, note));
        assert!(task.await.unwrap_err().is_panic());
        let found = Parts::of_process().health().into_iter().find(|one| one.part == PART);
        assert!(found.unwrap().problem.unwrap().starts_with("panicked"));
    }
}
