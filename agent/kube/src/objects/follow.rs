//! Lists objects and watches them from there on, for as long as the caller wants.

use std::time::Duration;

use futures_util::TryStreamExt;
use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use kube::core::WatchEvent;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::words;
use crate::by_value::ByValue;
use crate::{Connection, watched_lines};
use nodewarden_model::backoff::Backoff;

/// How long to wait after an error; short at first, since the authorizer of nodes learns of a pod a moment
/// after the node does.
pub(super) const AGAIN: Backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(30));
/// How long the API server keeps a watch open, in seconds: five minutes and up to as much again, as a
/// kubelet's.
const WATCH_SECONDS: u64 = 300;
/// Watches that lasted so long were well: the next wait after an error is the shortest again.
const STEADY: Duration = Duration::from_secs(30);
/// A list that takes longer has failed.
const LIST_LIMIT: Duration = Duration::from_secs(30);

/// Which objects are followed.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// Path of the list at the API server.
    pub(crate) path: String,
    /// The only one of these that is wanted.
    pub(crate) name: Option<String>,
}

/// What has become known of the objects.
#[derive(Debug)]
pub(crate) enum Update<K> {
    /// All there are.
    All(Vec<K>),
    /// This one is new or has changed.
    Set(K),
    /// This one is gone.
    Removed(K),
    /// They could not be read; what was known stays. Tried again.
    Failed(String),
}

/// What the caller wants after an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    GoOn,
    Stop,
}

#[derive(Deserialize)]
struct List<K> {
    metadata: ListMeta,
    // `null` where there are none.
    items: Option<Vec<K>>,
}

impl Selection {
    fn request(&self, watch: Option<&str>) -> Result<http::Request<Vec<u8>>, String> {
        let mut uri = format!("{}?", self.path);
        if let Some(name) = &self.name {
            // A name is a DNS subdomain: nothing of it needs escaping.
            uri.push_str(&format!("fieldSelector=metadata.name%3D{name}&"));
        }
        if let Some(version) = watch {
            let seconds = WATCH_SECONDS + random(WATCH_SECONDS);
            uri.push_str(&format!(
                "watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}"
            ));
        }
        let uri = uri.trim_end_matches(['&', '?']);
        http::Request::get(uri).body(Vec::new()).map_err(|error| error.to_string())
    }

    /// Whether an object with these metadata is one of the selection. A watch that reports another one is
    /// broken: what it says of that object would be believed of the wanted one.
    fn has(&self, metadata: &ObjectMeta) -> bool {
        let namespace = self.path.split_once("/namespaces/").and_then(|(_, rest)| rest.split_once('/'));
        let is = |wanted: Option<&str>, found: &Option<String>| {
            wanted.is_none_or(|wanted| found.as_deref() == Some(wanted))
        };
        is(self.name.as_deref(), &metadata.name) && is(namespace.map(|(name, _)| name), &metadata.namespace)
    }
}

/// Lists and watches, and calls `on` with everything that becomes known, until that returns [`Then::Stop`].
/// `again` are the waits after errors.
pub(crate) async fn follow<K>(
    connection: &Connection,
    selection: &Selection,
    mut again: Backoff,
    mut on: impl FnMut(Update<K>) -> Then,
) where
    K: Clone + DeserializeOwned + Metadata<Ty = ObjectMeta>,
{
    loop {
        match list(connection, selection).await {
            Ok((all, mut version)) => {
                if on(Update::All(all)) == Then::Stop {
                    return;
                }
                let begun = tokio::time::Instant::now();
                loop {
                    match watch(connection, selection, &mut version, &mut on).await {
                        Ok(Then::GoOn) => {}
                        Ok(Then::Stop) => return,
                        // Too old a version, or a watch that broke: listed again.
                        Err(reason) => {
                            tracing::debug!(path = selection.path, name = selection.name, "watch: {reason}");
                            break;
                        }
                    }
                }
                if begun.elapsed() > STEADY {
                    again.reset();
                }
                tokio::time::sleep(again.advance()).await;
            }
            Err(reason) => {
                if on(Update::Failed(reason)) == Then::Stop {
                    return;
                }
                tokio::time::sleep(again.advance()).await;
            }
        }
    }
}

