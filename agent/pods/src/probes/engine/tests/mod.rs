//! Tests of the engine with a paused clock and a scripted prober.

mod bounds;
mod ends;
mod first_poll;
mod histories;
mod results;
mod schedule;
mod threads;
mod view;

use std::sync::Arc;
use std::time::Duration;

use super::fixture::{Record, Script, spec, target};
use super::{Probes, Watched};
use crate::probes::ProbeMemory;
use nodewarden_config::ProbeSettings;
use nodewarden_manifest::{HandlerKind, ProbeKind, ProbeSpec};

const READINESS: ProbeKind = ProbeKind::Readiness;
const LIVENESS: ProbeKind = ProbeKind::Liveness;
const STARTUP: ProbeKind = ProbeKind::Startup;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

fn start(prober: &Arc<Script>) -> Probes {
    Probes::start_in_runtime(&ProbeSettings::default(), prober.clone())
}

/// A probe with a period of one second and thresholds of 1.
fn every_second(kind: ProbeKind) -> ProbeSpec {
    let mut spec = spec(kind, HandlerKind::HttpGet);
    (spec.period, spec.failure_threshold) = (ms(1_000), 1);
    spec
}

/// Watches container `c` of pod `uid`, which has just started and was never probed.
fn watch(probes: &Probes, id: &str, specs: &[ProbeSpec], sink: &Arc<Record>) -> Watched {
    probes.watch(target("uid", "c", id), specs.to_vec(), ProbeMemory::new(id), sink.clone())
}
