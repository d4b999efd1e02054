//! The task that watches disks: what nobody needs goes first, then a pod.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::warn;

use super::shared::{Part, Shared};
use super::story::Story;
use crate::assess::{Assessment, Due, for_layout};
use crate::gather;
use crate::rank;
use crate::rank::Reclaim;
use crate::{Candidate, DiskLayout, NodeCondition, kill, message, told};
use crate::{EVICTED, Eviction};
use nodewarden_config::{EvictionSettings, Signal};
use nodewarden_gc::{Collector, GcError};
use nodewarden_pods::volume;

/// Between two looks as long as nothing is short (kubelet: monitoringInterval).
const CALM: Duration = Duration::from_secs(10);
/// Between two looks where something is, or is about to be.
const SHORT: Duration = Duration::from_secs(1);
/// A file system is about to be short below so many times its threshold.
const NEAR: u64 = 2;
/// How long a pod's files are waited for (kubelet: podCleanupTimeout).
const GONE: Duration = Duration::from_secs(30);
/// What has not come back within this time of the last that did is not waited for.
const STILL: Duration = Duration::from_secs(3);
/// Between two looks whether they are gone.
const LOOK: Duration = Duration::from_millis(50);

/// A pod that was told to go with a grace: others that are soft wait for it.
struct Leaving {
    uid: String,
    until: Instant,
}

struct Watch {
    shared: Arc<Shared>,
    collector: Collector,
    leaving: Option<Leaving>,
}

/// Runs for as long as it is polled.
pub async fn run(shared: Arc<Shared>, collector: Collector) {
    if shared.disk.thresholds.is_empty() {
        return;
    }
    let begun = Instant::now();
    while !shared.knows_pods(begun) {
        tokio::time::sleep(LOOK).await;
    }
    let mut watch = Watch { shared, collector, leaving: None };
    loop {
        let wait = match watch.turn().await {
            Ok(wait) => wait,
            Err(error) => {
                let problem = error.to_string();
                if watch.shared.say("disks", &problem) {
                    warn!("disks cannot be watched: {problem}");
                }
                SHORT
            }
        };
        tokio::time::sleep(wait).await;
    }
}

impl Watch {
    async fn turn(&mut self) -> Result<Duration, GcError> {
        let woken = Instant::now();
        let (assessment, layout) = self.look().await?;
        let leaving = self.shared.needs.subjects.leaving();
        self.leaving.take_if(|one| Instant::now() >= one.until || !leaving.contains(&one.uid));
        for due in &assessment.due {
            // A soft threshold waits for the grace of the pod that it chose; a hard one does not.
            if self.leaving.is_some() && !due.threshold.is_hard() {
                continue;
            }
            let mut story = Story::new("eviction", "timer", woken, !self.shared.acts());
            story.saw(&assessment.seen);
            if self.relieve(due, layout, story).await? {
                return Ok(Duration::ZERO.max(LOOK));
            }
        }
        let near = assessment.seen.iter().any(|seen| seen.available < seen.threshold.saturating_mul(NEAR));
        let wait = if near || !assessment.due.is_empty() { SHORT } else { CALM };
        let until =
            |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
        Ok(assessment.again.map_or(wait, |at| wait.min(until(at).max(LOOK))))
    }

    async fn look(&self) -> Result<(Assessment, DiskLayout), GcError> {
        let systems = self.collector.file_systems().await?;
        let (observations, layout) = gather::disks(&systems);
        let own = &self.shared.disk;
        let settings = EvictionSettings { thresholds: for_layout(&own.thresholds, layout), ..own.clone() };
        Ok((self.shared.assess(Part::Disk, &settings, &observations), layout))
    }

    /// What nobody needs, and then a pod; false where neither is of help.
    async fn relieve(&mut self, due: &Due, layout: DiskLayout, mut story: Story) -> Result<bool, GcError> {
        let shared = self.shared.clone();
        let signal = due.threshold.signal;
        if shared.say(&format!("reclaim {}", signal.name()), "") {
            // kubelet: the event of the threshold that is met.
            let what = NodeCondition::of(signal).name();
            shared.event("EvictionThresholdMet", format!("{what}: attempting to reclaim {}", signal.name()));
        }
        if shared.acts() && self.reclaim(due, layout, &mut story).await? {
            shared.forget(&format!("reclaim {}", signal.name()));
            shared.remember(story.end(format!("{}: enough came free without a pod's end", signal.name())));
            return Ok(true);
        }
        let began = Instant::now();
        let candidates = self.candidates(due).await;
        story.step("pods read", began, format!("{} pods", candidates.len()));
        let ranking = rank::rank(signal, layout, &shared.needs.settings, &candidates);
        let uses =
            |at: &&usize| candidates.get(**at).is_some_and(|one| rank::figures(signal, layout, one).0 > 0);
        let chosen = ranking.go.iter().find(uses).copied();
        story.ranked(rank::seen(signal, layout, &ranking, &candidates, chosen));
        let Some(candidate) = chosen.and_then(|at| candidates.get(at)) else {
            shared.nobody(signal, story);
            return Ok(false);
        };
        let text = message::message(due, candidate);
        let name = format!("{}/{}", candidate.pod.namespace, candidate.pod.name);
        if !shared.acts() {
            shared.would(signal.name(), &candidate.pod, &text, story);
            return Ok(false);
        }
        let outcome = format!("{name} evicted: {text}");
        shared.forget(signal.name());
        if self.evict(due, candidate, text, &mut story).await {
            let number = shared.remember(story.so_far(&outcome));
            self.await_end(due, layout, candidate, &mut story).await;
            shared.complete(number, story.end(outcome));
        } else {
            shared.remember(story.end(outcome));
        }
        Ok(true)
    }

