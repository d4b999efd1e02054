//! The task that checks the limits of disk space that pods have of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::decision_log::DecisionLog;
use super::shared::Shared;
use crate::limits::{Exceeded, Limits, exceeded};
use crate::{Candidate, RequiredStats, gather, metrics, rank};
use crate::{Eviction, EvictionReason};
use nodewarden_model::{CandidateSeen, SignalSeen};
use nodewarden_tasks::blocking;
use nodewarden_tasks::parts::Pulse;

/// Time between two checks (kubelet: monitoringInterval).
const INTERVAL: Duration = Duration::from_secs(10);
/// Counting files may take 1/`PART` of the time, unless checks would then be rarer than [`RAREST`].
const PART: u32 = 50;
/// Longest time between two checks, however long counting takes (kubelet: volumeStatsAggPeriod).
const RAREST: Duration = Duration::from_secs(60);
/// Upper bound of the grace period of an evicted pod (kubelet: immediateEvictionGracePeriodSeconds).
const GRACE: Duration = Duration::from_secs(1);
/// Time between two checks whether the pods of an earlier agent are known.
const UNKNOWN: Duration = Duration::from_millis(50);

/// A pod that exceeds a limit of its own.
struct OverLimit {
    candidate: Candidate,
    exceeded: Exceeded,
}

/// Checks until the task is aborted.
pub async fn run(shared: Arc<Shared>, pulse: Pulse) {
    let begun = Instant::now();
    while !shared.knows_pods(begun) {
        tokio::time::sleep(UNKNOWN).await;
    }
    loop {
        pulse.progress();
        let took = check(&shared).await;
        tokio::time::sleep(took.saturating_mul(PART).clamp(INTERVAL, RAREST)).await;
    }
}

/// Checks every pod that has a limit, and returns how long reading took.
async fn check(shared: &Arc<Shared>) -> Duration {
    let woken = Instant::now();
    let leaving = shared.deps.subjects.leaving();
    let pods = shared.deps.subjects.pods().into_iter().filter(|one| !leaving.contains(&one.pod.uid));
    let limited: Vec<_> = pods.filter_map(|one| Limits::of(&one.pod).map(|limits| (one, limits))).collect();
    if limited.is_empty() {
        return Duration::ZERO;
    }
    let written = match &shared.deps.runtime {
        Some(runtime) if limited.iter().any(|(_, limits)| limits.of_storage()) => {
            gather::writable_layers(runtime).await
        }
        _ => None,
    };
    let layout = shared.deps.layout.clone();
    let read = blocking::DISK_USE.run(move || {
        let began = Instant::now();
        let look = |(subject, limits): (gather::Subject, Limits)| {
            let needs = RequiredStats { disk: limits.of_storage(), ..RequiredStats::default() };
            let volumes = limits.volumes.iter().map(|(name, _)| name.as_str());
            let volumes: BTreeMap<String, u64> = gather::empty_dirs(&subject, volumes);
            let found = gather::candidates(&layout, std::slice::from_ref(&subject), needs, written.as_ref());
            let candidate = found.into_iter().next()?;
            let exceeded = exceeded(&limits, &candidate, &volumes)?;
            Some(OverLimit { candidate, exceeded })
        };
        (limited.into_iter().filter_map(look).collect::<Vec<_>>(), began.elapsed())
    });
    let (beyond, took) = read.await.unwrap_or_default();
    for one in &beyond {
        evict(shared, one, woken);
    }
    took
}

fn evict(shared: &Shared, beyond: &OverLimit, woken: Instant) {
    let OverLimit { candidate, exceeded } = beyond;
    let pod = &candidate.pod;
    let mut log = DecisionLog::new("eviction", "timer", woken, !shared.acts());
    log.record_signals(&[SignalSeen {
        signal: exceeded.signal.to_owned(),
        available: 0,
        capacity: exceeded.limit,
        threshold: 0,
        hard: true,
        passed: true,
        passed_for_ms: None,
        grace_ms: None,
    }]);
    let about = format!("{} {}", exceeded.signal, pod.uid);
    let spared = rank::exemption(&shared.deps.settings, pod);
    log.record_candidates(vec![CandidateSeen::new(
        pod,
        (exceeded.used, exceeded.limit),
        spared.is_none(),
        spared.unwrap_or_default(),
    )]);
    let name = format!("{}/{}", pod.namespace, pod.name);
    if let Some(why) = spared {
        return shared.record_blocked(
            &about,
            format!("{name} stays, being {why}: {}", exceeded.message),
            log,
        );
    }
    let Some(evict) = &shared.deps.evict else {
        return shared.record_dry_run(&about, pod, &exceeded.message, log);
    };
    let began = Instant::now();
    let message = exceeded.message.clone();
    evict(
        &pod.uid,
        Eviction { reason: EvictionReason::Evicted, message, grace: Some(GRACE), condition: None },
    );
    metrics::record_eviction(exceeded.signal);
    log.record_step("asked to end", began, format!("with a grace of {GRACE:?}"));
    shared.record(log.finish(format!("{name} evicted: {}", exceeded.message)));
}
