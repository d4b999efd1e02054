//! Which lowered limits of a level wait because the level has pods that the agent does not count. Pure.
//!
//! A pod is not counted when another agent made its cgroup, or when its manifest cannot be read now. What a
//! level gets for its pods together is too small for such a pod, so it is not lowered while one is below that
//! level. Everything else is lowered: limits that do not depend on the pods, and those of levels and other
//! cgroups that are not above such a pod.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::entry::{Limit, entries, only};
use nodewarden_machine::cgroup::control::Limits;
use nodewarden_manifest::QosClass;

/// A cgroup above pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The one above all pods.
    Kubepods,
    /// The one above the pods of a class.
    Class(QosClass),
}

/// What becomes of the limits that are to be lowered at one path.
#[derive(Debug, Default, PartialEq)]
pub struct Lowering {
    /// Written now.
    pub now: Limits,
    /// Not written as long as these pods are there.
    pub waiting: Vec<Limit>,
    /// The cgroups of the pods that those wait for.
    pub pods: Vec<Arc<str>>,
}

/// Splits the limits that are to be lowered at `path`, which is `level` if it is one. `uncounted` are the
/// cgroups of pods that are there and are not among those that the limits were computed from.
pub fn lowering(
    path: &str,
    level: Option<Level>,
    limits: &Limits,
    uncounted: &BTreeSet<Arc<str>>,
) -> Lowering {
    let pods: Vec<Arc<str>> = uncounted.iter().filter(|pod| is_below(pod, path)).cloned().collect();
    let waits = |limit: Limit| !pods.is_empty() && level.is_some_and(|level| is_sum_of_pods(level, limit));
    let waiting: Vec<Limit> =
        entries(limits).into_iter().map(|(limit, _)| limit).filter(|limit| waits(*limit)).collect();
    let now = only(limits, |limit| !waits(limit));
    let pods = if waiting.is_empty() { Vec::new() } else { pods };
    Lowering { now, waiting, pods }
}

/// Whether a limit of a level adds up what its pods request ([`nodewarden_qos::tree`]). `memory.max` of a
/// class is what others leave: it is too large, not too small, when a pod is not counted.
fn is_sum_of_pods(level: Level, limit: Limit) -> bool {
    match limit {
        Limit::MemoryMin | Limit::MemoryLow => level != Level::Class(QosClass::BestEffort),
        Limit::Cpu => level == Level::Class(QosClass::Burstable),
        _ => false,
    }
}

fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_machine::cgroup::control::{Bound, CpuShare};

    const KUBEPODS: &str = "/r/kubepods";
    const BURSTABLE: &str = "/r/kubepods/burstable";
    const BEST_EFFORT: &str = "/r/kubepods/besteffort";

    fn lowered() -> Limits {
        Limits {
            cpu: Some(CpuShare::Shares(2)),
            memory_max: Some(Bound::At(1 << 30)),
            memory_min: Some(0),
            pids_max: Some(Bound::At(100)),
            ..Limits::default()
        }
    }

    /// What waits at each level, in order: kubepods, burstable, besteffort, a reserved cgroup.
    fn waiting(uncounted: &[&str]) -> [Vec<Limit>; 4] {
        let uncounted = uncounted.iter().map(|pod| Arc::from(*pod)).collect();
        [
            (KUBEPODS, Some(Level::Kubepods)),
            (BURSTABLE, Some(Level::Class(QosClass::Burstable))),
            (BEST_EFFORT, Some(Level::Class(QosClass::BestEffort))),
            ("/system.slice", None),
        ]
        .map(|(path, level)| {
            let found = lowering(path, level, &lowered(), &uncounted);
            let written = entries(&found.now).len();
            assert_eq!(written + found.waiting.len(), entries(&lowered()).len(), "{path}");
            assert_eq!(found.waiting.is_empty(), found.pods.is_empty(), "{path}");
            found.waiting
        })
    }

    #[test]
    fn only_what_is_computed_from_the_pods_of_a_level_waits() {
        use Limit::{Cpu, MemoryMin};
        for (uncounted, expected) in [
            (&[][..], [vec![], vec![], vec![], vec![]]),
            // A Burstable pod: its class and kubepods.
            (&["/r/kubepods/burstable/podx"], [vec![MemoryMin], vec![Cpu, MemoryMin], vec![], vec![]]),
            // A BestEffort pod requests nothing: only kubepods may protect it.
            (&["/r/kubepods/besteffort/podx"], [vec![MemoryMin], vec![], vec![], vec![]]),
            // A Guaranteed pod is below no class.
            (&["/r/kubepods/podx"], [vec![MemoryMin], vec![], vec![], vec![]]),
            // Elsewhere, and with a name that begins as a level's.
            (&["/other/kubepods/podx", "/r/kubepods2/podx"], [vec![], vec![], vec![], vec![]]),
        ] {
            assert_eq!(waiting(uncounted), expected, "{uncounted:?}");
        }
    }

    #[test]
    fn the_pods_that_are_waited_for_are_named() {
        let uncounted = ["/r/kubepods/burstable/poda", "/r/kubepods/podb"].map(Arc::from).into();
        let found = lowering(BURSTABLE, Some(Level::Class(QosClass::Burstable)), &lowered(), &uncounted);
        assert_eq!(found.pods, [Arc::from("/r/kubepods/burstable/poda")]);
    }
}
