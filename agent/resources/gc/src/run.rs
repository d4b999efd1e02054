//! One run: its steps, results and failures.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use nodewarden_model::{GcOutcome, GcStep};
use tokio::sync::mpsc;
use tracing::{debug, info};

use super::metrics;
use super::metrics::Part;

/// The state of a run.
#[derive(Debug)]
pub struct Run {
    pub began: Timestamp,
    /// Only plan; remove nothing.
    pub dry: bool,
    pub outcome: GcOutcome,
    steps: Option<mpsc::UnboundedSender<GcStep>>,
    /// By kind of removal: number of failures and the first error.
    failures: BTreeMap<Part, (u32, String)>,
    removed: BTreeMap<Part, u32>,
    /// Counts what all runs removed.
    total: Arc<AtomicU64>,
}

impl Run {
    pub fn new(dry: bool, steps: Option<mpsc::UnboundedSender<GcStep>>, total: &Arc<AtomicU64>) -> Self {
        Self {
            began: Timestamp::now(),
            dry,
            // Until bytes have to be freed.
            outcome: GcOutcome { reached: true, ..GcOutcome::default() },
            steps,
            failures: BTreeMap::new(),
            removed: BTreeMap::new(),
            total: total.clone(),
        }
    }

    /// Sends a step of a dry run: something would be removed.
    pub fn planned(&self, what: Part, id: &str, name: String) {
        self.send(what, id, name, None, String::new());
    }

    /// Records a removal; `freed` is the number of bytes that it freed, if measured.
    pub fn removed(&mut self, what: Part, id: &str, name: String, freed: Option<u64>) {
        info!(what = what.name(), id, name, freed, "removed");
        *self.removed.entry(what).or_default() += 1;
        self.total.fetch_add(1, Ordering::Relaxed);
        if let Some(freed) = freed {
            self.outcome.freed += freed;
            metrics::freed(freed);
        }
        self.send(what, id, name, freed, String::new());
    }

    /// Records a failed removal.
    pub fn failed(&mut self, what: Part, id: &str, name: String, error: String) {
        debug!(what = what.name(), id, name, error, "not removed");
        metrics::failed(what);
        self.failures.entry(what).or_insert_with(|| (0, format!("{id}: {error}"))).0 += 1;
        self.send(what, id, name, None, error);
    }

    /// A text about the failures of this kind; `None` without failures.
    pub fn failure(&self, what: Part) -> Option<String> {
        self.failures.get(&what).map(|(times, first)| match times {
            1 => first.clone(),
            times => format!("{times} of them, first {first}"),
        })
    }

    /// How many of this kind were removed.
    pub fn count(&self, what: Part) -> u32 {
        self.removed.get(&what).copied().unwrap_or_default()
    }

    /// Whether nothing was removed and nothing failed to be.
    pub fn had_nothing_to_do(&self) -> bool {
        self.removed.is_empty() && self.failures.is_empty()
    }

    fn send(&self, what: Part, id: &str, name: String, freed: Option<u64>, error: String) {
        if let Some(steps) = &self.steps {
            let (time, what, id) = (Timestamp::now(), what.name(), id.to_owned());
            let step = GcStep { time, what, id, name, freed, error, dry: self.dry };
            // The run continues if the receiver was dropped.
            let _ = steps.send(step);
        }
    }
}
