//! Objects that the node's pods name: read by name alone, as the Node authorizer allows, watched as long as a
//! pod names them, and kept while the API server does not answer.

mod claims;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod follow;
mod services;
mod slim;
#[cfg(test)]
mod tests;
mod tokens;
mod watched;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1;
use k8s_openapi::api::node::v1::RuntimeClass;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::Connection;
use crate::by_value::Api;
use nodewarden_config::ChangeDetection;
use nodewarden_manifest::Pod;
use nodewarden_pods::objects::{
    BoundVolume, ConfigMap, ObjectError, ObjectKind, Objects, Secret, Service, TokenRequest, named,
};
use services::Services;
use tokens::Tokens;
use watched::{Key, Value, Watched};

/// How long a read of one object may take.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// Starts to keep the objects that pods name. Also returns the uids of pods of which an object has changed,
/// or a token is due for renewal. Must be called inside a tokio runtime.
pub fn start(
    connection: Connection,
    detection: ChangeDetection,
) -> (Arc<dyn Objects>, mpsc::UnboundedReceiver<String>) {
    let (changes, changed) = mpsc::unbounded_channel();
    let objects = ApiObjects {
        tokens: Tokens::start(connection.clone(), changes.clone()),
        services: Services::new(connection.clone()),
        watched: Watched::new(connection.clone(), detection, changes),
        handlers: Mutex::default(),
        connection,
    };
    (Arc::new(objects), changed)
}

/// What `nodewarden-pods` knows as [`Objects`].
#[derive(Debug)]
struct ApiObjects {
    connection: Connection,
    watched: Watched,
    tokens: Tokens,
    services: Services,
    /// Handlers of runtime classes, which never change.
    handlers: Mutex<HashMap<String, String>>,
}

#[async_trait]
impl Objects for ApiObjects {
    fn register(&self, pod: &Pod) {
        let key = |named: nodewarden_pods::objects::NamedObject| Key {
            kind: named.kind,
            namespace: pod.namespace.clone(),
            name: named.name,
        };
        self.watched.register(&pod.uid, named(pod).into_iter().map(key).collect());
    }

    fn forget(&self, uid: &str) {
        self.watched.register(uid, Default::default());
        self.tokens.forget(uid);
    }

    async fn config_map(&self, namespace: &str, name: &str) -> Result<Arc<ConfigMap>, ObjectError> {
        let kind = ObjectKind::ConfigMap;
        match self.watched.get(Key { kind, namespace: namespace.to_owned(), name: name.to_owned() }).await? {
            Value::ConfigMap(map) => Ok(map),
            Value::Secret(_) => Err(ObjectError::NotFound { kind, name: name.to_owned() }),
        }
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Arc<Secret>, ObjectError> {
        let kind = ObjectKind::Secret;
        match self.watched.get(Key { kind, namespace: namespace.to_owned(), name: name.to_owned() }).await? {
            Value::Secret(secret) => Ok(secret),
            Value::ConfigMap(_) => Err(ObjectError::NotFound { kind, name: name.to_owned() }),
        }
    }

    async fn token(&self, request: &TokenRequest) -> Result<Arc<str>, ObjectError> {
        self.tokens.get(request).await
    }

    async fn services(&self, namespace: &str) -> Result<Vec<Service>, ObjectError> {
        self.services.seen_from(namespace).await
    }

    async fn bound_volume(
        &self,
        namespace: &str,
        claim: &str,
        owner: Option<&str>,
    ) -> Result<BoundVolume, ObjectError> {
        let claims: Api<v1::PersistentVolumeClaim> = Api::namespaced(self.connection.client(), namespace);
        let found = read(ObjectKind::PersistentVolumeClaim, claim, claims.get(claim)).await?;
        let fail = |reason| ObjectError::Claim { name: claim.to_owned(), reason };
        let volume = claims::volume_of(&found, owner).map_err(fail)?;
        let volumes: Api<v1::PersistentVolume> = Api::all(self.connection.client());
        let volume = read(ObjectKind::PersistentVolume, &volume, volumes.get(&volume)).await?;
        claims::bound(&found, volume.0).map_err(fail)
    }

    async fn runtime_handler(&self, class: &str) -> Result<String, ObjectError> {
        if let Some(handler) = self.handlers.lock().get(class) {
            return Ok(handler.clone());
        }
        let classes: Api<RuntimeClass> = Api::all(self.connection.client());
        let found = read(ObjectKind::RuntimeClass, class, classes.get(class)).await?;
        self.handlers.lock().insert(class.to_owned(), found.handler.clone());
        Ok(found.0.handler)
    }

    async fn node_labels(&self) -> Result<BTreeMap<String, String>, ObjectError> {
        let node = self.connection.node();
        let nodes: Api<v1::Node> = Api::all(self.connection.client());
        let found = read(ObjectKind::Node, node, nodes.get(node)).await?;
        Ok(found.0.metadata.labels.unwrap_or_default())
    }
}

/// The result of a read, within the limit.
async fn read<T>(
    kind: ObjectKind,
    name: &str,
    reading: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ObjectError> {
    let unread = |reason| ObjectError::Unread { kind, name: name.to_owned(), reason };
    match tokio::time::timeout(READ_LIMIT, reading).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) if code(&error) == Some(404) => {
            Err(ObjectError::NotFound { kind, name: name.to_owned() })
        }
        Ok(Err(error)) => Err(unread(words(&error))),
        Err(_) => Err(unread(format!("no answer within {} s", READ_LIMIT.as_secs()))),
    }
}

/// The HTTP status of the API server's answer.
fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// What went wrong, as the API server says it or with all causes.
fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