    /// Node-level reclaim; whether it was enough.
    async fn reclaim(&self, due: &Due, layout: DiskLayout, story: &mut Story) -> Result<bool, GcError> {
        for reclaim in rank::reclaims(due.threshold.signal, layout) {
            let began = Instant::now();
            let (what, done) = match reclaim {
                Reclaim::DeadContainers => {
                    let done = self.collector.delete_all_unused_containers().await;
                    ("dead containers removed", done.map(|()| String::new()))
                }
                Reclaim::UnusedImages => {
                    let done = self.collector.delete_unused_images().await;
                    ("unused images removed", done.map(|freed| format!("{freed} bytes came free")))
                }
            };
            story.step(what, began, done.unwrap_or_else(|error| error.to_string()));
        }
        let began = Instant::now();
        let (assessment, _) = self.look().await?;
        let short = assessment.due.iter().find(|one| one.threshold == due.threshold);
        story.step("read again", began, if short.is_some() { "not enough" } else { "enough" });
        Ok(short.is_none())
    }

    async fn candidates(&self, due: &Due) -> Vec<Candidate> {
        let (shared, needs) = (self.shared.clone(), rank::needs(due.threshold.signal));
        let written = match &shared.needs.runtime {
            Some(runtime) => gather::written(runtime).await,
            None => None,
        };
        let read = tokio::task::spawn_blocking(move || {
            let subjects = shared.needs.subjects.pods();
            gather::candidates(&shared.needs.layout, &subjects, needs, written.as_ref())
        });
        read.await.unwrap_or_default()
    }

    /// Has it go; whether its end is to be waited for.
    async fn evict(&mut self, due: &Due, candidate: &Candidate, text: String, story: &mut Story) -> bool {
        let shared = self.shared.clone();
        let Some(evict) = &shared.needs.evict else { return false };
        let signal = due.threshold.signal;
        let hard = due.threshold.is_hard();
        let own = nodewarden_manifest::grace(&candidate.pod);
        let grace = if hard { Duration::ZERO } else { shared.needs.settings.soft_grace(own) };
        let uid = &candidate.pod.uid;
        let began = Instant::now();
        let condition = Some(NodeCondition::of(signal));
        evict(uid, Eviction { reason: EVICTED.to_owned(), message: text, grace: Some(grace), condition });
        told::evicted(signal.name());
        if !hard {
            story.step("told to end", began, format!("with a grace of {grace:?}"));
            self.leaving = Some(Leaving { uid: uid.clone(), until: began + grace + GONE });
            return false;
        }
        let (own, cgroup) = (shared.clone(), candidate.cgroup.clone());
        let killed = tokio::task::spawn_blocking(move || kill::kill(&own.needs.layout, &cgroup));
        let result = match killed.await {
            Ok(Ok(processes)) => format!("{processes} processes"),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a fault in the agent".to_owned(),
        };
        story.step("kill", began, result);
        true
    }

    /// Waits until it has ended, its files are gone, and the file system has what they took.
    async fn await_end(&self, due: &Due, layout: DiskLayout, candidate: &Candidate, story: &mut Story) {
        let (shared, uid) = (&self.shared, &candidate.pod.uid);
        let began = Instant::now();
        let home =
            shared.needs.subjects.pods().into_iter().find(|one| one.pod.uid == *uid).map(|one| one.home);
        let has_files = || home.as_deref().is_some_and(volume::has_volumes);
        while (has_files() || shared.needs.subjects.leaving().contains(uid)) && began.elapsed() < GONE {
            tokio::time::sleep(LOOK).await;
        }
        // Its writable layers go with its containers.
        let done = self.collector.delete_all_unused_containers().await;
        story.step("files gone", began, done.err().map(|error| error.to_string()).unwrap_or_default());
        let began = Instant::now();
        let used = rank::figures(due.threshold.signal, layout, candidate).0;
        let expected = due.observed.available.saturating_add(used / 10 * 9);
        let (mut last, mut grown) = (0, Instant::now());
        // A file system gives back large files bit by bit, after their removal.
        while began.elapsed() < GONE && grown.elapsed() < STILL {
            let available = self.available(due.threshold.signal).await.unwrap_or(last);
            if due.is_met_by(available) || available >= expected {
                last = available;
                break;
            }
            if available > last {
                (last, grown) = (available, Instant::now());
            }
            tokio::time::sleep(LOOK).await;
        }
        story.step("space back", began, format!("{last} available"));
    }

    async fn available(&self, signal: Signal) -> Option<u64> {
        let systems = self.collector.file_systems().await.ok()?;
        gather::disks(&systems).0.get(&signal).map(|seen| seen.available)
    }
}
