//! The task that writes events.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use kube::api::{Patch, PatchParams, PostParams};
use nodewarden_metrics::Own;
use nodewarden_model::backoff::Backoff;
use nodewarden_model::{Detail, Event};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::{LOST_SUBSCRIBER, Subscription};
use tracing::{debug, warn};

use super::correlate::{Correlator, Entry, Write};
use super::object::{KUBELET, namespace, object, patch};
use super::pending::is_too_old;
use super::reason::{of_the_node, published};
use super::sent::{Beginning, Position, Sent};
use super::{Events, Involved, Occurrence};
use crate::Connection;
use crate::by_value::{self, ByValue};
use crate::status::answer::{Answer, of_error};
use nodewarden_tasks::rate::Rate;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// While the API server does not answer.
const AGAIN: Backoff = Backoff::doubling(Duration::from_millis(500), Duration::from_secs(10));
/// An event that the API server has no time for is given up after so many times (client-go:
/// `maxTriesPerEvent`).
const TRIES: u32 = 12;

/// How many events may be written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Events a second (`eventRecordQPS`); 0 for no limit.
    pub per_second: f64,
    /// Events at once after a pause (`eventBurst`).
    pub burst: u32,
}

impl Default for Settings {
    /// A kubelet's.
    fn default() -> Self {
        Self { per_second: 50.0, burst: 100 }
    }
}

/// Writes events to the API server: those of pods and of the node from the journal, and what is reported in
/// [`Events`].
#[derive(Debug)]
pub struct EventSender {
    connection: Connection,
    component: &'static str,
    events: Events,
    journal: Option<(Subscription, Sent)>,
    pods: PodStatusCache,
    correlator: Correlator,
    rate: Rate,
}

impl EventSender {
    /// What comes from the journal is written while [`Self::run`] runs, and how far that is.
    pub fn new(
        connection: Connection,
        events: Events,
        journal: (Subscription, Sent),
        pods: PodStatusCache,
        settings: Settings,
    ) -> Self {
        let rate = Rate::new(settings.per_second, settings.burst, Instant::now());
        let journal = Some(journal);
        let component = KUBELET;
        Self { connection, component, events, journal, pods, correlator: Correlator::default(), rate }
    }

    /// Writes only what is reported in `events`, as this component.
    pub fn of_reported(
        connection: Connection,
        component: &'static str,
        events: Events,
        settings: Settings,
    ) -> Self {
        let rate = Rate::new(settings.per_second, settings.burst, Instant::now());
        let (pods, correlator) = (PodStatusCache::default(), Correlator::default());
        Self { connection, component, events, journal: None, pods, correlator, rate }
    }

    /// Writes events for as long as it is polled; ends with the journal.
    pub async fn run(self) {
        let Self { connection, component, events, journal, pods, mut correlator, mut rate } = self;
        let node = connection.node().to_owned();
        let (journal, mut sent) = journal.unzip();
        let read = {
            let beginning = sent.as_ref().map(Sent::beginning);
            let (node, events, pods) = (&node, &events, &pods);
            async move {
                let Some((mut journal, beginning)) = journal.zip(beginning) else {
                    return std::future::pending().await;
                };
                while let Some(event) = journal.next().await {
                    read_entry(&event, beginning, node, events, pods);
                }
            }
        };
        let api = Api { connection, component };
        let write = async {
            loop {
                let next = {
                    let mut pending = events.0.pending.lock();
                    let next = pending.pop(Timestamp::now());
                    count("dropped", pending.take_dropped());
                    next
                };
                let Some((next, entry)) = next else {
                    if let Some(sent) = &mut sent {
                        sent.save(Instant::now());
                    }
                    events.0.ring.notified().await;
                    continue;
                };
                match correlator.take(next, Instant::now()) {
                    Write::Skip => count("limited", 1),
                    Write::Create(entry) => send(&api, entry, true, &mut correlator, &mut rate).await,
                    Write::Update(entry) => send(&api, entry, false, &mut correlator, &mut rate).await,
                }
                if let (Some(sent), Some(entry)) = (&mut sent, entry) {
                    sent.reached(entry, Instant::now());
                }
            }
        };
        tokio::select! {
            () = read => {}
            () = write => {}
        }
    }
}

