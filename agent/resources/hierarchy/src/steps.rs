//! From what should be and what is to the order in which it is written.
//!
//! A parent is never below its children on the way: first, from the top down, what is missing is made and what grows
//! is written; then, from the bottom up, what shrinks. Where both trees hold that order, every state between them
//! does (cgroup v1 refuses a child's CPU quota above its parent's; memory.min and memory.low only protect as far as
//! the parent's does).

use std::collections::BTreeMap;

use super::entry::{Limit, Value, entries, only};
use nodewarden_machine::cgroup::control::Limits;

/// Limits by path. A parent's path is a prefix of its children's, so that it comes first.
pub type ByPath = BTreeMap<String, Limits>;

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make the cgroup and set all of it.
    Create { path: String, limits: Limits },
    /// Set only these.
    Set { path: String, limits: Limits, pass: Pass },
}

/// In which of the two passes a change belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    Grow,
    Shrink,
}

impl Step {
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. } | Self::Set { path, .. } => path,
        }
    }
}

/// A limit that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub limit: Limit,
    pub found: Value,
    pub wanted: Value,
}

/// What differs. What could not be read is not compared: its controller or file is missing here.
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

/// The writes that turn `found` into `wanted`. Cgroups in `found` alone are left alone.
pub fn steps(wanted: &ByPath, found: &ByPath) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut shrinking = Vec::new();
    for (path, limits) in wanted {
        let Some(there) = found.get(path) else {
            steps.push(Step::Create { path: path.clone(), limits: limits.clone() });
            continue;
        };
        let (mut grow, mut shrink): (Vec<_>, Vec<_>) =
            differences(limits, there).into_iter().partition(|d| d.wanted.at_least(&d.found));
        // A cgroup that is idle no more has the default weight (sched_group_set_idle), whatever it shows before.
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
                to.push(Step::Set { path: path.clone(), limits, pass });
            }
        }
    }
    steps.extend(shrinking.into_iter().rev());
    steps
}

#[cfg(test)]
#[path = "steps_tests.rs"]
mod tests;
