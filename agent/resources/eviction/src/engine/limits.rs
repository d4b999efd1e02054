//! The task that watches pods' own limits of disk space.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shared::Shared;
use super::story::Story;
use crate::limits::{Exceeded, Limits, exceeded};
use crate::{Candidate, Needs, gather, rank, told};
use crate::{EVICTED, Eviction};
use nodewarden_model::{CandidateSeen, SignalSeen};

/// Between two looks (kubelet: monitoringInterval).
const INTERVAL: Duration = Duration::from_secs(10);
/// Counting files takes at most one part in so many of the time, unless that would make it rarer than [`RAREST`].
const PART: u32 = 50;
/// As often a kubelet counts volumes, however long it takes (volumeStatsAggPeriod).
const RAREST: Duration = Duration::from_secs(60);
/// What a pod has to end, if it does not say less (kubelet: immediateEvictionGracePeriodSeconds).
const GRACE: Duration = Duration::from_secs(1);
/// Between two looks whether an earlier agent's pods are known.
const UNKNOWN: Duration = Duration::from_millis(50);

/// A pod that is beyond a limit of its own.
struct Beyond {
    candidate: Candidate,
    exceeded: Exceeded,
}

/// Runs for as long as it is polled.
pub async fn run(shared: Arc<Shared>) {
    let begun = Instant::now();
    while !shared.knows_pods(begun) {
        tokio::time::sleep(UNKNOWN).await;
    }
    loop {
        let took = turn(&shared).await;
        tokio::time::sleep(took.saturating_mul(PART).clamp(INTERVAL, RAREST)).await;
    }
}

/// Looks once; how long the looking took.
async fn turn(shared: &Arc<Shared>) -> Duration {
    let woken = Instant::now();
    let leaving = shared.needs.subjects.leaving();
    let pods = shared.needs.subjects.pods().into_iter().filter(|one| !leaving.contains(&one.pod.uid));
    let limited: Vec<_> = pods.filter_map(|one| Limits::of(&one.pod).map(|limits| (one, limits))).collect();
    if limited.is_empty() {
        return Duration::ZERO;
    }
    let written = match &shared.needs.runtime {
        Some(runtime) if limited.iter().any(|(_, limits)| limits.of_storage()) => {
            gather::written(runtime).await
        }
        _ => None,
    };
    let layout = shared.needs.layout.clone();
    let read = tokio::task::spawn_blocking(move || {
        let began = Instant::now();
        let look = |(subject, limits): (gather::Subject, Limits)| {
            let needs = Needs { disk: limits.of_storage(), ..Needs::default() };
            let volumes = limits.volumes.iter().map(|(name, _)| name.as_str());
            let volumes: BTreeMap<String, u64> = gather::empty_dirs(&subject, volumes);
            let found = gather::candidates(&layout, std::slice::from_ref(&subject), needs, written.as_ref());
            let candidate = found.into_iter().next()?;
            let exceeded = exceeded(&limits, &candidate, &volumes)?;
            Some(Beyond { candidate, exceeded })
        };
        (limited.into_iter().filter_map(look).collect::<Vec<_>>(), began.elapsed())
    });
    let (beyond, took) = read.await.unwrap_or_default();
    for one in &beyond {
        evict(shared, one, woken);
    }
    took
}

fn evict(shared: &Shared, beyond: &Beyond, woken: Instant) {
    let Beyond { candidate, exceeded } = beyond;
    let pod = &candidate.pod;
    let mut story = Story::new("eviction", "timer", woken, !shared.acts());
    story.saw(&[SignalSeen {
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
    let spared = rank::spared(&shared.needs.settings, pod);
    story.ranked(vec![CandidateSeen::new(
        pod,
        (exceeded.used, exceeded.limit),
        spared.is_none(),
        spared.unwrap_or_default(),
    )]);
    let name = format!("{}/{}", pod.namespace, pod.name);
    if let Some(why) = spared {
        return shared.blocked(&about, format!("{name} stays, being {why}: {}", exceeded.message), story);
    }
    let Some(evict) = &shared.needs.evict else {
        return shared.would(&about, pod, &exceeded.message, story);
    };
    let began = Instant::now();
    let message = exceeded.message.clone();
    evict(&pod.uid, Eviction { reason: EVICTED.to_owned(), message, grace: Some(GRACE), condition: None });
    told::evicted(exceeded.signal);
    story.step("told to end", began, format!("with a grace of {GRACE:?}"));
    shared.remember(story.end(format!("{name} evicted: {}", exceeded.message)));
}
