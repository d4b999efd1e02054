//! Lists and watches the API server's pods, whatever goes wrong with it.
//!
//! A list is consistent (read from etcd, not from a cache that may be behind) and comes in pages. A watch
//! that ends is continued from the version that was seen last. What cannot be continued (410, events that
//! cannot be read) begins with a list again. Nothing is ever concluded from an API server that does not
//! answer.

use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use kube::core::metadata::ListMeta;
use nodewarden_pods::source::DesiredSender;
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use tracing::{debug, info, warn};

use super::decode::{self, SeenPod};
use super::pace::{Pace, jittered};
use super::refused::Shown;
use super::state::ApiPods;
use crate::known_pods::{KnownPod, PodKey};
use crate::{Connection, KnownPods, watched_lines};

const PODS: &str = "/api/v1/pods";
/// Pods in one page of a list.
const PAGE: u32 = 250;
/// How long a request may take.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a watch lasts; spread, so that nodes do not begin theirs together.
const WATCH: Duration = Duration::from_secs(200);
/// What the client of the API accepts as a watch's length, in seconds.
const LONGEST_WATCH: u32 = 294;
/// A watch without any sign of life for so long is begun again: its connection may be dead. (Servers send a
/// bookmark about every minute.)
const SILENT: Duration = Duration::from_secs(150);
/// A watch that ends sooner counts as a failure.
const SHORT: Duration = Duration::from_secs(1);
/// After so long everything is listed again, which finds what a watch may have skipped.
const RELIST: Duration = Duration::from_secs(45 * 60);
/// The same after a list with an item of which it is not known which pod it is.
const RELIST_PART: Duration = Duration::from_secs(30);

/// A pod that the API server turned out not to have, by its name and uid.
pub type Gone = (PodKey, Box<str>);

/// Follows the pods of one node.
pub struct Follower {
    connection: Connection,
    status: PodStatusCache,
    known: KnownPods,
    pods: ApiPods,
    changes: DesiredSender,
    shown: Shown,
    journal: Option<Journal>,
}

/// How a watch ended.
#[derive(Debug)]
enum WatchEnd {
    /// It is continued from this version.
    Continue(String),
    /// Everything is listed again.
    Relist(String),
}

