//! The services of the cluster, for the environment of containers. Watched from the first container on that
//! needs them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use k8s_openapi::api::core::v1;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::follow::{self, Selection, Then, Update};
use super::slim;
use crate::Connection;
use nodewarden_pods::objects::{ObjectError, ObjectKind, Service};
use nodewarden_tasks::parts;

/// How long a caller waits for the first list.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the task may work without giving its thread back.
const TASK_LIMIT: Duration = Duration::from_secs(60);

/// Services by namespace and name.
type Known = BTreeMap<(String, String), Service>;

/// The services that have an address.
#[derive(Debug)]
pub(super) struct Services {
    connection: Connection,
    begun: OnceLock<Arc<Kept>>,
}

#[derive(Debug)]
struct Kept {
    known: Mutex<Known>,
    /// Whether they were listed; else why not.
    listed: watch::Sender<Result<(), String>>,
}

impl Services {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, begun: OnceLock::new() }
    }

    fn kept(&self) -> &Kept {
        self.begun.get_or_init(|| {
            let unread = Err("the API server has not answered yet".to_owned());
            let kept = Arc::new(Kept { known: Mutex::default(), listed: watch::Sender::new(unread) });
            let (connection, weak) = (self.connection.clone(), Arc::downgrade(&kept));
            let part = parts::register("services of the cluster", TASK_LIMIT);
            tokio::spawn(part.task(async move {
                let all = Selection { path: "/api/v1/services".to_owned(), name: None };
                follow::follow::<v1::Service>(&connection, &all, follow::AGAIN, |update| {
                    match weak.upgrade() {
                        Some(kept) => {
                            kept.take(update);
                            Then::GoOn
                        }
                        None => Then::Stop,
                    }
                })
                .await;
            }));
            kept
        })
    }

    /// Those of a namespace, and that of the API server.
    pub(super) async fn seen_from(&self, namespace: &str) -> Result<Vec<Service>, ObjectError> {
        let kept = self.kept();
        let mut listed = kept.listed.subscribe();
        // Time-out or not: what is known counts.
        let _ = tokio::time::timeout(PATIENCE, listed.wait_for(Result::is_ok)).await;
        if let Err(reason) = &*listed.borrow() {
            let reason = reason.clone();
            return Err(ObjectError::Unread { kind: ObjectKind::Service, name: "*".to_owned(), reason });
        }
        let known = kept.known.lock();
        let is_seen = |service: &&Service| {
            service.namespace == namespace || (service.namespace == "default" && service.name == "kubernetes")
        };
        Ok(known.values().filter(is_seen).cloned().collect())
    }
}

impl Kept {
    fn take(&self, update: Update<v1::Service>) {
        match update {
            Update::All(all) => {
                let all = all.into_iter().filter_map(slim::service);
                *self.known.lock() = all.map(|service| (key(&service), service)).collect();
                drop(self.listed.send_replace(Ok(())));
            }
            Update::Set(service) => {
                let name = named(&service);
                let mut known = self.known.lock();
                match slim::service(service) {
                    Some(service) => known.insert(name, service),
                    None => known.remove(&name),
                };
            }
            Update::Removed(service) => drop(self.known.lock().remove(&named(&service))),
            Update::Failed(reason) => {
                self.listed.send_if_modified(|listed| match listed {
                    Ok(()) => false,
                    Err(known) => {
                        *known = reason;
                        true
                    }
                });
            }
        }
    }
}

fn key(service: &Service) -> (String, String) {
    (service.namespace.clone(), service.name.clone())
}

fn named(service: &v1::Service) -> (String, String) {
    let metadata = &service.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