/// Takes over what users of the API want to know.
fn read_entry(event: &Event, beginning: Beginning, node: &str, events: &Events, pods: &PodStatusCache) {
    let entry = Position { seq: event.seq, time: event.time };
    match &event.detail {
        Detail::Lost { lost_type, count } if lost_type == LOST_SUBSCRIBER => {
            events.0.pending.lock().lost(*count);
        }
        _ if !beginning.wants(entry) => {}
        _ => {
            if let Some(occurrence) = occurrence(event, node, pods) {
                events.add(occurrence, Some(entry));
            }
        }
    }
}

/// What an entry of the journal is at the API: an event of its pod, or of the node of this name.
fn occurrence(event: &Event, node: &str, pods: &PodStatusCache) -> Option<Occurrence> {
    let (involved, kind, reason, message) = match &event.detail {
        Detail::Pod { reason, message } => {
            let ((kind, reason), place) = (published(reason)?, event.pod.as_ref()?);
            let view = pods.get(&place.uid);
            let involved = Involved::pod(place, view.as_deref().map(|view| &*view.pod));
            (involved, kind, reason, message)
        }
        Detail::Agent { reason, message } | Detail::Hierarchy { reason, message } => {
            (Involved::node(node), of_the_node(reason)?, reason.as_str(), message)
        }
        _ => return None,
    };
    Some(Occurrence { involved, kind, reason: reason.to_owned(), message: message.clone(), time: event.time })
}

/// Writes one event, for as long as it makes sense.
async fn send(api: &Api, entry: Entry, mut new: bool, correlator: &mut Correlator, rate: &mut Rate) {
    let (mut refusals, mut away) = (0, AGAIN);
    loop {
        while let Some(wait) = rate.wait(Instant::now()) {
            tokio::time::sleep(wait).await;
        }
        rate.take(Instant::now());
        let answer = match tokio::time::timeout(TIMEOUT, write(api, &entry, new)).await {
            Ok(Ok(())) => return count("written", 1),
            Ok(Err(error)) => {
                if namespace_ends(&error) {
                    break;
                }
                let answer = of_error(&error);
                debug!(
                    event = entry.name,
                    reason = entry.last.reason,
                    "an event could not be written: {error}"
                );
                answer
            }
            Err(_) => Answer::Away,
        };
        let wait = match answer {
            // What was there has outlived its time at the API server.
            Answer::Gone if !new => {
                new = true;
                continue;
            }
            // Its namespace is gone or ends, or it is there already.
            Answer::Gone | Answer::Written(_) => break,
            Answer::Refused(Some(after)) if refusals < TRIES => {
                refusals += 1;
                after
            }
            // It would be refused again.
            Answer::Refused(_) => {
                warn!(event = entry.name, reason = entry.last.reason, "the API server refuses an event");
                break;
            }
            Answer::Away => away.advance(),
        };
        if is_too_old(&entry.last, Timestamp::now()) {
            break;
        }
        tokio::time::sleep(wait).await;
    }
    correlator.forget(entry.key);
    count("dropped", 1);
}

/// Where events are written, and as whose.
struct Api {
    connection: Connection,
    component: &'static str,
}

async fn write(api: &Api, entry: &Entry, new: bool) -> Result<(), kube::Error> {
    let Api { connection, component } = api;
    let events: by_value::Api<v1::Event> = by_value::Api::namespaced(connection.client(), namespace(entry));
    if new {
        events.create(&PostParams::default(), &ByValue(object(entry, component, connection.node()))).await?;
    } else {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch(entry)));
        events.patch(&entry.name, &params, &patch).await?;
    }
    Ok(())
}

