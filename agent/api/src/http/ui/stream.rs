//! The stream of one page: frames of the node, and events of the journal at the moment they are appended.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::super::endpoint::Endpoint;
use super::hub::{Hub, PAGES, Page};
use nodewarden_model::{Detail, Event, EventType, Place};
use nodewarden_storage::journal::Subscription;

/// Events of this time before the page was opened are shown, the newest of them.
const BACKLOG: SignedDuration = SignedDuration::from_hours(1);
const BACKLOG_EVENTS: usize = 500;
/// Events in one message.
const BATCH: usize = 200;
/// A page that takes nothing for this long is cut.
const STALL_LIMIT: Duration = Duration::from_secs(10);
/// A stream lasts this long at most: the browser asks again, and is authorized again where clients are.
const LASTS: Duration = Duration::from_secs(600);

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("the page was closed")]
    Closed,
    #[error("the page took nothing for {STALL_LIMIT:?}")]
    Stalled,
    #[error("the node cannot be read")]
    NotRead,
    #[error("the journal has ended")]
    Journal,
    #[error("the agent stops")]
    Stopping,
    #[error("it has lasted for {LASTS:?}")]
    Old,
}

type Chunk = io::Result<Bytes>;

/// The stream, or 503 if there are too many.
pub(super) async fn answer(State(hub): State<Arc<Hub>>) -> Response {
    let Some(page) = hub.open() else {
        Endpoint::UiStream.counted(StatusCode::SERVICE_UNAVAILABLE);
        let text = format!("the agent serves {PAGES} pages already\n");
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], text).into_response();
    };
    Endpoint::UiStream.counted(StatusCode::OK);
    let (sender, receiver) = mpsc::channel::<Chunk>(1);
    tokio::spawn(async move {
        let ended = tokio::select! {
            ended = feed(&hub, page, &sender) => ended,
            // Also while there is nothing to send.
            () = sender.closed() => Ended::Closed,
            () = tokio::time::sleep(LASTS) => Ended::Old,
        };
        tracing::debug!("the stream of a page ends: {ended}");
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(ReceiverStream::new(receiver))).into_response()
}

/// Sends until something ends it.
async fn feed(hub: &Hub, mut page: Page, sender: &mpsc::Sender<Chunk>) -> Ended {
    match all(hub, &mut page, sender).await {
        Ok(never) => match never {},
        Err(ended) => ended,
    }
}

enum Never {}

async fn all(hub: &Hub, page: &mut Page, sender: &mpsc::Sender<Chunk>) -> Result<Never, Ended> {
    let mut stopping = hub.sources.stopping.clone();
    // Before the older ones are read, so that none is missed between.
    let mut live = hub.sources.journal.subscribe(None);
    send(sender, "retry: 1000\n\n".to_owned()).await?;
    if page.frames.borrow().is_none() {
        // Then it is the first page. Without a frame even now the node could not be read.
        page.frames.changed().await.map_err(|_| Ended::NotRead)?;
    }
    let first = page.frames.borrow_and_update().clone();
    let mut seen = send_frame(sender, first, None).await?;
    let since = Timestamp::now().checked_sub(BACKLOG).unwrap_or(Timestamp::MIN);
    let older = older(hub.sources.journal.subscribe(Some(since)).backlog_only()).await;
    let last = older.back().map_or(0, |event| event.seq);
    send_events(sender, older.iter()).await?;
    loop {
        tokio::select! {
            biased;
            event = live.next() => {
                let batch = batch(event.ok_or(Ended::Journal)?, &mut live).await;
                send_events(sender, batch.iter().filter(|event| event.seq > last && is_shown(event))).await?;
            }
            changed = page.frames.changed() => {
                changed.map_err(|_| Ended::NotRead)?;
                let frame = page.frames.borrow_and_update().clone();
                seen = send_frame(sender, frame, seen).await?;
            }
            () = stopped(&mut stopping) => return Err(Ended::Stopping),
        }
    }
}

/// Completes when the agent ends.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the server has ended.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Sends what is new since frame `seen`; returns the number of this one.
async fn send_frame(
    sender: &mpsc::Sender<Chunk>,
    frame: Option<Arc<super::frame::Frame>>,
    seen: Option<u64>,
) -> Result<Option<u64>, Ended> {
    let frame = frame.ok_or(Ended::NotRead)?;
    send(sender, format!("event: state\ndata: {}\n\n", frame.since(seen))).await?;
    Ok(Some(frame.number()))
}

