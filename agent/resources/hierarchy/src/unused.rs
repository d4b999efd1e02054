//! Pod cgroups of others that are not used any more: which ones may be removed. Pure.
//!
//! An agent that lost its state, or a kubelet that is gone, leaves cgroups without processes behind. One is
//! removed when several full reconciles in a row found no process in it or below it, over a time in which a
//! program that makes pods would have started one. Whether the runtime has anything of its pod is asked after
//! that ([`Sweeper`](super::sweeper::Sweeper)).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Full reconciles in a row that must have found it empty.
const ROUNDS: u32 = 2;

/// The foreign pod cgroups that were empty at the last full reconcile.
#[derive(Debug, Default)]
pub struct EmptyForeign(BTreeMap<Arc<str>, Empty>);

#[derive(Debug, Clone, Copy)]
struct Empty {
    since: Instant,
    rounds: u32,
}

impl EmptyForeign {
    /// Takes over which foreign cgroups are empty now, as seen by a full reconcile. Returns those that may be
    /// removed: empty in [`ROUNDS`] rounds in a row, and for at least `least`.
    pub fn observe(&mut self, empty: &BTreeSet<Arc<str>>, now: Instant, least: Duration) -> Vec<Arc<str>> {
        self.0.retain(|path, _| empty.contains(path));
        for path in empty {
            self.0.entry(path.clone()).or_insert(Empty { since: now, rounds: 0 }).rounds += 1;
        }
        let ripe = |one: &Empty| one.rounds >= ROUNDS && now.saturating_duration_since(one.since) >= least;
        self.0.iter().filter(|(_, one)| ripe(one)).map(|(path, _)| path.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_is_unused_after_two_rounds_and_the_least_time() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let set = |paths: &[&str]| paths.iter().map(|path| Arc::from(*path)).collect::<BTreeSet<_>>();
        let mut seen = EmptyForeign::default();
        let mut round = |paths: &[&str], at: u32| {
            let ripe = seen.observe(&set(paths), start + at * second, 10 * second);
            ripe.iter().map(|path| path.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(round(&["/a"], 0), [""; 0], "once");
        assert_eq!(round(&["/a", "/b"], 1), [""; 0], "twice, but not for long");
        assert_eq!(round(&["/a", "/b"], 10), ["/a"]);
        // A process was in it at one round: counted from the start again.
        assert_eq!(round(&["/b"], 11), ["/b"]);
        assert_eq!(round(&["/a", "/b"], 60), ["/b"]);
        assert_eq!(round(&["/a"], 69), [""; 0]);
        assert_eq!(round(&["/a"], 70), ["/a"]);
    }

    #[test]
    fn one_round_is_not_enough_however_long_ago() {
        let mut seen = EmptyForeign::default();
        let empty = BTreeSet::from([Arc::from("/a")]);
        assert_eq!(seen.observe(&empty, Instant::now(), Duration::ZERO), []);
        assert_eq!(seen.observe(&empty, Instant::now(), Duration::ZERO), [Arc::from("/a")]);
    }
}
