//! What the thread and the tasks of the engine share: the state of the thresholds, and how decisions are
//! reported.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::crossings::Crossings;
use super::decision_log::DecisionLog;
use super::disk_view::DiskViews;
use super::saver::{RestoredState, Saver};
use super::{Deps, conditions};
use crate::assess::{Assessment, Due, ThresholdState, assess};
use crate::usage::{LayersQuestion, Measurer};
use crate::{NodeCondition, Observations, message, metrics};
use nodewarden_config::{EvictionSettings, EvictionThreshold, Signal};
use nodewarden_machine::cgroup::control::GroupFiles;
use nodewarden_machine::clock::read_clocks;
use nodewarden_manifest::Pod;
use nodewarden_model::{Decision, Detail, SignalSeen};

/// A message that has not changed is repeated after this time.
const REPEAT_AFTER: Duration = Duration::from_secs(60);

/// State that has not changed is saved again after this time, since the next agent only uses what is under a
/// minute old.
const SAVE_AFTER: Duration = Duration::from_secs(10);

/// Longest wait for the pods of an earlier agent: a runtime that does not answer must not prevent the node
/// from getting memory back.
const KNOWN: Duration = Duration::from_secs(5);

/// State that is saved across restarts of the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Saved {
    pub fast: ThresholdState,
    pub disk: ThresholdState,
}

/// A group of thresholds that is assessed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Memory and processes.
    Fast,
    Disk,
}

impl Group {
    fn has(self, condition: NodeCondition) -> bool {
        (condition == NodeCondition::DiskPressure) == (self == Self::Disk)
    }

    fn thresholds(self, settings: &EvictionSettings) -> EvictionSettings {
        let own = |threshold: &&EvictionThreshold| self.has(NodeCondition::of(threshold.signal));
        EvictionSettings {
            thresholds: settings.thresholds.iter().filter(own).cloned().collect(),
            ..settings.clone()
        }
    }
}

/// State shared by the thread and the tasks.
pub struct Shared {
    pub deps: Deps,
    /// The cgroups of pods.
    pub files: GroupFiles,
    pub fast: EvictionSettings,
    pub disk: EvictionSettings,
    began: Timestamp,
    saved: Mutex<Saved>,
    saver: Saver,
    /// When conditions last ended.
    ended: Mutex<BTreeMap<NodeCondition, Timestamp>>,
    /// What was last saved of each group, and when.
    last: Mutex<BTreeMap<&'static str, (Vec<String>, Instant)>>,
    /// Thresholds as last read.
    pub seen: Mutex<BTreeMap<Group, Vec<SignalSeen>>>,
    /// The wake-up sources, as shown to users.
    pub watching: Mutex<Vec<String>>,
    /// The last message on each subject, and when it was reported.
    reported: Mutex<BTreeMap<String, (String, Instant)>>,
    /// Thresholds of memory and processes that are met.
    crossings: Mutex<Crossings>,
    /// Counts what pods use on disk.
    pub measurer: Measurer,
    /// The question to the runtime for its figures.
    pub layers: LayersQuestion,
    /// What `/stats/summary` shows of that.
    pub disk_views: DiskViews,
}

impl Shared {
    /// Continues with the state that an earlier agent saved.
    pub fn new(deps: Deps, restored: RestoredState) -> Self {
        let RestoredState { saver, saved, problem } = restored;
        let this = Self {
            fast: Group::Fast.thresholds(&deps.settings),
            disk: Group::Disk.thresholds(&deps.settings),
            files: GroupFiles::new(Arc::new(deps.layout.clone())),
            began: Timestamp::now(),
            saved: Mutex::new(saved),
            saver,
            ended: Mutex::default(),
            last: Mutex::default(),
            seen: Mutex::default(),
            watching: Mutex::default(),
            reported: Mutex::default(),
            crossings: Mutex::default(),
            measurer: Measurer::default(),
            layers: LayersQuestion::default(),
            disk_views: DiskViews::default(),
            deps,
        };
        if let Some(problem) = problem {
            warn!("{problem}");
            this.event("RecordDamaged", problem);
        }
        this
    }

