//! The paths of the HTTP server, and the metrics of each.

use std::time::Instant;

use axum::http::StatusCode;

use nodewarden_metrics::Own as Name;

/// A path that is served; `Other` stands for all other paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Index,
    Healthz,
    Readyz,
    Own,
    Cadvisor,
    Resource,
    Probes,
    Summary,
    Pods,
    Ui,
    UiStream,
    Other,
}

impl Endpoint {
    const LISTED: [Self; 9] = [
        Self::Own,
        Self::Cadvisor,
        Self::Resource,
        Self::Probes,
        Self::Summary,
        Self::Pods,
        Self::Healthz,
        Self::Readyz,
        Self::Ui,
    ];

    /// The path, also the value of the label `path`.
    pub fn path(self) -> &'static str {
        match self {
            Self::Index => "/",
            Self::Healthz => "/healthz",
            Self::Readyz => "/readyz",
            Self::Own => "/metrics",
            Self::Cadvisor => "/metrics/cadvisor",
            Self::Resource => "/metrics/resource",
            Self::Probes => "/metrics/probes",
            Self::Summary => "/stats/summary",
            Self::Pods => "/pods",
            Self::Ui => "/ui/",
            Self::UiStream => "/ui/stream",
            Self::Other => "other",
        }
    }

    /// Counts a response of `bytes` bytes to a request received at `started`.
    pub fn answered(self, status: StatusCode, started: Instant, bytes: usize) {
        let path = self.path();
        self.counted(status);
        ::metrics::histogram!(Name::HttpDuration.name(), "path" => path).record(started.elapsed());
        ::metrics::gauge!(Name::HttpBytes.name(), "path" => path).set(bytes as f64);
    }

    /// Counts a response that lasts: it has neither a duration nor a size.
    pub fn counted(self, status: StatusCode) {
        let (path, code) = (self.path(), status.as_u16().to_string());
        ::metrics::counter!(Name::HttpRequests.name(), "path" => path, "code" => code).increment(1);
    }
}

/// What `/` answers to clients that are no browsers.
pub(super) fn listing() -> String {
    Endpoint::LISTED.iter().fold("nodewarden\n\n".to_owned(), |page, e| page + e.path() + "\n")
}
