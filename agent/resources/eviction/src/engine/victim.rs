//! The pods that may be evicted for memory or processes, what they use, and which of them is first.

use std::collections::BTreeMap;

use super::shared::Shared;
use crate::gather::{self, GroupMemory, Subject};
use crate::rank::{self, First, Ranking};
use crate::{Candidate, DiskLayout, NodeCondition};
use nodewarden_config::Signal;
use nodewarden_model::CandidateSeen;

/// The pods of the node, read for one decision.
pub struct Candidates<'a> {
    shared: &'a Shared,
    signal: Signal,
    hard: bool,
    memory: &'a mut [Option<GroupMemory>],
    all: Vec<Candidate>,
    /// Of which pods memory is still usage, with inactive file pages.
    with_files: Vec<bool>,
    /// Why pods are spared, as it was when the pod was chosen.
    spared: BTreeMap<usize, Option<&'static str>>,
}

impl<'a> Candidates<'a> {
    /// Reads what orders all pods for a signal: of memory usage alone, from the files `memory` of each pod.
    pub fn read(
        shared: &'a Shared,
        signal: Signal,
        hard: bool,
        subjects: &'a [Subject],
        memory: &'a mut [Option<GroupMemory>],
    ) -> Self {
        let (layout, needs) = (&shared.deps.layout, rank::required_stats(signal));
        let (all, with_files) = match needs.memory {
            true => (gather::pods_with_usage(subjects, memory), true),
            false => (gather::pods(layout, subjects, needs), false),
        };
        let with_files = vec![with_files; all.len()];
        Self { shared, signal, hard, memory, all, with_files, spared: BTreeMap::new() }
    }

    /// The pod to evict: the one that [`Self::table`] lists first, unless another that leaves already uses
    /// the resource. `leaves` returns, of a pod that was evicted and has not ended, for which condition.
    pub fn choose(&mut self, leaves: impl Fn(&str) -> Option<NodeCondition>) -> Option<usize> {
        let condition = NodeCondition::of(self.signal);
        let of_same = |candidate: &Candidate| leaves(&candidate.pod.uid) == Some(condition);
        if rank::required_stats(self.signal).memory && !self.all.iter().any(of_same) {
            return self.first_by_memory();
        }
        self.read_rest();
        let ranking = self.ranking();
        select_victim(self.signal, &ranking, &self.all, leaves)
    }

    /// One of them.
    pub fn get(&self, at: usize) -> Option<&Candidate> {
        self.all.get(at)
    }

    /// What was read, for people.
    pub fn readings(&self) -> String {
        let exact = self.with_files.iter().filter(|with_files| !**with_files).count();
        match exact == self.all.len() {
            true => format!("{exact} pods"),
            false => format!("{} pods, inactive file pages of {exact}", self.all.len()),
        }
    }

    /// All in the order of eviction. Reads what was not needed to find the first.
    pub fn table(&mut self, chosen: Option<usize>) -> Vec<CandidateSeen> {
        self.read_rest();
        let ranking = self.ranking();
        rank::ranking_table(self.signal, DiskLayout::One, &ranking, &self.all, chosen)
    }

    fn first_by_memory(&mut self) -> Option<usize> {
        let Self { shared, hard, memory, all, spared, .. } = self;
        let spares = |at: usize| {
            let reason = all.get(at).and_then(|candidate| shared.spares(&candidate.pod.uid, *hard));
            spared.insert(at, reason);
            reason.is_some()
        };
        let exact = |at: usize| working_set(memory.get_mut(at), all.get(at)).unwrap_or(0);
        let First { at, exact } = rank::first_by_memory(&shared.deps.settings, all, spares, exact);
        for (at, bytes) in exact.into_iter().enumerate() {
            if bytes.is_some() {
                self.set_exact(at, bytes);
            }
        }
        at
    }

    fn read_rest(&mut self) {
        for at in 0..self.all.len() {
            if self.with_files.get(at) == Some(&true) {
                let bytes = working_set(self.memory.get_mut(at), self.all.get(at));
                self.set_exact(at, bytes);
                // There may be a thousand.
                if let Some(memory) = self.memory.get_mut(at).and_then(Option::as_mut) {
                    memory.close_stat();
                }
            }
        }
    }

    fn set_exact(&mut self, at: usize, bytes: Option<u64>) {
        if let Some((candidate, with_files)) = self.all.get_mut(at).zip(self.with_files.get_mut(at)) {
            candidate.memory = bytes;
            *with_files = false;
        }
    }

    fn ranking(&self) -> Ranking {
        let ranking = rank::rank(self.signal, DiskLayout::One, &self.shared.deps.settings, &self.all);
        ranking.without(|at| match self.spared.get(&at) {
            Some(known) => *known,
            None => self.shared.spares(&self.all.get(at)?.pod.uid, self.hard),
        })
    }
}