    /// Whether pods are evicted, not only reported.
    pub fn acts(&self) -> bool {
        self.deps.evict.is_some()
    }

    /// Whether something is done about disks, not only reported.
    pub fn acts_on_disks(&self) -> bool {
        self.acts() && self.deps.beside.is_none()
    }

    /// Beside a kubelet, why the pod of this uid must not be chosen.
    pub fn spares(&self, uid: &str, hard: bool) -> Option<&'static str> {
        self.deps.beside.as_ref()?.spares(uid, hard)
    }

    /// Beside a kubelet, whether the eviction of this pod was refused.
    pub fn was_refused(&self, uid: &str) -> bool {
        self.deps.beside.as_ref().is_some_and(|beside| beside.was_refused(uid))
    }

    /// Whether a victim can be chosen: all pods are known, or waiting for them since `begun` has timed out.
    pub fn knows_pods(&self, begun: Instant) -> bool {
        self.deps.subjects.are_known() || begun.elapsed() >= KNOWN
    }

    /// Assesses the readings of a group, publishes its conditions and saves its state.
    pub fn assess(
        &self,
        part: Group,
        settings: &EvictionSettings,
        observations: &Observations,
    ) -> Assessment {
        let clocks = read_clocks();
        let now = clocks.wall;
        let mut saved = self.saved.lock();
        let own = match part {
            Group::Fast => &mut saved.fast,
            Group::Disk => &mut saved.disk,
        };
        own.align(&clocks);
        let assessment = assess(settings, observations, own, now);
        own.clone_from(&assessment.state);
        assessment
    }

    /// Saves what was assessed, and publishes the conditions. Wakes other threads, for which a kill should
    /// not wait.
    pub fn report(&self, part: Group, assessment: &Assessment) {
        self.save(part, &self.saved.lock(), assessment);
        self.seen.lock().insert(part, assessment.seen.clone());
        self.publish(part, assessment, Timestamp::now());
    }

    /// Saves changed state at once, unchanged state every [`SAVE_AFTER`].
    fn save(&self, part: Group, saved: &Saved, assessment: &Assessment) {
        let passed = assessment.seen.iter().filter(|seen| seen.passed);
        let due = assessment.due.iter().map(|due| due.threshold.signal.name().to_owned());
        let conditions = assessment.pressure.0.keys().map(|condition| condition.name().to_owned());
        let now: Vec<String> = passed.map(|seen| seen.signal.clone()).chain(due).chain(conditions).collect();
        let about = match part {
            Group::Fast => "saved fast",
            Group::Disk => "saved disk",
        };
        let mut last = self.last.lock();
        let is_old = |at: &Instant| !now.is_empty() && at.elapsed() >= SAVE_AFTER;
        if last.get(about).is_none_or(|(before, at)| *before != now || is_old(at)) {
            last.insert(about, (now, Instant::now()));
            self.saver.save(saved.clone());
        }
    }

    fn publish(&self, part: Group, assessment: &Assessment, now: Timestamp) {
        let mut changed = Vec::new();
        self.deps.pressure.send_if_modified(|pressure| {
            for condition in NodeCondition::ALL.into_iter().filter(|condition| part.has(*condition)) {
                let is = assessment.pressure.0.get(&condition);
                let was = match is {
                    Some(since) => pressure.0.insert(condition, *since),
                    None => pressure.0.remove(&condition),
                };
                if was.is_some() != is.is_some() {
                    changed.push((condition, is.is_some()));
                }
            }
            !changed.is_empty()
        });
        for (condition, status) in changed {
            if !status {
                self.ended.lock().insert(condition, now);
            }
            let (_, message) = conditions::words(condition, status);
            info!("{}: {}: {message}", condition.name(), if status { "True" } else { "False" });
            self.event(conditions::event(condition, status), message.to_owned());
        }
    }

    /// When a condition that is false ended; the start of this agent if it was not true since.
    pub fn ended(&self, condition: NodeCondition) -> Timestamp {
        self.ended.lock().get(&condition).copied().unwrap_or(self.began)
    }

    /// Writes an event of the agent to the journal.
    pub fn event(&self, reason: &str, message: String) {
        let detail = Detail::Agent { reason: reason.to_owned(), message };
        self.deps.journal.append(Timestamp::now(), "", None, detail);
    }

    /// Reports a threshold that is met, in a kubelet's words.
    pub fn report_met(&self, signal: Signal) {
        self.event("EvictionThresholdMet", format!("Attempting to reclaim {}", message::resource(signal)));
    }

    /// Reports each threshold of memory and processes that is due and was not before, where this agent alone
    /// evicts: a kubelet reports its own.
    pub fn report_crossings(&self, due: &[Due]) {
        if self.acts() && self.deps.beside.is_none() {
            let signals = due.iter().map(|due| due.threshold.signal);
            let begun = self.crossings.lock().begun(signals, Instant::now());
            begun.into_iter().for_each(|signal| self.report_met(signal));
        }
    }

    /// Whether to report `message`: it differs from the last one on the same subject, or that was a minute
    /// ago. Takes note of it if so.
    pub fn is_news(&self, about: &str, message: &str) -> bool {
        let mut reported = self.reported.lock();
        let news =
            reported.get(about).is_none_or(|(last, at)| last != message || at.elapsed() >= REPEAT_AFTER);
        if news {
            reported.insert(about.to_owned(), (message.to_owned(), Instant::now()));
        }
        news
    }

    /// The next message on this subject is reported even if it is the same.
    pub fn clear_news(&self, about: &str) {
        self.reported.lock().remove(about);
    }

    /// Records that no pod may be evicted for a signal; reported once while it stays so.
    pub fn record_no_candidate(&self, signal: Signal, log: DecisionLog) {
        self.record_blocked(signal.name(), format!("{}: no pod may be evicted", signal.name()), log);
    }

    /// Records that it is not certain yet which pod is the first, because `pods` are not counted completely;
    /// reported once while it stays so.
    pub fn record_uncertain(&self, signal: Signal, pods: &str, log: DecisionLog) {
        let outcome =
            format!("{}: it is not certain yet which pod: not counted completely: {pods}", signal.name());
        if self.is_news(&format!("uncertain {}", signal.name()), &outcome) {
            self.record(log.finish(outcome));
        }
    }

    /// Reports once that the chosen pod cannot be evicted.
    pub fn record_blocked(&self, about: &str, outcome: String, log: DecisionLog) {
        if self.is_news(about, &outcome) {
            warn!("{outcome}");
            self.event("EvictionBlocked", outcome.clone());
            self.record(log.finish(outcome));
        }
    }

    /// In mode observe, records the pod that would be evicted; reported once while it is the same pod.
    pub fn record_dry_run(&self, about: &str, pod: &Pod, text: &str, log: DecisionLog) {
        if self.is_news(about, &pod.uid) {
            metrics::record_dry_run(about);
            let name = format!("{}/{}", pod.namespace, pod.name);
            self.event("WouldEvict", format!("{name}: {text}"));
            self.record(log.finish(format!("{name} would be evicted: {text}")));
        }
    }

    /// Stores a decision and returns its number, for [`Self::complete`].
    pub fn record(&self, decision: Decision) -> u64 {
        info!("{} by {}: {}", decision.kind, decision.woken_by, decision.outcome);
        self.deps.history.add(decision)
    }

    /// Replaces a stored decision with its complete record.
    pub fn complete(&self, number: u64, decision: Decision) {
        self.deps.history.replace(Decision { number, ..decision });
    }
}

#[cfg(test)]
mod tests;
