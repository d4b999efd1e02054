//! Mode augment: beside a kubelet, which keeps the pods. What is observed is reported to the API server, and
//! what neither kubelet nor runtime writes is set.

mod devices;
mod events;
mod eviction;
mod pods;

use jiff::Timestamp;
use nodewarden_augment::ledger::FILE;
use nodewarden_augment::ledger::units::UnitFiles;
use nodewarden_augment::{Augment, Deps, Ledger, LedgerError, Report, undone};
use nodewarden_config::{AugmentSettings, Config, Enforcement, Mode};
use nodewarden_eviction::Wakeups;
use nodewarden_model::{Detail, PodRef};
use nodewarden_pods::source::SourceGuard;
use nodewarden_storage::journal::Journal;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::context::Context;
use super::error::DaemonError;
use super::node_parts::NodeParts;
use super::{observe, throttle};
use devices::DevicesBeside;
use events::EventReports;
use eviction::Evictions;
pub use pods::ApiPods;

/// What runs in mode augment. The fields stand in the order in which they end.
#[expect(dead_code, reason = "the parts are only held until they end")]
pub struct AugmentParts {
    /// Puts everything back when it ends.
    engine: Augment,
    pub devices: Option<DevicesBeside>,
    events: Option<EventReports>,
    evictions: JoinSet<()>,
    pods: Option<SourceGuard>,
}

/// Starts what mode observe has, and what acts beside the kubelet. The ledger is empty. Must be called inside
/// a tokio runtime.
///
/// # Errors
/// A thread cannot be started.
pub fn start(
    context: Context<'_>,
    wakeups: Wakeups,
    ledger: Ledger<UnitFiles>,
) -> Result<NodeParts, DaemonError> {
    let settings = &context.config.augment;
    say(settings, context.kubernetes.is_some());
    let known = ApiPods::default();
    let evictions = Evictions::start(context, &known);
    let node = observe::start(context, wakeups, evictions.evicting);
    let pods = context.kubernetes.map(|connection| known.follow(connection));
    let events = EventReports::start(context, known.clone());
    let devices = DevicesBeside::start(context, known.clone());
    let (journal, named) = (context.journal.clone(), known.clone());
    let observer = context.observer.clone();
    let deps = Deps {
        settings: settings.clone(),
        layout: context.observer.facts.layout.clone(),
        pods: known.seen(context.observer.clone()),
        threshold: throttle::threshold(&evictions.thresholds, memory_bytes()),
        report: Box::new(move |report| record(&journal, report, |uid| named.place(uid))),
        limit_writes: Box::new(move || observer.take_limit_writes()),
        proc: "/proc".into(),
    };
    let engine = Augment::start(deps, ledger)
        .map_err(|source| DaemonError::Start { what: "augment thread", source })?;
    Ok(NodeParts {
        augment: Some(AugmentParts { engine, devices, events, pods, evictions: evictions.tasks }),
        ..node
    })
}

/// Puts back what an earlier agent in mode augment has left, in whatever mode this one runs. Returns the
/// ledger, empty, in mode augment.
///
/// # Errors
/// Another process uses the ledger, or it cannot be used.
pub fn put_back(config: &Config, journal: &Journal) -> Result<Option<Ledger<UnitFiles>>, DaemonError> {
    let augments = config.mode == Mode::Augment;
    if !augments && !config.state_dir.join(FILE).exists() {
        return Ok(None);
    }
    let mut ledger = match Ledger::open(&config.state_dir, UnitFiles::new()) {
        Ok(ledger) => ledger,
        // It has been renamed. What was written from it is no longer known to be ours, and is left alone.
        Err(LedgerError::State(error)) => {
            let message = format!("what was written before is not put back: {error}");
            warn!("{message}");
            let detail = Detail::Agent { reason: "RecordDamaged".into(), message };
            journal.append(Timestamp::now(), "", None, detail);
            Ledger::open(&config.state_dir, UnitFiles::new())?
        }
        Err(error) => return Err(error.into()),
    };
    for (entry, result) in ledger.withdraw(|_| true)? {
        if let Some(report) = undone(&entry, &result) {
            record(journal, report, |_| None);
        }
    }
    Ok(augments.then_some(ledger))
}

/// Writes a report into the journal and the log. `place` finds the pod of a uid.
fn record(journal: &Journal, report: Report, place: impl Fn(&str) -> Option<PodRef>) {
    let Report { pod, container, reason, message } = report;
    info!("{reason}: {message}");
    let (pod, detail) = if pod.is_empty() {
        (None, Detail::Agent { reason: reason.into(), message })
    } else {
        let place = place(&pod).unwrap_or_else(|| PodRef { uid: pod, ..PodRef::default() });
        let place = PodRef { container_name: container, ..place };
        (Some(place), Detail::Pod { reason: reason.into(), message })
    };
    journal.append(Timestamp::now(), "", pod, detail);
}

/// Says in the log what each feature does.
fn say(settings: &AugmentSettings, connected: bool) {
    let features = settings.features().map(|(name, feature)| format!("{name} {}", feature.name()));
    info!("beside a kubelet: {}", features.join(", "));
    if !connected {
        warn!(
            "there are no credentials for an API server (nodewarden.kubernetes): no pod is written, and there are no \
             Kubernetes Events"
        );
    } else if settings.events == Enforcement::Audit {
        info!("events are only in the journal: nodewarden.augment.events is Audit");
    }
}

/// The machine's memory; 0 where it is not known, which makes a threshold in percent 0.
fn memory_bytes() -> u64 {
    use procfs::Current;
    procfs::Meminfo::current().map_or(0, |memory| memory.mem_total)
}
