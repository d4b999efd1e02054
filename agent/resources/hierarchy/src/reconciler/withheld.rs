//! Limits of levels that are not lowered because pods are there that the agent does not count.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::warn;

use super::{Reconciler, Wanted};
use crate::decide::Verdict;
use crate::withhold::{Level, Lowering, lowering};
use nodewarden_machine::cgroup::control::Limits;
use nodewarden_manifest::QosClass;

/// Pods that a message names at most.
const NAMED: usize = 3;

impl Reconciler {
    /// Existing pod cgroups whose pods the wanted limits were computed without.
    pub(super) fn uncounted(&self, verdict: &Verdict) -> BTreeSet<Arc<str>> {
        let unread = verdict.withheld.iter().filter(|path| self.existing.contains(*path));
        verdict.foreign.iter().chain(unread).cloned().collect()
    }

    /// Of the limits that are to be lowered those that are lowered now. The others are reported: in the
    /// status, in the journal when they are new, and as `nodewarden_hierarchy_withheld_limits`.
    pub(super) fn withhold(
        &mut self,
        path: &Arc<str>,
        limits: &Limits,
        uncounted: &BTreeSet<Arc<str>>,
        wanted: &Wanted,
    ) -> Limits {
        let Lowering { now, waiting, pods } = lowering(path, self.level_at(path), limits, uncounted);
        if waiting.is_empty() {
            return now;
        }
        let layout = self.setup.manager.layout();
        let files: Vec<String> = waiting.iter().map(|limit| limit.file_in(layout)).collect();
        let mut named = pods.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if pods.len() > NAMED {
            named.push_str(&format!(" and {} more", pods.len() - NAMED));
        }
        let message = format!(
            "{} not lowered as long as there are pods that are not counted (another agent's, or of a manifest \
             that cannot be read): {named}",
            files.join(", ")
        );
        if self.problems.is_news(path) {
            warn!(path = &**path, "{message}");
            self.event(path, wanted, "LimitWithheld", message.clone());
        }
        self.problems.add(path, message);
        self.withheld.insert(path.clone(), waiting.len());
        now
    }

    fn level_at(&self, path: &str) -> Option<Level> {
        let is = |name| self.setup.manager.path(name) == path;
        let levels = &self.setup.levels;
        [
            (&levels.kubepods, Level::Kubepods),
            (&levels.burstable, Level::Class(QosClass::Burstable)),
            (&levels.best_effort, Level::Class(QosClass::BestEffort)),
        ]
        .into_iter()
        .find_map(|(name, level)| is(name).then_some(level))
    }
}
