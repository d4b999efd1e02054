//! The HTTP server for Prometheus, for clients of a kubelet's `/stats/summary`, for health checks, and for
//! browsers.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | the agent's own families |
//! | `/metrics/cadvisor`, `/metrics/resource`, `/metrics/probes` | the kubelet's |
//! | `/stats/summary` | the kubelet's JSON, with its `only_cpu_and_memory` |
//! | `/pods` | the managed pods with their status: a `v1` PodList, as the kubelet's, without literal values of variables |
//! | `/healthz` | 200 while every part of the agent makes progress, else 500 with those that do not; `?verbose` |
//! | `/`, `/ui/` | the page ([`mod@ui`]); without HTML in `Accept`, `/` lists the paths |
//! | `/readyz` | 200 once the agent watches and has checked the pods of an earlier agent, 503 before |
//!
//! The node's server answers some of these paths too: both share the [`routes`].
//!
//! [`serve`] authenticates no client, so its address must be a loopback address unless the configuration
//! allows others ([`mod@bind`]); where clients are authenticated, the node's server serves the same
//! [`routes`]. A request that names a foreign host is refused ([`AllowedHosts`]).

mod bind;
pub mod connections;
mod endpoint;
mod health;
mod host;
mod images;
mod redact;
mod scrape;
pub mod stalling;
mod ui;

use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Query, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};

pub use bind::{BindError, Exposure, bind};
use connections::Limits;
use endpoint::Endpoint;
pub use host::AllowedHosts;
pub use ui::PageSources;

use nodewarden_kube::pod_object::{self, NodeFacts};
use nodewarden_metrics::Own;
use nodewarden_metrics::summary;
use nodewarden_metrics::summary::{Readings, Sources};
use nodewarden_metrics::{cadvisor, own, recorder, resource};
use nodewarden_model::{AgentState, PressureView};
use nodewarden_tasks::blocking;
use nodewarden_tasks::parts::Parts;

/// Maximum number of concurrent scrapes; others wait. Each occupies a thread while it encodes.
const CONCURRENT_SCRAPES: usize = 4;

/// How long open connections may last after a shutdown was requested.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// State shared by all handlers.
struct App {
    state: Arc<dyn AgentState>,
    ready: Arc<AtomicBool>,
    /// What `/healthz` asks.
    parts: Parts,
    scrapes: Arc<Semaphore>,
    /// The earlier readings from which `/stats/summary` computes CPU rates.
    readings: Mutex<Readings>,
    images: images::Images,
}

