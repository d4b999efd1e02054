//! The task that watches disks: unused containers and images are removed first, then a pod is evicted.
//!
//! A pod is evicted only when it is certain which one is the first ([`crate::choose`]). As long as it is not,
//! the pods that may be the first are counted further, and the file system is read again after each turn,
//! since it may have enough space by then. When that takes long, other thresholds have their turn in between.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::warn;

use super::decision_log::DecisionLog;
use super::figures::{self, Counted, names};
use super::freed::{self, Back, LOOK};
use super::reclaim;
use super::shared::{Group, Shared};
use crate::assess::{Assessment, Due, for_layout};
use crate::choose::{Choice, choose};
use crate::gather;
use crate::rank;
use crate::rank::Reclaim;
use crate::{Candidate, DiskLayout, NodeCondition, UsedOf, kill, message, metrics};
use crate::{Eviction, EvictionReason};
use nodewarden_config::{EvictionSettings, Signal};
use nodewarden_gc::{Collector, FileSystems, GcError};
use nodewarden_tasks::blocking;
use nodewarden_tasks::parts::Pulse;
use nodewarden_tasks::pause::pause;

/// Time between two readings as long as nothing is short (kubelet: monitoringInterval).
const CALM: Duration = Duration::from_secs(10);
/// Time between two readings when a file system is short or nearly so.
const SHORT: Duration = Duration::from_secs(1);
/// A file system is nearly short when less than this many times its threshold is available.
const NEAR: u64 = 2;
/// Pods are counted for so long before the file system is read again.
const TURN: Duration = Duration::from_secs(1);
/// After this time other thresholds have their turn; counting continues with the next check.
const PATIENCE: Duration = Duration::from_secs(10);
/// Least time between two turns.
const LEAST: Duration = Duration::from_millis(200);

/// A pod that was evicted with a grace period. While it ends, soft thresholds evict no other.
struct Leaving {
    uid: String,
    until: Instant,
}

/// The file systems at one moment.
struct Reading {
    assessment: Assessment,
    layout: DiskLayout,
    systems: FileSystems,
}

impl Reading {
    fn used_of(&self, signal: Signal) -> Option<UsedOf> {
        gather::used_of(&self.systems, signal)
    }
}

/// How the search for a victim ended.
struct Found {
    /// The threshold as last read.
    due: Due,
    layout: DiskLayout,
    candidates: Vec<Candidate>,
    choice: Choice,
}

struct DiskWatch {
    shared: Arc<Shared>,
    collector: Collector,
    leaving: Option<Leaving>,
    /// Nothing was short since the start, or what an earlier agent evicted was waited for.
    settled: bool,
}

/// Watches until the task is aborted.
pub async fn run(shared: Arc<Shared>, collector: Collector, pulse: Pulse) {
    if shared.disk.thresholds.is_empty() {
        return;
    }
    let begun = Instant::now();
    while !shared.knows_pods(begun) {
        tokio::time::sleep(LOOK).await;
    }
    let mut watch = DiskWatch { shared, collector, leaving: None, settled: false };
    loop {
        pulse.progress();
        let wait = match watch.check().await {
            Ok(wait) => wait,
            Err(error) => {
                let problem = error.to_string();
                if watch.shared.is_news("disks", &problem) {
                    warn!("disks cannot be watched: {problem}");
                }
                SHORT
            }
        };
        pause(wait).await;
    }
}

impl DiskWatch {
    async fn check(&mut self) -> Result<Duration, GcError> {
        let woken = Instant::now();
        let Reading { assessment, layout, .. } = self.read().await?;
        if let Some(due) = assessment.due.first().filter(|_| !self.settled) {
            self.await_earlier(due).await;
            self.settled = true;
            return Ok(LOOK);
        }
        self.settled = true;
        let leaving = self.shared.deps.subjects.leaving();
        self.leaving.take_if(|one| Instant::now() >= one.until || !leaving.contains(&one.uid));
        for due in &assessment.due {
            // A soft threshold waits for the grace period of the pod that it chose; a hard one does not.
            if self.leaving.is_some() && !due.threshold.is_hard() {
                continue;
            }
            let mut log = DecisionLog::new("eviction", "timer", woken, !self.shared.acts_on_disks());
            log.record_signals(&assessment.seen);
            if self.evict_for(due, layout, log).await? {
                return Ok(Duration::ZERO.max(LOOK));
            }
        }
        if assessment.due.is_empty() {
            figures::tidy(&self.shared);
        }
        let near = assessment.seen.iter().any(|seen| seen.available < seen.threshold.saturating_mul(NEAR));
        let wait = if near || !assessment.due.is_empty() { SHORT } else { CALM };
        let until =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        Ok(assessment.again.map_or(wait, |at| wait.min(until(at).max(LOOK))))
    }