/// A list of pods of which none is read yet.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    #[serde(default, deserialize_with = "null_is_empty")]
    items: Vec<Value>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Value>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Follower {
    /// `journal` is where refused pods are recorded.
    pub fn new(
        connection: Connection,
        status: PodStatusCache,
        known: KnownPods,
        pods: ApiPods,
        changes: DesiredSender,
        journal: Option<Journal>,
    ) -> Self {
        Self { connection, status, known, pods, changes, shown: Shown::default(), journal }
    }

    /// Runs until it is dropped. `gone`: pods that a request found not to be there.
    pub async fn run(mut self, mut gone: mpsc::UnboundedReceiver<Gone>) {
        let mut pace = Pace::default();
        let mut failing = false;
        let mut connection = self.connection.clone();
        loop {
            self.connection.identified().await;
            let (version, all) = match self.list().await {
                Ok(listed) => listed,
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        warn!("pods cannot be listed: {error}; those that run go on");
                    }
                    debug!("pods cannot be listed: {error}");
                    tokio::select! {
                        () = pace.failed(error.kube()) => {}
                        // Newer credentials may be good where the former were not.
                        () = connection.renewed() => {}
                    }
                    continue;
                }
            };
            if std::mem::replace(&mut failing, false) {
                info!("the API server's pods are listed again");
            }
            pace.succeeded();
            let relist = Instant::now() + jittered(if all { RELIST } else { RELIST_PART });
            let why = self.watch(version, relist, &mut gone, &mut pace).await;
            debug!("pods are listed again: {why}");
        }
    }

    /// Watches from a version on, again and again; returns why everything has to be listed again.
    async fn watch(
        &mut self,
        mut version: String,
        relist: Instant,
        gone: &mut mpsc::UnboundedReceiver<Gone>,
        pace: &mut Pace,
    ) -> String {
        loop {
            if Instant::now() >= relist {
                return "it is time".to_owned();
            }
            let begun = Instant::now();
            match self.watch_once(version.clone(), relist, gone).await {
                Ok(WatchEnd::Continue(seen)) => {
                    version = seen;
                    if begun.elapsed() < SHORT {
                        pace.failed(None).await;
                    } else {
                        pace.succeeded();
                    }
                }
                Ok(WatchEnd::Relist(why)) => {
                    // Not in a circle with a server that sends nothing else.
                    pace.failed(None).await;
                    return why;
                }
                Err(error) => {
                    debug!("the watch of pods failed: {error}");
                    pace.failed(error.kube()).await;
                    if error.is_refusal() {
                        return error.to_string();
                    }
                }
            }
        }
    }

    /// Reads every pod, and takes them over at once. Returns the list's version, and whether it is known of
    /// every item which pod it is.
    async fn list(&mut self) -> Result<(String, bool), FollowError> {
        let mut seen: Vec<SeenPod> = Vec::new();
        let mut known: Vec<KnownPod> = Vec::new();
        let mut all = true;
        let mut params = ListParams::default().fields(&self.selector()).limit(PAGE);
        let version = loop {
            let request = Request::new(PODS).list(&params)?;
            let client = self.connection.client();
            let page = timeout(ANSWER, client.request::<Page>(request));
            let Page { metadata, items } = page.await.map_err(|_| FollowError::Silent)??;
            for item in items {
                match decode::decode(item) {
                    Ok((pod, own)) => {
                        // What could not be read whole is there all the same.
                        let before = || Some((*self.known.get(&pod.key)?).clone());
                        known.extend(own.or_else(before));
                        seen.push(pod);
                    }
                    Err(error) => {
                        warn!("{error}: pods that are not in the list stay");
                        all = false;
                    }
                }
            }
            match metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break metadata.resource_version.unwrap_or_default(),
            }
        };
        if version.is_empty() {
            return Err(FollowError::NoVersion);
        }
        self.known.replace(known);
        if self.pods.list(seen, all, Timestamp::now()) {
            self.send();
        }
        Ok((version, all))
    }

    /// One watch, from its beginning to its end.
    async fn watch_once(
        &mut self,
        mut version: String,
        relist: Instant,
        gone: &mut mpsc::UnboundedReceiver<Gone>,
    ) -> Result<WatchEnd, FollowError> {
        let longest = jittered(WATCH).min(relist.duration_since(Instant::now()) + SHORT);
        let seconds = u32::try_from(longest.as_secs()).unwrap_or(u32::MAX);
        let params = WatchParams::default().fields(&self.selector()).timeout(seconds.min(LONGEST_WATCH));
        let request = Request::new(PODS).watch(&params, &version)?;
        let client = self.connection.client();
        let events = timeout(ANSWER, watched_lines::events::<Value>(&client, request));
        let events = events.await.map_err(|_| FollowError::Silent)??;
        let mut events = pin!(events);
        loop {
            let event = tokio::select! {
                event = timeout(SILENT, events.next()) => event,
                Some((key, uid)) = gone.recv() => {
                    self.known.remove(&key, &uid);
                    if self.pods.remove(&key, &uid) {
                        self.send();
                    }
                    continue;
                }
            };
            let Ok(event) = event else { return Ok(WatchEnd::Continue(version)) };
            let Some(event) = event else { return Ok(WatchEnd::Continue(version)) };
            let mut changed = false;
            let mut end = self.take(event, &mut version, &mut changed);
            // What has arrived meanwhile is taken over with it.
            while end.is_none()
                && let Some(Some(event)) = events.next().now_or_never()
            {
                end = self.take(event, &mut version, &mut changed);
            }
            if changed {
                self.send();
            }
            match end {
                Some(end) => return end,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Takes over one event; `Some`: the watch ends with it.
    fn take(
        &mut self,
        event: Result<WatchEvent<Value>, kube::Error>,
        version: &mut String,
        changed: &mut bool,
    ) -> Option<Result<WatchEnd, FollowError>> {
        let (object, is_there) = match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, true),
            Ok(WatchEvent::Deleted(object)) => (object, false),
            Ok(WatchEvent::Bookmark(bookmark)) => {
                *version = bookmark.metadata.resource_version;
                return None;
            }
            Ok(WatchEvent::Error(status)) => return Some(Ok(WatchEnd::Relist(status.to_string()))),
            Err(error @ (kube::Error::SerdeError(_) | kube::Error::Api(_))) => {
                return Some(Ok(WatchEnd::Relist(error.to_string())));
            }
            Err(error) => {
                debug!("the watch of pods broke: {error}");
                return Some(Ok(WatchEnd::Continue(std::mem::take(version))));
            }
        };
        let now_at = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).map(str::to_owned);
        match decode::decode(object) {
            Ok((pod, known)) if is_there => {
                // An old event that comes again says nothing of what is there now.
                if let Some(known) = known.filter(|_| !self.pods.is_old(&pod)) {
                    self.known.set(known);
                }
                *changed |= self.pods.set(pod, Timestamp::now());
            }
            Ok((pod, _)) => {
                self.known.remove(&pod.key, &pod.uid);
                *changed |= self.pods.remove(&pod.key, &pod.uid);
            }
            Err(error) => return Some(Ok(WatchEnd::Relist(error.to_string()))),
        }
        if let Some(now_at) = now_at {
            *version = now_at;
        }
        None
    }

    fn send(&mut self) {
        self.shown.show(self.pods.refused(), &self.status, self.journal.as_ref());
        (self.changes)(self.pods.desired());
    }

    fn selector(&self) -> String {
        format!("spec.nodeName={}", self.connection.node())
    }
}

/// Why the API server's pods could not be read.
#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error("{0}")]
    Kube(Box<kube::Error>),
    #[error("the API server does not answer")]
    Silent,
    #[error("the API server's list has no resourceVersion")]
    NoVersion,
    #[error("{0}")]
    Request(#[from] kube::core::request::Error),
}

impl From<kube::Error> for FollowError {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

impl FollowError {
    fn kube(&self) -> Option<&kube::Error> {
        match self {
            Self::Kube(error) => Some(error),
            _ => None,
        }
    }

    /// The API server answers, and does not want to continue: 410, or a version that it has not come to yet.
    /// Not 429, nor that the credentials are no longer good, for which the next try has newer ones.
    fn is_refusal(&self) -> bool {
        matches!(self.kube(), Some(kube::Error::Api(status)) if !matches!(status.code, 401 | 403 | 429))
    }
}
