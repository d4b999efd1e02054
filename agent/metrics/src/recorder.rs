//! The recorder of the `metrics` facade, for values that other crates count while they work, such as HTTP
//! durations.
//!
//! A family counted through the facade takes its name from [`Own`] and is listed in [`Own::FACADE`].

use std::sync::OnceLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::family::Kind;
use super::own::Own;

/// Upper bounds of the duration histograms in seconds: from a health check to the slowest scrape allowed.
const DURATION_BOUNDS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// The recorder of the process, installed at the first call. If another recorder was installed before, the
/// counts go to that one and [`render`] returns nothing; a warning is logged once.
pub fn handle() -> &'static PrometheusHandle {
    RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets(&DURATION_BOUNDS).unwrap_or_else(|error| {
            tracing::warn!(%error, "histogram bounds refused");
            PrometheusBuilder::new()
        });
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        if let Err(error) = ::metrics::set_global_recorder(recorder) {
            tracing::warn!(%error, "the agent's own counters are recorded elsewhere");
        }
        describe();
        handle
    })
}

fn describe() {
    for family in Own::FACADE {
        let desc = family.desc();
        match desc.kind {
            Kind::Counter => ::metrics::describe_counter!(desc.name, desc.help),
            Kind::Gauge => ::metrics::describe_gauge!(desc.name, desc.help),
            Kind::Histogram => ::metrics::describe_histogram!(desc.name, desc.help),
        }
    }
}

/// The values counted through the facade, in the exposition format.
pub fn render() -> Vec<u8> {
    let mut text = handle().render().into_bytes();
    if text.last().is_some_and(|&b| b != b'\n') {
        text.push(b'\n');
    }
    text
}
