//! What a full reconcile reads of the node and moves on it: its capacity, and the cgroups of daemons.

use std::sync::Arc;
use std::time::Instant;

use tracing::warn;

use super::Reconciler;

impl Reconciler {
    /// Reads the machine's capacity; the previous one stays if that fails.
    pub(super) fn measure(&mut self) {
        let now = match self.setup.sources.capacity(Some(&self.setup.state_dir)) {
            Ok(now) => now,
            Err(error) => return self.problems.add("node", error.to_string()),
        };
        let before = self.setup.capacity.borrow().clone();
        if *before == now {
            return;
        }
        let change = before.change_to(&now);
        self.setup.capacity.send_replace(Arc::new(now));
        self.node_event("CapacityChanged", change);
    }

    /// Moves daemons into their cgroups. Only in full reconciles: `systemCgroups` reads every process of the
    /// root cgroup.
    pub(super) fn place_daemons(&mut self) {
        let due = self.placed.as_ref().is_none_or(|(when, _)| when.elapsed() >= self.setup.reconcile / 2);
        if due {
            let report = self.setup.daemons.ensure();
            for moved in &report.moved {
                let message = format!("{} (pid {}) into {}", moved.name, moved.pid, moved.to.display());
                self.node_event("ProcessMoved", message);
            }
            for adjusted in &report.adjusted {
                let (from, to) = (adjusted.from, adjusted.to);
                let message =
                    format!("oom_score_adj of {} (pid {}) from {from} to {to}", adjusted.name, adjusted.pid);
                self.node_event("ScoreAdjusted", message);
            }
            let problems: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
            self.placed = Some((Instant::now(), problems));
        }
        let Self { placed, problems, .. } = self;
        for problem in placed.iter().flat_map(|(_, problems)| problems) {
            if problems.is_news("processes") {
                warn!("{problem}");
            }
            problems.add("processes", problem.clone());
        }
    }
}
