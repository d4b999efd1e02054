//! Carries out one step, and records limits that were changed from outside.

use std::sync::Arc;

use jiff::Timestamp;
use tracing::{debug, info, warn};

use super::report::pod_ref;
use super::{Reconciler, Wanted};
use crate::entry::{Limit, entries, only};
use crate::shared::{ByPath, shared};
use crate::steps::{Difference, Step, differences};
use crate::timed::{Operation, timed};
use nodewarden_machine::cgroup::CgroupError;
use nodewarden_machine::cgroup::control::{Bound, Limits};
use nodewarden_model::{Correction, Detail, PodRef};

impl Reconciler {
    pub(super) fn carry_out(&mut self, step: &Step, found: &ByPath, wanted: &Wanted) {
        let path = step.path();
        let manager = self.setup.manager.clone();
        // Limits read back are rounded; systemd's properties keep the exact value.
        let exact = |limits: &Arc<Limits>| {
            let those = entries(limits);
            let exact = wanted.exact.get(path).map(|t| only(t, |l| those.iter().any(|(own, _)| *own == l)));
            exact.unwrap_or_else(|| Limits::clone(limits))
        };
        let found = found.get(path);
        let memory = found.and_then(|found| found.memory_max);
        let result = match step {
            Step::Create { limits, .. } => {
                debug!(path = &**path, "making a cgroup");
                // A partly created cgroup may have processes.
                let limits = self.without_deadly_limits(path, limits, memory, wanted);
                timed(Operation::Create, || manager.create(path, &exact(&limits))).map(|()| limits)
            }
            Step::Set { limits, .. } => {
                let limits = self.without_deadly_limits(path, limits, memory, wanted);
                timed(Operation::Update, || manager.set(path, &exact(&limits))).map(|()| limits)
            }
        };
        match result {
            Ok(limits) => {
                if let (Step::Set { .. }, Some(found)) = (step, found) {
                    self.record_corrections(path, &limits, found, wanted);
                }
                if matches!(step, Step::Create { .. }) {
                    self.existing.insert(path.clone());
                    self.created.insert(path.clone());
                }
                let likely = wanted.limits.get(path).unwrap_or(&limits);
                let written = match self.written.get(path) {
                    Some(before) => shared(merged(before, &limits), likely),
                    None => limits,
                };
                self.written.insert(path.clone(), written);
            }
            Err(error) => {
                warn!(path = &**path, "cannot set limits: {error}");
                self.problems.add(path, error.to_string());
                self.failed.insert(path.clone(), error.to_string());
            }
        }
    }

    /// Removes a memory limit that is below current use: it would kill at once on v2 and is refused on v1. So
    /// it does if the current use cannot be read. It is tried again by every full reconcile until enough is
    /// free. `found` is the present memory limit.
    pub(super) fn without_deadly_limits(
        &mut self,
        path: &str,
        limits: &Arc<Limits>,
        found: Option<Bound>,
        wanted: &Wanted,
    ) -> Arc<Limits> {
        let Some(Bound::At(new)) = limits.memory_max else { return limits.clone() };
        let shrinks = found.is_none_or(|f| f > Bound::At(new));
        let why = shrinks.then(|| why_not(new, self.setup.manager.memory_in_use(path))).flatten();
        let Some(message) = why else { return limits.clone() };
        if self.problems.is_news(path) {
            self.event(path, wanted, "LimitDeferred", message.clone());
        }
        self.problems.add(path, message);
        self.deferred.insert(path.into());
        Arc::new(Limits { memory_max: None, memsw_max: None, ..Limits::clone(limits) })
    }

    /// Records each limit that was neither what this agent wrote nor what an earlier agent should have
    /// written.
    fn record_corrections(&mut self, path: &str, set: &Limits, found: &Limits, wanted: &Wanted) {
        // A limit that already had its wanted value in the previous reconcile was not written, and not
        // changed either.
        let earlier = self.earlier.as_ref().and_then(|earlier| earlier.limits.get(path));
        let before = [self.written.get(path), earlier].map(|limits| limits.cloned());
        for difference in differences(set, found) {
            let ours = before.iter().flatten().any(|b| {
                let is_set = entries(b).iter().any(|(limit, _)| *limit == difference.limit);
                is_set && !differences(b, found).iter().any(|d| d.limit == difference.limit)
            });
            // The kernel shows this weight for an idle cgroup.
            let idle = difference.limit == Limit::Cpu && found.cpu_idle == Some(true);
            if ours || idle {
                continue;
            }
            self.record_correction(path, pod_ref(wanted, path), &difference);
        }
    }

    pub(super) fn record_correction(&mut self, path: &str, pod: Option<PodRef>, difference: &Difference) {
        self.corrections += 1;
        let limit = difference.limit.file_in(self.setup.manager.layout());
        let (found, written) = (difference.found.to_string(), difference.wanted.to_string());
        info!(path, limit, found, written, "limit put right");
        let detail = Detail::LimitCorrected(Correction { limit, found, written });
        self.setup.journal.append(Timestamp::now(), path, pod, detail);
    }
}

/// Why a smaller memory limit is not written now, by what is in use; `None` if it is.
fn why_not(new: u64, used: Result<Option<u64>, CgroupError>) -> Option<String> {
    match used {
        Ok(Some(used)) if used > new => {
            Some(format!("a memory limit of {new} bytes waits: {used} are in use"))
        }
        Ok(_) => None,
        Err(error) => {
            Some(format!("a memory limit of {new} bytes waits: what is in use is not known: {error}"))
        }
    }
}

/// The limits of `over` where set, else those of `under`.
fn merged(under: &Limits, over: &Limits) -> Limits {
    Limits {
        cpu: over.cpu.or(under.cpu),
        cpu_quota: over.cpu_quota.or(under.cpu_quota),
        cpu_idle: over.cpu_idle.or(under.cpu_idle),
        cpuset_cpus: over.cpuset_cpus.clone().or_else(|| under.cpuset_cpus.clone()),
        memory_max: over.memory_max.or(under.memory_max),
        memory_min: over.memory_min.or(under.memory_min),
        memory_low: over.memory_low.or(under.memory_low),
        memory_high: over.memory_high.or(under.memory_high),
        swap_max: over.swap_max.or(under.swap_max),
        memsw_max: over.memsw_max.or(under.memsw_max),
        oom_group: over.oom_group.or(under.oom_group),
        pids_max: over.pids_max.or(under.pids_max),
        hugetlb: under.hugetlb.iter().chain(over.hugetlb.iter()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_smaller_memory_limit_waits_while_more_is_in_use_or_that_is_not_known() {
        let path = "/c/memory.current".into();
        let unreadable = CgroupError::File { call: "read", path, source: io::Error::other("a fault") };
        for (used, expected) in [
            (Ok(Some(9)), None),
            (Ok(Some(10)), None),
            (Ok(Some(11)), Some("11 are in use")),
            (Ok(None), None),
            (Err(unreadable), Some("/c/memory.current")),
        ] {
            let why = why_not(10, used);
            assert_eq!(why.is_some(), expected.is_some(), "{why:?}");
            assert!(why.unwrap_or_default().contains(expected.unwrap_or_default()));
        }
    }
}
