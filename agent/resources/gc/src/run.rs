//! One run: what it is for, what it told, and what failed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tracing::{debug, info};

use super::told;
use nodewarden_model::{GcOutcome, GcStep};

/// See the module.
#[derive(Debug)]
pub struct Run {
    pub began: Timestamp,
    /// Only planned.
    pub dry: bool,
    pub outcome: GcOutcome,
    steps: Option<mpsc::UnboundedSender<GcStep>>,
    /// How often each kind of removal failed, and how first.
    failures: BTreeMap<&'static str, (u32, String)>,
    removed: BTreeMap<&'static str, u32>,
}

impl Run {
    pub fn new(dry: bool, steps: Option<mpsc::UnboundedSender<GcStep>>) -> Self {
        Self {
            began: Timestamp::now(),
            dry,
            // Until something is wanted.
            outcome: GcOutcome { reached: true, ..GcOutcome::default() },
            steps,
            failures: BTreeMap::new(),
            removed: BTreeMap::new(),
        }
    }

    /// Something would go.
    pub fn planned(&self, what: &'static str, id: &str, name: String) {
        self.send(what, id, name, None, String::new());
    }

    /// Something is gone; `freed` bytes came with it, where that was measured.
    pub fn removed(&mut self, what: &'static str, id: &str, name: String, freed: Option<u64>) {
        info!(what, id, name, freed, "removed");
        *self.removed.entry(what).or_default() += 1;
        if let Some(freed) = freed {
            self.outcome.freed += freed;
            told::freed(freed);
        }
        self.send(what, id, name, freed, String::new());
    }

    /// Something could not be removed.
    pub fn failed(&mut self, what: &'static str, id: &str, name: String, error: String) {
        debug!(what, id, name, error, "not removed");
        told::failed(what);
        self.failures.entry(what).or_insert_with(|| (0, format!("{id}: {error}"))).0 += 1;
        self.send(what, id, name, None, error);
    }

    /// What failed of this kind, for people.
    pub fn failure(&self, what: &'static str) -> Option<String> {
        self.failures.get(what).map(|(times, first)| match times {
            1 => first.clone(),
            times => format!("{times} of them, first {first}"),
        })
    }

    pub fn count(&self, what: &'static str) -> u32 {
        self.removed.get(what).copied().unwrap_or_default()
    }

    fn send(&self, what: &'static str, id: &str, name: String, freed: Option<u64>, error: String) {
        if let Some(steps) = &self.steps {
            let step =
                GcStep { time: Timestamp::now(), what, id: id.to_owned(), name, freed, error, dry: self.dry };
            // That nobody takes them ends nothing.
            let _ = steps.send(step);
        }
    }
}