    async fn read(&self) -> Result<Reading, GcError> {
        let systems = self.collector.file_systems().await?;
        let (observations, layout) = gather::disks(&systems);
        let own = &self.shared.disk;
        let settings = EvictionSettings { thresholds: for_layout(&own.thresholds, layout), ..own.clone() };
        let assessment = self.shared.assess(Group::Disk, &settings, &observations);
        self.shared.report(Group::Disk, &assessment);
        Ok(Reading { assessment, layout, systems })
    }

    /// Reclaims unused containers and images, and evicts a pod if that is not enough. Returns false if
    /// nothing was freed.
    async fn evict_for(
        &mut self,
        due: &Due,
        layout: DiskLayout,
        mut log: DecisionLog,
    ) -> Result<bool, GcError> {
        let shared = self.shared.clone();
        let signal = due.threshold.signal;
        if shared.is_news(&format!("reclaim {}", signal.name()), "") {
            shared.report_met(signal);
        }
        if shared.acts_on_disks() && self.reclaim(due, layout, &mut log).await? {
            shared.clear_news(&format!("reclaim {}", signal.name()));
            shared.record(log.finish(format!("{}: enough came free without a pod's end", signal.name())));
            return Ok(true);
        }
        let Some(found) = self.find(due, &mut log).await? else {
            shared.clear_news(&format!("reclaim {}", signal.name()));
            let outcome = format!("{}: enough came free while files were counted", signal.name());
            shared.record(log.finish(outcome));
            return Ok(true);
        };
        let Found { due, layout, candidates, choice } = &found;
        let layout = *layout;
        let chosen = if let Choice::Evict(at) = choice { Some(*at) } else { None };
        let ranking = rank::rank(signal, layout, &shared.deps.settings, candidates);
        log.record_candidates(rank::ranking_table(signal, layout, &ranking, candidates, chosen));
        if let Choice::Measure(open) = choice {
            let open: Vec<_> = open.iter().filter_map(|at| candidates.get(*at)).collect();
            shared.record_uncertain(signal, &names(&open), log);
            return Ok(false);
        }
        shared.clear_news(&format!("uncertain {}", signal.name()));
        let Some(candidate) = chosen.and_then(|at| candidates.get(at)) else {
            shared.record_no_candidate(signal, log);
            return Ok(false);
        };
        let text = message::message(due, candidate);
        let name = format!("{}/{}", candidate.pod.namespace, candidate.pod.name);
        if !shared.acts_on_disks() {
            shared.record_dry_run(signal.name(), &candidate.pod, &text, log);
            return Ok(false);
        }
        let outcome = format!("{name} evicted: {text}");
        shared.clear_news(signal.name());
        if self.evict(due, candidate, text, &mut log).await {
            let number = shared.record(log.snapshot(&outcome));
            self.await_end(due, layout, candidate, &mut log).await;
            shared.complete(number, log.finish(outcome));
        } else {
            shared.record(log.finish(outcome));
        }
        Ok(true)
    }

