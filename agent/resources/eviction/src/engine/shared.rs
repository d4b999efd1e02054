//! What thread and task of the engine share: how the node stands, and how it is told.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::saver::{Remembered, Saver};
use super::story::Story;
use super::{Needs, conditions};
use crate::assess::{Assessment, Standing, assess};
use crate::{NodeCondition, Observations};
use nodewarden_config::{EvictionSettings, EvictionThreshold, Signal};
use nodewarden_manifest::Pod;
use nodewarden_model::{Decision, Detail, SignalSeen};

/// The same words are said again after so long.
const SAID_AGAIN: Duration = Duration::from_secs(60);

/// What stays as it is is saved again after so long: the next agent counts on what was seen within a minute.
const SAVED_AGAIN: Duration = Duration::from_secs(10);

/// An earlier agent's pods are waited for so long: a runtime that does not answer must not keep the node from getting memory
/// back.
const KNOWN: Duration = Duration::from_secs(5);

/// What must outlive the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Saved {
    pub fast: Standing,
    pub disk: Standing,
}

/// Which thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Memory and processes.
    Fast,
    Disk,
}

impl Part {
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

/// See the module.
pub struct Shared {
    pub needs: Needs,
    pub fast: EvictionSettings,
    pub disk: EvictionSettings,
    began: Timestamp,
    saved: Mutex<Saved>,
    saver: Saver,
    /// When conditions last ended.
    ended: Mutex<BTreeMap<NodeCondition, Timestamp>>,
    /// What was saved of each part last, and when.
    last: Mutex<BTreeMap<&'static str, (Vec<String>, Instant)>>,
    /// Thresholds as they were read last.
    pub seen: Mutex<BTreeMap<Part, Vec<SignalSeen>>>,
    /// What wakes the engine.
    pub watching: Mutex<Vec<String>>,
    /// What was said of each thing last, and when.
    said: Mutex<BTreeMap<String, (String, Instant)>>,
}

impl Shared {
    /// Goes on with what an earlier agent left.
    pub fn new(needs: Needs, remembered: Remembered) -> Self {
        let Remembered { saver, saved, problem } = remembered;
        let this = Self {
            fast: Part::Fast.thresholds(&needs.settings),
            disk: Part::Disk.thresholds(&needs.settings),
            began: Timestamp::now(),
            saved: Mutex::new(saved),
            saver,
            ended: Mutex::default(),
            last: Mutex::default(),
            seen: Mutex::default(),
            watching: Mutex::default(),
            said: Mutex::default(),
            needs,
        };
        if let Some(problem) = problem {
            warn!("{problem}");
            this.event("RecordDamaged", problem);
        }
        this
    }

    /// Whether anything is done at all.
    pub fn acts(&self) -> bool {
        self.needs.evict.is_some()
    }

    /// Whether the right one can be chosen: all pods are known, or that has been waited for since `begun`.
    pub fn knows_pods(&self, begun: Instant) -> bool {
        self.needs.subjects.are_known() || begun.elapsed() >= KNOWN
    }

    /// What these readings mean for a part; its conditions are published, and how it stands is kept.
    pub fn assess(&self, part: Part, settings: &EvictionSettings, observations: &Observations) -> Assessment {
        let now = Timestamp::now();
        let mut saved = self.saved.lock();
        let own = match part {
            Part::Fast => &mut saved.fast,
            Part::Disk => &mut saved.disk,
        };
        let assessment = assess(settings, observations, own, now);
        own.clone_from(&assessment.standing);
        self.save(part, &saved, &assessment);
        drop(saved);
        self.seen.lock().insert(part, assessment.seen.clone());
        self.publish(part, &assessment, now);
        assessment
    }

    /// What has changed is saved at once; that it is still so, from time to time.
    fn save(&self, part: Part, saved: &Saved, assessment: &Assessment) {
        let passed = assessment.seen.iter().filter(|seen| seen.passed);
        let due = assessment.due.iter().map(|due| due.threshold.signal.name().to_owned());
        let conditions = assessment.pressure.0.keys().map(|condition| condition.name().to_owned());
        let now: Vec<String> = passed.map(|seen| seen.signal.clone()).chain(due).chain(conditions).collect();
        let about = match part {
            Part::Fast => "saved fast",
            Part::Disk => "saved disk",
        };
        let mut last = self.last.lock();
        let is_old = |at: &Instant| !now.is_empty() && at.elapsed() >= SAVED_AGAIN;
        if last.get(about).is_none_or(|(before, at)| *before != now || is_old(at)) {
            last.insert(about, (now, Instant::now()));
            self.saver.save(saved.clone());
        }
    }

    fn publish(&self, part: Part, assessment: &Assessment, now: Timestamp) {
        let mut changed = Vec::new();
        self.needs.pressure.send_if_modified(|pressure| {
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

    /// When a condition that is false ended, as far as this agent knows.
    pub fn ended(&self, condition: NodeCondition) -> Timestamp {
        self.ended.lock().get(&condition).copied().unwrap_or(self.began)
    }

    pub fn event(&self, reason: &str, message: String) {
        let detail = Detail::Agent { reason: reason.to_owned(), message };
        self.needs.journal.append(Timestamp::now(), "", None, detail);
    }

    /// Says it unless it was said of the same thing within the last minute; whether it did.
    pub fn say(&self, about: &str, message: &str) -> bool {
        let mut said = self.said.lock();
        let news = said.get(about).is_none_or(|(last, at)| last != message || at.elapsed() >= SAID_AGAIN);
        if news {
            said.insert(about.to_owned(), (message.to_owned(), Instant::now()));
        }
        news
    }

    /// The next time it is news again.
    pub fn forget(&self, about: &str) {
        self.said.lock().remove(about);
    }

    /// Nobody may go for a signal: told once as long as it stays so.
    pub fn nobody(&self, signal: Signal, story: Story) {
        self.blocked(signal.name(), format!("{}: no pod may be evicted", signal.name()), story);
    }

    /// Who should go may not: told once as long as it stays so.
    pub fn blocked(&self, about: &str, outcome: String, story: Story) {
        if self.say(about, &outcome) {
            warn!("{outcome}");
            self.event("EvictionBlocked", outcome.clone());
            self.remember(story.end(outcome));
        }
    }

    /// In mode observe: who would have to go, told once as long as it is the same pod.
    pub fn would(&self, about: &str, pod: &Pod, text: &str, story: Story) {
        if self.say(about, &pod.uid) {
            let name = format!("{}/{}", pod.namespace, pod.name);
            self.event("WouldEvict", format!("{name}: {text}"));
            self.remember(story.end(format!("{name} would be evicted: {text}")));
        }
    }

    /// Gives its number, with which more can be told of it later.
    pub fn remember(&self, decision: Decision) -> u64 {
        info!("{} by {}: {}", decision.kind, decision.woken_by, decision.outcome);
        self.needs.history.add(decision)
    }

    /// All that there is to tell of a decision that is remembered.
    pub fn complete(&self, number: u64, decision: Decision) {
        self.needs.history.replace(Decision { number, ..decision });
    }
}