async fn send_events(
    sender: &mpsc::Sender<Chunk>,
    events: impl Iterator<Item = &Arc<Event>>,
) -> Result<(), Ended> {
    let list: Vec<Value> = events.map(|event| shown(event)).collect();
    match list.is_empty() {
        true => Ok(()),
        false => send(sender, format!("event: events\ndata: {}\n\n", Value::from(list))).await,
    }
}

async fn send(sender: &mpsc::Sender<Chunk>, text: String) -> Result<(), Ended> {
    match timeout(STALL_LIMIT, sender.send(Ok(text.into()))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Ended::Closed),
        Err(_) => Err(Ended::Stalled),
    }
}

/// The newest events of the backlog that are shown.
async fn older(mut backlog: Subscription) -> VecDeque<Arc<Event>> {
    let mut newest = VecDeque::new();
    while let Some(event) = backlog.next().await {
        if is_shown(&event) {
            if newest.len() == BACKLOG_EVENTS {
                newest.pop_front();
            }
            newest.push_back(event);
        }
    }
    newest
}

/// This event and those that are there already.
async fn batch(first: Arc<Event>, live: &mut Subscription) -> Vec<Arc<Event>> {
    let mut batch = vec![first];
    while batch.len() < BATCH {
        match timeout(Duration::ZERO, live.next()).await {
            Ok(Some(event)) => batch.push(event),
            _ => break,
        }
    }
    batch
}

/// Cgroups that come and go, and who moves into them, are seen in the tree of cgroups, not in the timeline.
fn is_shown(event: &Event) -> bool {
    !matches!(
        event.detail.event_type(),
        EventType::CgroupCreated
            | EventType::CgroupRemoved
            | EventType::CgroupPopulated
            | EventType::CgroupEmptied
            | EventType::TaskMoved
    )
}

/// The event as in the journal, with a line of text.
fn shown(event: &Event) -> Value {
    let place = Place { cgroup: &event.cgroup, pod: event.pod.as_ref() };
    let line = match &event.detail {
        Detail::Hierarchy { reason, message }
        | Detail::Pod { reason, message }
        | Detail::Agent { reason, message } => format!("{reason}: {message}"),
        Detail::Lost { lost_type, count } => format!("{count} events of type {lost_type} were lost"),
        other => other.body().map_or_else(|| place.to_string(), |body| body.line(&place)),
    };
    let mut value = serde_json::to_value(event).unwrap_or_default();
    value["text"] = line.into();
    value["millis"] = event.time.as_millisecond().into();
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_model::{Exit, PodRef};

    fn event(detail: Detail) -> Event {
        let time = Timestamp::new(1_700_000_000, 5_000_000).unwrap();
        let pod = PodRef { namespace: "shop".into(), name: "cart".into(), ..PodRef::default() };
        Event { seq: 7, time, cgroup: "/a".into(), pod: Some(pod), detail }
    }

    #[test]
    fn events_have_a_text_and_their_fields() {
        let exit = Exit { pid: 5, namespace_pid: 5, command: "app".into(), code: 3, signal: 0, main: true };
        let value = shown(&event(Detail::Exit(exit)));
        assert_eq!((&value["seq"], &value["type"], &value["code"]), (&7.into(), &"exit".into(), &3.into()));
        assert_eq!(value["millis"], 1_700_000_000_005_i64);
        assert_eq!(value["pod"]["name"], "cart");
        assert!(value["text"].as_str().unwrap().starts_with("app (pid 5"), "{value}");
        let note = Detail::Pod { reason: "BackOff".into(), message: "again in 10s".into() };
        assert_eq!(shown(&event(note))["text"], "BackOff: again in 10s");
    }

    #[test]
    fn cgroups_that_come_and_go_are_left_out() {
        assert!(!is_shown(&event(Detail::CgroupCreated {})));
        assert!(!is_shown(&event(Detail::TaskMoved { pid: 1, command: "x".into() })));
        assert!(is_shown(&event(Detail::Lost { lost_type: "oom".into(), count: 1 })));
    }
}