    /// Node-level reclaim, without the steps in which the runtime hangs. Returns whether it was enough.
    async fn reclaim(&self, due: &Due, layout: DiskLayout, log: &mut DecisionLog) -> Result<bool, GcError> {
        let before = self.collector.removals();
        for reclaim in rank::reclaims(due.threshold.signal, layout) {
            let began = Instant::now();
            let collector = &self.collector;
            let removals = || collector.removals();
            let (what, done) = match reclaim {
                Reclaim::DeadContainers => {
                    let done = reclaim::bounded(collector.delete_all_unused_containers(), removals).await;
                    ("dead containers removed", done.map(|done| done.map(|()| String::new())))
                }
                Reclaim::UnusedImages => {
                    let done = reclaim::bounded(collector.delete_unused_images(), removals).await;
                    let text = |freed| format!("{freed} bytes came free");
                    ("unused images removed", done.map(|done| done.map(text)))
                }
            };
            let done = done.unwrap_or_else(|cut_off| {
                warn!("{}: {what}: {cut_off}", due.threshold.signal.name());
                Ok(cut_off.to_string())
            });
            log.record_step(what, began, done.unwrap_or_else(|error| error.to_string()));
        }
        if !self.is_still_short(due, log).await? {
            return Ok(true);
        }
        if self.collector.removals() == before {
            return Ok(false);
        }
        let began = Instant::now();
        let last = self.await_layers(due).await;
        log.record_step("space back", began, format!("{last} available"));
        Ok(!self.is_still_short(due, log).await?)
    }

    /// Reads the file systems again; whether the threshold is still met.
    async fn is_still_short(&self, due: &Due, log: &mut DecisionLog) -> Result<bool, GcError> {
        let began = Instant::now();
        let Reading { assessment, .. } = self.read().await?;
        let short = assessment.due.iter().any(|one| one.threshold == due.threshold);
        log.record_step("read again", began, if short { "not enough" } else { "enough" });
        Ok(short)
    }

    /// Waits until the layers of removed containers are enough, or no more of them come free, or the time is
    /// over. Returns what was available last.
    async fn await_layers(&self, due: &Due) -> u64 {
        let before = due.observed.available;
        let back = |available: u64| match available {
            _ if due.is_met_by(available) => Back::Enough,
            _ if available < before / 2 => Back::Shrunk,
            _ if available > before => Back::Part,
            _ => Back::Nothing,
        };
        freed::space_back(|| self.available(due.threshold.signal), back, freed::LAYERS).await
    }

    /// Counts pods until it is certain which is the first, or for [`PATIENCE`]. `None` if the threshold is
    /// not met any more.
    async fn find(&self, due: &Due, log: &mut DecisionLog) -> Result<Option<Found>, GcError> {
        let (shared, signal, began) = (&self.shared, due.threshold.signal, Instant::now());
        let mut counted = Counted::All;
        loop {
            let (turn, all) = (Instant::now(), matches!(counted, Counted::All));
            let mut candidates = figures::candidates(shared, counted, TURN).await;
            // Read after the pods: what they write meanwhile is in it.
            let reading = self.read().await?;
            gather::leave_out_layers_elsewhere(&mut candidates, &reading.systems, signal);
            let met = reading.assessment.due.iter().find(|one| one.threshold == due.threshold).cloned();
            let (layout, settings) = (reading.layout, &shared.deps.settings);
            let choice = choose(signal, layout, settings, &candidates, reading.used_of(signal));
            counted = match &choice {
                Choice::Measure(open) if met.is_some() && began.elapsed() < PATIENCE => {
                    // If nothing is left to count, a figure of the runtime is missing.
                    tokio::time::sleep(LEAST.saturating_sub(turn.elapsed())).await;
                    let open = open.iter().filter_map(|at| candidates.get(*at));
                    Counted::Only(open.map(|one| one.pod.uid.clone()).collect())
                }
                // What the others use was counted a while ago.
                Choice::Evict(_) | Choice::NoPod if met.is_some() && !all => Counted::All,
                _ => {
                    log.record_step("pods read", began, format!("{} pods", candidates.len()));
                    return Ok(met.map(|due| Found { due, layout, candidates, choice }));
                }
            };
        }
    }