/// The working set of a pod whose usage is known, in bytes; `None` if the pod is gone.
fn working_set(memory: Option<&mut Option<GroupMemory>>, usage: Option<&Candidate>) -> Option<u64> {
    gather::subtract_inactive_file(memory?.as_mut()?, usage?.memory?)
}

/// The pod to evict. One that uses nothing is not chosen, since evicting it frees nothing. `leaves` returns
/// for which condition the pod of a uid is leaving.
fn select_victim(
    signal: Signal,
    ranking: &Ranking,
    candidates: &[Candidate],
    leaves: impl Fn(&str) -> Option<NodeCondition>,
) -> Option<usize> {
    let uses =
        |at: &usize| candidates.get(*at).is_some_and(|one| rank::figures(signal, DiskLayout::One, one).0 > 0);
    let order: Vec<usize> = ranking.order.iter().copied().filter(uses).collect();
    victim(&order, NodeCondition::of(signal), |at| leaves(&candidates.get(at)?.pod.uid))
}

/// The first of `order` that is already leaving because of the same condition: it was chosen for what it uses
/// of this resource, and cutting its grace period short may be enough. Otherwise the first. `leaves` returns
/// for which condition a pod is leaving: one that leaves for another reason need not use much of this
/// resource, and keeps its grace period unless it is the first anyway.
fn victim(
    order: &[usize],
    condition: NodeCondition,
    leaves: impl Fn(usize) -> Option<NodeCondition>,
) -> Option<usize> {
    let same = order.iter().find(|at| leaves(**at) == Some(condition));
    same.or(order.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use serde_json::json;

    use super::NodeCondition::{MemoryPressure, PidPressure};
    use super::*;
    use nodewarden_manifest::Pod;

    /// Pods `a`, `b` and `c`, which use so much memory and have so many processes.
    fn candidates(uses: [u64; 3]) -> Vec<Candidate> {
        let candidate = |(uid, uses): (&str, u64)| {
            let manifest = json!({"metadata": {"name": uid, "uid": uid},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            Candidate {
                pod: Arc::new(Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap()),
                cgroup: String::new(),
                started: Timestamp::UNIX_EPOCH,
                memory: Some(uses),
                disk: None,
                processes: Some(uses),
                containers: BTreeMap::new(),
                memory_request: None,
            }
        };
        ["a", "b", "c"].into_iter().zip(uses).map(candidate).collect()
    }

    #[test]
    fn what_a_pod_leaves_for_is_looked_up_by_its_uid() {
        let ranking = Ranking { order: vec![0, 1, 2], exempt: Vec::new() };
        let select = |signal, uses, pods: &[(&str, NodeCondition)]| {
            let leaves =
                |uid: &str| pods.iter().find(|(own, _)| *own == uid).map(|(_, condition)| *condition);
            select_victim(signal, &ranking, &candidates(uses), leaves)
        };
        let (memory, pids) = (Signal::MemoryAvailable, Signal::PidAvailable);
        assert_eq!(select(memory, [1, 1, 1], &[("c", PidPressure)]), Some(0));
        assert_eq!(select(pids, [1, 1, 1], &[("c", PidPressure)]), Some(2));
        assert_eq!(select(pids, [1, 1, 1], &[("c", MemoryPressure)]), Some(0));
        assert_eq!(select(memory, [1, 1, 1], &[("b", PidPressure), ("c", MemoryPressure)]), Some(2));
        assert_eq!(select(memory, [0, 1, 0], &[("c", MemoryPressure)]), Some(1), "c uses nothing");
        assert_eq!(select(memory, [0, 0, 0], &[]), None);
    }

    #[test]
    fn a_leaving_pod_is_killed_first_only_if_it_leaves_for_the_same_resource() {
        for (what, leaving, expected) in [
            ("no pod leaves", [None, None, None], Some(0)),
            ("the last leaves for memory", [None, None, Some(MemoryPressure)], Some(2)),
            ("the first of two for memory", [None, Some(MemoryPressure), Some(MemoryPressure)], Some(1)),
            ("the last leaves for processes", [None, None, Some(PidPressure)], Some(0)),
            ("the first leaves for processes", [Some(PidPressure), None, None], Some(0)),
            ("one for each", [Some(PidPressure), None, Some(MemoryPressure)], Some(2)),
        ] {
            assert_eq!(victim(&[0, 1, 2], MemoryPressure, |at| leaving[at]), expected, "{what}");
        }
        assert_eq!(victim(&[], MemoryPressure, |_| Some(MemoryPressure)), None);
        // Those that use nothing are not in the order.
        assert_eq!(victim(&[0], MemoryPressure, |at| (at == 2).then_some(MemoryPressure)), Some(0));
    }
}
