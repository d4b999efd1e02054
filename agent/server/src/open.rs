//! The ports without authentication: the read-only one and that of `/healthz`.

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use axum::routing::get;
use nodewarden_tasks::parts::Parts;
use tower::ServiceExt;

use crate::query::Query;
use crate::{answer, health};

/// What a read-only port has of the agent's own HTTP.
const SHARED: [&str; 6] =
    ["/metrics", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes", "/stats/summary", "/pods"];

/// `/healthz` and its checks, of these parts.
pub fn health_routes(parts: &Parts) -> Router {
    Router::new().route("/healthz", get(all)).route("/healthz/{check}", get(one)).with_state(parts.clone())
}

/// What a kubelet's read-only port offers: metrics, statistics, pods and health, as the agent's own HTTP has
/// them (which leaves out the values of variables).
pub fn read_only_routes(shared: &Router, parts: &Parts) -> Router {
    SHARED.into_iter().fold(health_routes(parts), |routes, path| {
        let shared = shared.clone();
        routes.route(path, get(move |request: Request| shared.clone().oneshot(request)))
    })
}

async fn all(State(parts): State<Parts>, RawQuery(query): RawQuery) -> Response {
    respond("", &parts, query.as_deref())
}

async fn one(State(parts): State<Parts>, Path(check): Path<String>, RawQuery(query): RawQuery) -> Response {
    respond(&check, &parts, query.as_deref())
}

/// The answer of a check.
pub fn respond(check: &str, parts: &Parts, query: Option<&str>) -> Response {
    let verbose = query.is_some_and(|query| Query::parse(query).flag("verbose"));
    let (status, text) = health::answer(check, &parts.health(), verbose);
    answer::text(status, text)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn the_read_only_port_has_nothing_that_needs_authorization() {
        let shared = Router::new().fallback(async |request: Request| request.uri().path().to_owned());
        let routes = read_only_routes(&shared, &Parts::default());
        for (path, status, text) in [
            ("/healthz", 200, "ok"),
            ("/healthz/ping", 200, "ok"),
            ("/pods", 200, "/pods"),
            ("/metrics/cadvisor", 200, "/metrics/cadvisor"),
            ("/stats/summary", 200, "/stats/summary"),
            ("/", 404, ""),
            ("/readyz", 404, ""),
            ("/configz", 404, ""),
            ("/logs/", 404, ""),
            ("/containerLogs/a/b/c", 404, ""),
            ("/exec/a/b/c", 404, ""),
        ] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = routes.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{path}");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(String::from_utf8_lossy(&body), text, "{path}");
        }
    }
}
