//! The page: what the node does, in a browser. Static files from the binary, and one stream of what is shown.
//!
//! | path | answer |
//! |---|---|
//! | `/ui/` | the page; `/` leads there who asks for HTML |
//! | `/ui/<file>` | its scripts and styles |
//! | `/ui/stream` | Server-Sent Events: `state` (first everything, then each second what has changed) and `events` |
//!
//! Everything that is shown is made from the messages of gRPC, so both have the same figures. While no page
//! is open, nothing is read.

mod files;
mod frame;
mod hub;
mod node;
mod pods;
mod rows;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::watch;

use super::endpoint::Endpoint;
use super::plain;
use files::File;
use hub::Hub;
use nodewarden_model::AgentState;
use nodewarden_storage::journal::Journal;

/// Browsers load nothing of another origin, run no script of the document itself, and show the page in no
/// frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Where the page's events come from, and when its streams end.
#[derive(Clone)]
pub struct PageSources {
    /// The journal of events.
    pub journal: Journal,
    /// True ends all streams.
    pub stopping: watch::Receiver<bool>,
}

/// The routes of the page.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(
    state: Arc<dyn AgentState>,
    sources: PageSources,
) -> Router<S> {
    let hub = Hub::new(state, sources);
    Router::new()
        .route("/ui", get(async || to_page("ui/")))
        .route(Endpoint::Ui.path(), get(async |headers: HeaderMap| file("index.html", &headers)))
        .route(Endpoint::UiStream.path(), get(stream::answer))
        .route("/ui/{file}", get(named))
        .with_state(hub)
}

/// Leads to the page. The address is relative, so that it holds behind a proxy too.
pub(super) fn to_page(address: &'static str) -> Response {
    Endpoint::Ui.answered(StatusCode::SEE_OTHER, Instant::now(), 0);
    (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response()
}

/// Whether a client prefers HTML: a browser that opens an address does, curl and Prometheus do not.
pub(super) fn wants_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

async fn named(State(_): State<Arc<Hub>>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    file(&name, &headers)
}

fn file(name: &str, headers: &HeaderMap) -> Response {
    let started = Instant::now();
    let Some(File { bytes, content_type, etag, .. }) = files::find(name) else {
        return plain(Endpoint::Other, StatusCode::NOT_FOUND, "not found\n");
    };
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|list| list.split(',')).any(|one| one.trim() == etag.as_str());
    let fixed = [
        (header::ETAG, etag.as_str()),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    if is_known {
        Endpoint::Ui.answered(StatusCode::NOT_MODIFIED, started, 0);
        return (StatusCode::NOT_MODIFIED, fixed).into_response();
    }
    Endpoint::Ui.answered(StatusCode::OK, started, bytes.len());
    (fixed, [(header::CONTENT_TYPE, *content_type)], *bytes).into_response()
}