/// All objects of the selection, and the version of the list.
pub(super) async fn list<K: DeserializeOwned>(
    connection: &Connection,
    selection: &Selection,
) -> Result<(Vec<K>, String), String> {
    let reading = async {
        let request = selection.request(None)?;
        let text = connection.client().request_text(request).await.map_err(|error| words(&error))?;
        // The text is in no message: it may be that of a secret.
        let list: List<ByValue<K>> = serde_json::from_str(&text).map_err(|error| {
            format!("not a list of objects: {:?} at column {}", error.classify(), error.column())
        })?;
        let items = list.items.unwrap_or_default().into_iter().map(|item| item.0).collect();
        Ok((items, list.metadata.resource_version.unwrap_or_default()))
    };
    let late = || Err(format!("no answer within {} s", LIST_LIMIT.as_secs()));
    tokio::time::timeout(LIST_LIMIT, reading).await.unwrap_or_else(|_| late())
}

/// Watches from `version` on, which moves along, until the API server ends the watch as agreed.
async fn watch<K>(
    connection: &Connection,
    selection: &Selection,
    version: &mut String,
    on: &mut impl FnMut(Update<K>) -> Then,
) -> Result<Then, String>
where
    K: Clone + DeserializeOwned + Metadata<Ty = ObjectMeta>,
{
    let request = selection.request(Some(version))?;
    let begun = tokio::time::Instant::now();
    let client = connection.client();
    let events = watched_lines::events::<ByValue<K>>(&client, request);
    let events = tokio::time::timeout(LIST_LIMIT, events).await.map_err(|_| "no answer".to_owned())?;
    let mut events = std::pin::pin!(events.map_err(|error| words(&error))?);
    // The API server ends it before; if it does not, the connection is dead.
    let end = begun + Duration::from_secs(2 * WATCH_SECONDS + 60);
    loop {
        let next = tokio::time::timeout_at(end, events.try_next()).await.map_err(|_| "no end".to_owned())?;
        let Some(event) = next.map_err(|error| words(&error))? else { break };
        let update = match event {
            WatchEvent::Added(other) | WatchEvent::Modified(other) | WatchEvent::Deleted(other)
                if !selection.has(other.metadata()) =>
            {
                return Err("an event of an object that was not asked for".to_owned());
            }
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                note_version(version, object.metadata());
                Update::Set(object.0)
            }
            WatchEvent::Deleted(object) => {
                note_version(version, object.metadata());
                Update::Removed(object.0)
            }
            WatchEvent::Bookmark(bookmark) => {
                version.clone_from(&bookmark.metadata.resource_version);
                continue;
            }
            WatchEvent::Error(status) => return Err(format!("{} {}", status.code, status.message)),
        };
        if on(update) == Then::Stop {
            return Ok(Then::Stop);
        }
    }
    // One that ends at once, again and again, is no watch.
    if begun.elapsed() < Duration::from_secs(1) {
        return Err("ended at once".to_owned());
    }
    Ok(Then::GoOn)
}

fn note_version(version: &mut String, metadata: &ObjectMeta) {
    if let Some(newer) = &metadata.resource_version {
        version.clone_from(newer);
    }
}

/// A number below `bound`, from the randomness of the standard library's hashes.
pub(super) fn random(bound: u64) -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % bound.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_selected_by_its_name() {
        let path = "/api/v1/namespaces/ns/secrets".to_owned();
        let one = Selection { path: path.clone(), name: Some("s.1".to_owned()) };
        let uri = |request: http::Request<Vec<u8>>| request.uri().to_string();
        assert_eq!(uri(one.request(None).unwrap()), format!("{path}?fieldSelector=metadata.name%3Ds.1"));
        let watch = uri(one.request(Some("7")).unwrap());
        assert!(
            watch.starts_with(&format!("{path}?fieldSelector=metadata.name%3Ds.1&watch=true&")),
            "{watch}"
        );
        assert!(watch.ends_with("&resourceVersion=7"), "{watch}");
        let all = Selection { path: path.clone(), name: None };
        assert_eq!(uri(all.request(None).unwrap()), path);
    }

    #[test]
    fn objects_of_other_names_and_namespaces_are_not_selected() {
        let metadata = |namespace: Option<&str>, name: &str| ObjectMeta {
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let path = "/api/v1/namespaces/ns/secrets".to_owned();
        let one = Selection { path: path.clone(), name: Some("s".to_owned()) };
        let all = Selection { path, name: None };
        let node = Selection { path: "/api/v1/nodes".to_owned(), name: Some("s".to_owned()) };
        for (namespace, name, expected) in [
            (Some("ns"), "s", [true, true, true]),
            (Some("ns"), "t", [false, true, false]),
            (Some("elsewhere"), "s", [false, false, true]),
            (None, "s", [false, false, true]),
        ] {
            let metadata = metadata(namespace, name);
            let found = [&one, &all, &node].map(|selection| selection.has(&metadata));
            assert_eq!(found, expected, "{namespace:?} {name}");
        }
        assert!(!one.has(&ObjectMeta::default()));
    }
}
