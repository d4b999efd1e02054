//! The task that checks the limits of disk space that pods have of their own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::decision_log::DecisionLog;
use super::figures::{self, Counted};
use super::shared::Shared;
use crate::limits::{Exceeded, Limits, exceeded};
use crate::usage::{PodUse, with_disk};
use crate::{Candidate, RequiredStats, gather, metrics, rank};
use crate::{Eviction, EvictionReason};
use nodewarden_model::{CandidateSeen, SignalSeen};
use nodewarden_tasks::parts::Pulse;
use nodewarden_tasks::pause::pause;

/// Time between two checks (kubelet: monitoringInterval).
const INTERVAL: Duration = Duration::from_secs(10);
/// Files are counted for at most this time in one check. What is not finished continues at the next.
const TURN: Duration = Duration::from_secs(4);
/// Counting files may take 1/`PART` of the time, unless checks would then be rarer than [`RAREST`].
const PART: u32 = 50;
/// Longest time between two checks when everything is counted, however long that takes (kubelet:
/// volumeStatsAggPeriod).
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
    let mut changes = shared.deps.subjects.any_change();
    loop {
        pulse.progress();
        if let Some(changes) = &mut changes {
            changes.mark_unchanged();
        }
        let round = check(&shared).await;
        if let (true, Some(changes)) = (round.without_limits, &mut changes) {
            pulse.waits();
            // An error: the agent ends.
            if changes.changed().await.is_err() {
                return;
            }
        }
        let wait = if round.settled { round.took.saturating_mul(PART) } else { INTERVAL };
        pause(wait.clamp(INTERVAL, RAREST)).await;
    }
}

/// A check.
struct Round {
    /// How long reading took.
    took: Duration,
    /// Whether counting further would change no figure.
    settled: bool,
    /// No pod has a limit.
    without_limits: bool,
}

/// Checks every pod that has a limit. A pod that exceeds one by what is known by then is evicted.
async fn check(shared: &Arc<Shared>) -> Round {
    let woken = Instant::now();
    let leaving = shared.deps.subjects.leaving();
    let pods = shared.deps.subjects.pods().into_iter().filter(|one| !leaving.contains(&one.pod.uid));
    let limited: Vec<_> = pods.filter(|one| Limits::of(&one.pod).is_some()).collect();
    let without_limits = limited.is_empty();
    let mut round = Round { took: Duration::ZERO, settled: true, without_limits };
    if without_limits {
        return round;
    }
    for (subject, used) in figures::read(shared, limited, Counted::Limits, TURN).await {
        let Some(limits) = Limits::of(&subject.pod) else { continue };
        let PodUse { disk, volumes, .. } = &used;
        let all = [disk.root, disk.logs, disk.volumes].into_iter().filter(|_| limits.of_storage());
        round.settled &= all.chain(volumes.values().copied()).all(|part| part.is_settled());
        let volumes = volumes.iter().map(|(name, part)| (name.clone(), part.bytes)).collect();
        let found = gather::candidates(&shared.deps.layout, &[subject], RequiredStats::default()).pop();
        let Some(candidate) = found.map(|found| with_disk(found, used)) else { continue };
        if let Some(exceeded) = exceeded(&limits, &candidate, &volumes) {
            evict(shared, &OverLimit { candidate, exceeded }, woken);
        }
    }
    round.took = woken.elapsed();
    round
}

fn evict(shared: &Shared, beyond: &OverLimit, woken: Instant) {
    let OverLimit { candidate, exceeded } = beyond;
    let pod = &candidate.pod;
    let mut log = DecisionLog::new("eviction", "timer", woken, !shared.acts_on_disks());
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
    let Some(evict) = shared.deps.evict.as_ref().filter(|_| shared.acts_on_disks()) else {
        return shared.record_dry_run(exceeded.signal, pod, &exceeded.message, log);
    };
    let began = Instant::now();
    let message = exceeded.message.clone();
    evict(
        &pod.uid,
        Eviction {
            reason: EvictionReason::Evicted,
            message,
            grace: Some(GRACE),
            killed: false,
            condition: None,
        },
    );
    metrics::record_eviction(exceeded.signal);
    log.record_step("asked to end", began, format!("with a grace of {GRACE:?}"));
    shared.record(log.finish(format!("{name} evicted: {}", exceeded.message)));
}