/// Nothing can be made in a namespace that is being deleted (apiserver admission plugin
/// `NamespaceLifecycle`), which is how most namespaces end, pods first.
fn namespace_ends(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// Counts events by what became of them.
fn count(result: &'static str, events: u64) {
    if events > 0 {
        ::metrics::counter!(Own::KubeEvents.name(), "result" => result).increment(events);
    }
}

#[cfg(test)]
mod tests {
    use kube::core::response::{Status, StatusCause, StatusDetails};
    use nodewarden_model::PodRef;

    use super::*;
    use crate::events::Kind;

    fn refusal(reasons: &[&str]) -> kube::Error {
        let cause = |reason: &&str| StatusCause {
            reason: (*reason).to_owned(),
            message: "namespace web is being terminated".to_owned(),
            field: "metadata.namespace".to_owned(),
        };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: "events".to_owned(),
            uid: String::new(),
            causes: reasons.iter().map(cause).collect(),
            retry_after_seconds: 0,
        };
        let status = Status::failure("events is forbidden", "Forbidden").with_code(403);
        kube::Error::Api(Box::new(status.with_details(details)))
    }

    #[test]
    fn a_refusal_because_the_namespace_ends_differs_from_others() {
        assert!(namespace_ends(&refusal(&["NamespaceTerminating"])));
        assert!(namespace_ends(&refusal(&["FieldValueInvalid", "NamespaceTerminating"])));
        assert!(!namespace_ends(&refusal(&["FieldValueInvalid"])));
        assert!(!namespace_ends(&refusal(&[])), "a node that may not write events");
        let status = Status::failure("events is forbidden", "Forbidden").with_code(403);
        assert!(!namespace_ends(&kube::Error::Api(Box::new(status))));
        assert!(!namespace_ends(&kube::Error::LinesCodecMaxLineLengthExceeded));
    }

    #[test]
    fn entries_of_the_journal_are_events_of_their_pod_or_of_the_node() {
        let (reason, message) =
            ("EvictionThresholdMet".to_owned(), "Attempting to reclaim memory".to_owned());
        let place =
            PodRef { uid: "u".into(), namespace: "shop".into(), name: "cart".into(), ..PodRef::default() };
        let entry = |pod: Option<&PodRef>, detail: &Detail| {
            let (cgroup, pod, detail) = (String::new(), pod.cloned(), detail.clone());
            let event = Event { seq: 1, time: Timestamp::UNIX_EPOCH, cgroup, pod, detail };
            let found = occurrence(&event, "node-1", &PodStatusCache::default())?;
            Some((found.involved.kind, found.involved.name, found.kind, found.reason, found.message))
        };
        let of_node =
            |kind, reason: &String| Some(("Node", "node-1".into(), kind, reason.clone(), message.clone()));
        let of_agent = Detail::Agent { reason: reason.clone(), message: message.clone() };
        assert_eq!(entry(None, &of_agent), of_node(Kind::Warning, &reason));
        let reason = "NodeAllocatableEnforced".to_owned();
        let of_hierarchy = Detail::Hierarchy { reason: reason.clone(), message: message.clone() };
        assert_eq!(entry(None, &of_hierarchy), of_node(Kind::Normal, &reason));
        let ready = Detail::Agent { reason: "NodeReady".into(), message: message.clone() };
        assert_eq!(entry(None, &ready), None, "what writes the node object reports it");
        let of_pod = Detail::Pod { reason: "Started".into(), message: message.clone() };
        let expected = ("Pod", "cart".into(), Kind::Normal, "Started".into(), message.clone());
        assert_eq!(entry(Some(&place), &of_pod), Some(expected));
        assert_eq!(entry(None, &of_pod), None, "it is not known which pod");
        assert_eq!(entry(None, &Detail::CgroupRemoved {}), None);
    }
}
