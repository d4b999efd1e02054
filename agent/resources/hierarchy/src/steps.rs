//! Computes the writes that lead from the found to the wanted limits, in order.
//!
//! At no point is a parent's limit below its children's: first, from the top down, missing cgroups are
//! created and growing limits written; then, from the bottom up, shrinking limits. If both trees satisfy
//! that, every state between them does (cgroup v1 refuses a child's CPU quota above its parent's; memory.min
//! and memory.low only protect as far as the parent's).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::entry::{Limit, Value, entries, only};
use super::shared::ByPath;
use nodewarden_machine::cgroup::control::Limits;

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Create the cgroup and set all limits.
    Create { path: Arc<str>, limits: Arc<Limits> },
    /// Set only these limits.
    Set { path: Arc<str>, limits: Arc<Limits>, pass: Pass },
}

/// The pass to which a change belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Grow,
    Shrink,
}

impl Step {
    pub fn path(&self) -> &Arc<str> {
        match self {
            Self::Create { path, .. } | Self::Set { path, .. } => path,
        }
    }
}

/// A limit that differs from the wanted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub limit: Limit,
    pub found: Value,
    pub wanted: Value,
}

/// The limits that differ. One that was not read is not compared: its controller or file is missing on this
/// machine.
pub fn differences(wanted: &Limits, found: &Limits) -> Vec<Difference> {
    let found: BTreeMap<Limit, Value> = entries(found).into_iter().collect();
    entries(wanted)
        .into_iter()
        .filter_map(|(limit, wanted)| {
            let found = found.get(&limit)?.clone();
            (found != wanted).then_some(Difference { limit, found, wanted })
        })
        .collect()
}

/// The writes that turn `found` into `wanted`. Cgroups that are only in `found` are left alone.
pub fn steps(wanted: &ByPath, found: &ByPath) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut shrinking = Vec::new();
    for (path, limits) in wanted {
        let Some(there) = found.get(path) else {
            steps.push(Step::Create { path: path.clone(), limits: limits.clone() });
            continue;
        };
        if Arc::ptr_eq(limits, there) {
            continue;
        }
        let (mut grow, mut shrink): (Vec<_>, Vec<_>) =
            differences(limits, there).into_iter().partition(|d| d.wanted.at_least(&d.found));
        // A cgroup that stops being idle gets the default weight (sched_group_set_idle), whatever it showed
        // before.
        let wakes = |d: &Difference| d.limit == Limit::CpuIdle && d.wanted == Value::Flag(false);
        if let Some((_, weight)) = entries(limits).into_iter().find(|(limit, _)| *limit == Limit::Cpu)
            && grow.iter().any(wakes)
        {
            let own = |d: &Difference| d.limit == Limit::Cpu;
            grow.retain(|d| !own(d));
            shrink.retain(|d| !own(d));
            grow.push(Difference { limit: Limit::Cpu, found: weight.clone(), wanted: weight });
        }
        for (changes, pass, to) in [(grow, Pass::Grow, &mut steps), (shrink, Pass::Shrink, &mut shrinking)] {
            if !changes.is_empty() {
                let limits = only(limits, |l| changes.iter().any(|d| d.limit == l));
                to.push(Step::Set { path: path.clone(), limits: Arc::new(limits), pass });
            }
        }
    }
    steps.extend(shrinking.into_iter().rev());
    steps
}

#[cfg(test)]
mod tests;