    /// Evicts the candidate. Returns whether to wait for its end.
    async fn evict(&mut self, due: &Due, candidate: &Candidate, text: String, log: &mut DecisionLog) -> bool {
        let shared = self.shared.clone();
        let Some(evict) = &shared.deps.evict else { return false };
        let signal = due.threshold.signal;
        let hard = due.threshold.is_hard();
        let own = nodewarden_manifest::grace(&candidate.pod);
        let grace = if hard { Duration::ZERO } else { shared.deps.settings.soft_grace(own) };
        let uid = &candidate.pod.uid;
        let began = Instant::now();
        let condition = Some(NodeCondition::of(signal));
        evict(
            uid,
            Eviction {
                reason: EvictionReason::Evicted,
                message: text,
                grace: Some(grace),
                killed: hard,
                condition,
            },
        );
        metrics::record_eviction(signal.name());
        if !hard {
            log.record_step("asked to end", began, format!("with a grace of {grace:?}"));
            self.leaving = Some(Leaving { uid: uid.clone(), until: began + grace + freed::GONE });
            return false;
        }
        let (own, cgroup) = (shared.clone(), candidate.cgroup.clone());
        let killed = blocking::KILLS.run(move || kill::kill(&own.files, &cgroup, None));
        let result = match killed.await {
            Ok(Ok(signalled)) => format!("{} processes", signalled.processes),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a fault in the agent".to_owned(),
        };
        log.record_step("kill", began, result);
        true
    }

    /// Waits until the pod has ended, its files and containers are removed, and the file system shows the
    /// freed space.
    async fn await_end(&self, due: &Due, layout: DiskLayout, candidate: &Candidate, log: &mut DecisionLog) {
        let (shared, uid) = (&self.shared, &candidate.pod.uid);
        let began = Instant::now();
        let pod_dir =
            shared.deps.subjects.pods().into_iter().find(|one| one.pod.uid == *uid).map(|one| one.pod_dir);
        freed::files_gone(pod_dir, || shared.deps.subjects.leaving().contains(uid), freed::GONE).await;
        log.record_step("files gone", began, String::new());
        let began = Instant::now();
        let problem = freed::containers_gone(|| self.remaining_containers(uid), freed::REMOVED).await;
        log.record_step("containers removed", began, problem.unwrap_or_default());
        let began = Instant::now();
        let used = rank::figures(due.threshold.signal, layout, candidate).0;
        let before = due.observed.available;
        let back = |available: u64| {
            if due.is_met_by(available) || available >= before.saturating_add(used / 10 * 9) {
                Back::Enough
            } else if available >= before.saturating_add(used / 2) {
                Back::Part
            } else if available < before / 2 {
                Back::Shrunk
            } else {
                Back::Nothing
            }
        };
        let last = freed::space_back(|| self.available(due.threshold.signal), back, freed::SPACE).await;
        log.record_step("space back", began, format!("{last} available"));
        // Another pod is chosen only by what is counted from now on.
        shared.measurer.expire();
    }

    /// Waits until pods that an earlier agent evicted have ended and the file system shows what they freed:
    /// otherwise another pod would be evicted for the same shortage.
    async fn await_earlier(&self, due: &Due) {
        let subjects = &self.shared.deps.subjects;
        let leaving = subjects.leaving();
        for subject in subjects.pods().into_iter().filter(|one| leaving.contains(&one.pod.uid)) {
            let uid = &subject.pod.uid;
            let leaves = || subjects.leaving().contains(uid);
            freed::files_gone(Some(subject.pod_dir), leaves, freed::GONE).await;
            let problem = freed::containers_gone(|| self.remaining_containers(uid), freed::REMOVED).await;
            if let Some(problem) = problem {
                warn!(
                    "{}/{}, evicted by an earlier agent: {problem}",
                    subject.pod.namespace, subject.pod.name
                );
            }
        }
        // How much it is, is not known any more: nothing says that some of it is back.
        let back = |available| if due.is_met_by(available) { Back::Enough } else { Back::Nothing };
        freed::space_back(|| self.available(due.threshold.signal), back, freed::EARLIER).await;
        self.shared.measurer.expire();
    }

    /// Removes unused containers. Returns how many the runtime still has of the pod.
    async fn remaining_containers(&self, uid: &str) -> Result<usize, GcError> {
        let removal = self.collector.delete_all_unused_containers();
        // What is cut off shows in what remains.
        let removed = reclaim::bounded(removal, || self.collector.removals()).await.unwrap_or(Ok(()));
        let remaining = self.collector.containers_of(uid).await?;
        if remaining == 0 { Ok(0) } else { removed.map(|()| remaining) }
    }

    async fn available(&self, signal: Signal) -> Option<u64> {
        let systems = self.collector.file_systems().await.ok()?;
        gather::disks(&systems).0.get(&signal).map(|seen| seen.available)
    }
}

#[cfg(test)]
mod tests;