/// Serves `routes` until `shutdown` completes and open responses are sent (at most 2 s more), for requests
/// that name one of `hosts`.
pub async fn serve(
    listener: TcpListener,
    routes: Router,
    hosts: AllowedHosts,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let (asked, wait_asked) = oneshot::channel();
    let graceful = async move {
        shutdown.await;
        // Fails only if the server has already ended.
        let _ = asked.send(());
    };
    let grace = async {
        match wait_asked.await {
            Ok(()) => tokio::time::sleep(SHUTDOWN_GRACE).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = connections::serve(listener, for_hosts(routes, hosts), Limits::default(), graceful) => {}
        () = grace => tracing::warn!("HTTP connections still open at shutdown are cut"),
    }
}

/// The routes for requests that name one of `hosts`; others are refused.
pub fn for_hosts(routes: Router, hosts: AllowedHosts) -> Router {
    let hosts = Arc::new(hosts);
    routes.layer(middleware::from_fn(move |request, next| host::check(hosts.clone(), request, next)))
}

/// What is answered on each path. `/readyz` returns `ready`, `/healthz` whether the `parts` make progress,
/// the page shows events of `sources`.
pub fn routes(
    state: Arc<dyn AgentState>,
    ready: Arc<AtomicBool>,
    parts: Parts,
    sources: PageSources,
) -> Router {
    recorder::handle();
    let page = ui::routes(state.clone(), sources);
    let app = App {
        state,
        ready,
        parts,
        scrapes: Arc::new(Semaphore::new(CONCURRENT_SCRAPES)),
        readings: Mutex::new(Readings::default()),
        images: images::Images::default(),
    };
    Router::new()
        .route(Endpoint::Index.path(), get(index))
        .route(Endpoint::Healthz.path(), get(healthz))
        .route(Endpoint::Readyz.path(), get(readyz))
        .route(Endpoint::Own.path(), get(own_metrics))
        .route(Endpoint::Cadvisor.path(), get(cadvisor_metrics))
        .route(Endpoint::Resource.path(), get(resource_metrics))
        .route(Endpoint::Probes.path(), get(probe_metrics))
        .route(Endpoint::Summary.path(), get(stats_summary))
        .route(Endpoint::Pods.path(), get(pods))
        .merge(page)
        .fallback(async || plain(Endpoint::Other, StatusCode::NOT_FOUND, "not found\n"))
        .with_state(Arc::new(app))
}

fn plain(endpoint: Endpoint, status: StatusCode, text: impl Into<String>) -> Response {
    let text = text.into();
    endpoint.answered(status, Instant::now(), text.len());
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

async fn index(headers: HeaderMap) -> Response {
    match ui::wants_html(&headers) {
        true => ui::to_page("ui/"),
        false => plain(Endpoint::Index, StatusCode::OK, endpoint::listing()),
    }
}

async fn healthz(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response {
    let verbose =
        query.is_some_and(|query| query.split('&').any(|part| matches!(part, "verbose" | "verbose=true")));
    let (status, text) = health::answer(&app.parts.health(), verbose);
    plain(Endpoint::Healthz, status, text)
}

async fn readyz(State(app): State<Arc<App>>) -> Response {
    match app.ready.load(Ordering::Acquire) {
        true => plain(Endpoint::Readyz, StatusCode::OK, "ok\n"),
        false => {
            plain(Endpoint::Readyz, StatusCode::SERVICE_UNAVAILABLE, "not ready: the agent is starting\n")
        }
    }
}

async fn own_metrics(State(app): State<Arc<App>>) -> Response {
    for purpose in blocking::ALL {
        let set = |family: Own, threads: usize| {
            ::metrics::gauge!(family.name(), "purpose" => purpose.name()).set(threads as f64);
        };
        set(Own::BlockingThreads, purpose.busy());
        set(Own::BlockingThreadsMax, purpose.bound());
    }
    let state = app.state.clone();
    let images = app.images.last(state.image_gc());
    scrape::text(&app, Endpoint::Own, move || {
        let (snapshot, status) = (state.snapshot(), state.status());
        let (pods, devices, probes) = (state.pods(), state.devices(), state.probes());
        let exclusive_cpus = state.exclusive_cpus();
        let pressure = state.eviction().map(|own| PressureView::of(own.as_ref()));
        move |out| {
            let shown = own::Shown {
                snapshot: &snapshot,
                status: &status,
                pods: &pods,
                devices: &devices,
                exclusive_cpus: &exclusive_cpus,
                probes: &probes,
                images: images.as_deref(),
                pressure: pressure.as_ref(),
            };
            own::write(out, shown);
            out.raw(&recorder::render());
        }
    })
    .await
}

async fn cadvisor_metrics(State(app): State<Arc<App>>) -> Response {
    let state = app.state.clone();
    scrape::document(&app, Endpoint::Cadvisor, move || cadvisor::Document::new(state.snapshot())).await
}

async fn resource_metrics(State(app): State<Arc<App>>) -> Response {
    let state = app.state.clone();
    scrape::text(&app, Endpoint::Resource, move || {
        let snapshot = state.snapshot();
        move |out| resource::write(out, &snapshot)
    })
    .await
}

async fn probe_metrics(State(app): State<Arc<App>>) -> Response {
    let state = app.state.clone();
    scrape::text(&app, Endpoint::Probes, move || {
        let probes = state.probes();
        move |out| own::write_probes(out, &probes)
    })
    .await
}

#[derive(Deserialize)]
struct SummaryQuery {
    #[serde(default)]
    only_cpu_and_memory: bool,
}

async fn stats_summary(State(app): State<Arc<App>>, Query(query): Query<SummaryQuery>) -> Response {
    let started = Instant::now();
    let made = scrape::blocking(&app, {
        let app = app.clone();
        move || {
            let snapshot = app.state.snapshot();
            let mut sources = Sources { system: app.state.system_cgroups(), ..Sources::default() };
            if !query.only_cpu_and_memory {
                sources.workloads = app.state.workloads(&snapshot);
                sources.disk = app.state.eviction().map(|eviction| eviction.disk_use()).unwrap_or_default();
            }
            let answer = {
                let mut readings = app.readings.lock();
                let answer = summary::summary(&snapshot, &readings, &sources);
                if readings.stale(&snapshot) {
                    *readings = Readings::of(&snapshot);
                }
                answer
            };
            let answer = if query.only_cpu_and_memory { answer.only_cpu_and_memory() } else { answer };
            serde_json::to_vec(&answer)
        }
    })
    .await;
    json(Endpoint::Summary, started, made)
}

async fn pods(State(app): State<Arc<App>>) -> Response {
    let started = Instant::now();
    let state = app.state.clone();
    let made = scrape::blocking(&app, move || {
        let mut pods = state.shown_pods();
        pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
        let name = state.snapshot().machine.node_name.clone();
        let node = NodeFacts { name, ips: Vec::new(), runtime: state.runtime_name() };
        let mut list = pod_object::list(&pods, &node);
        list.items.iter_mut().for_each(redact::redact);
        serde_json::to_vec(&list)
    })
    .await;
    json(Endpoint::Pods, started, made)
}

/// The response as JSON, or an error response.
fn json<E: std::fmt::Display>(
    endpoint: Endpoint,
    started: Instant,
    made: Result<serde_json::Result<Vec<u8>>, E>,
) -> Response {
    match made {
        Ok(Ok(json)) => {
            endpoint.answered(StatusCode::OK, started, json.len());
            ([(header::CONTENT_TYPE, "application/json")], json).into_response()
        }
        Ok(Err(error)) => scrape::failed(endpoint, started, &error),
        Err(error) => scrape::failed(endpoint, started, &error),
    }
}

#[cfg(test)]
mod tests;
