//! The ports without authentication: the read-only one and that of `/healthz`.

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::response::Response;
use axum::routing::get;
use tower::ServiceExt;

use crate::checks::Checks;

/// What a read-only port has of the agent's own HTTP.
const SHARED: [&str; 6] =
    ["/metrics", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes", "/stats/summary", "/pods"];

/// `/healthz` and its checks.
pub fn health_routes(checks: &Checks) -> Router {
    Router::new().route("/healthz", get(all)).route("/healthz/{check}", get(one)).with_state(checks.clone())
}

/// What a kubelet's read-only port offers: metrics, statistics, pods and health, as the agent's own HTTP has
/// them (which leaves out the values of variables).
pub fn read_only_routes(shared: &Router, checks: &Checks) -> Router {
    let own = health_routes(checks)
        .merge(Router::new().route("/metrics/slis", get(slis)).with_state(checks.clone()));
    SHARED.into_iter().fold(own, |routes, path| {
        let shared = shared.clone();
        routes.route(path, get(move |request: Request| shared.clone().oneshot(request)))
    })
}

async fn all(State(checks): State<Checks>, RawQuery(query): RawQuery) -> Response {
    checks.respond("", query.as_deref())
}

async fn one(State(checks): State<Checks>, Path(check): Path<String>, RawQuery(query): RawQuery) -> Response {
    checks.respond(&check, query.as_deref())
}

async fn slis(State(checks): State<Checks>) -> Response {
    checks.metrics()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use nodewarden_tasks::parts::Parts;

    use super::*;

    /// After a check of everything and one of `ping`.
    const SLIS: &str = "\
# HELP kubernetes_healthcheck [STABLE] This metric records the result of a single healthcheck.
# TYPE kubernetes_healthcheck gauge
kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1
kubernetes_healthcheck{name=\"log\",type=\"healthz\"} 1
kubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 1
# HELP kubernetes_healthchecks_total [STABLE] This metric records the results of all healthcheck.
# TYPE kubernetes_healthchecks_total counter
kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2
kubernetes_healthchecks_total{name=\"log\",status=\"success\",type=\"healthz\"} 1
kubernetes_healthchecks_total{name=\"syncloop\",status=\"success\",type=\"healthz\"} 1
";

    #[tokio::test]
    async fn the_read_only_port_has_nothing_that_needs_authorization() {
        let shared = Router::new().fallback(async |request: Request| request.uri().path().to_owned());
        let routes = read_only_routes(&shared, &Checks::new(Parts::default()));
        for (path, status, text) in [
            ("/healthz", 200, "ok"),
            ("/healthz/ping", 200, "ok"),
            ("/pods", 200, "/pods"),
            ("/metrics/cadvisor", 200, "/metrics/cadvisor"),
            ("/stats/summary", 200, "/stats/summary"),
            ("/metrics/slis", 200, SLIS),
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
