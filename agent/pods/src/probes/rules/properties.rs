//! Random histories of a container's probes: in any order of runs, new containers, agent restarts and pod
//! termination, the rules agree with a model of the kubelet and keep their invariants.

use proptest::prelude::*;

use super::kubelet::Kubelet;
use super::{differs, failed, ready, started, take, waits};
use crate::probes::engine::fixture::spec;
use crate::probes::{ProbeMemory, ProbeState};
use nodewarden_manifest::{HandlerKind, ProbeKind, ProbeSpec};
use nodewarden_model::Verdict;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// This probe runs with this verdict, several times, so that thresholds are reached.
    Run(ProbeKind, Verdict, u32),
    NewContainer,
    AgentRestarts,
    PodEnds,
}

fn kind() -> impl Strategy<Value = ProbeKind> {
    prop::sample::select(ProbeKind::ALL.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    let verdict = prop::sample::select(vec![Verdict::Success, Verdict::Failure]);
    prop_oneof![
        16 => (kind(), verdict, 1u32..4).prop_map(|(kind, seen, times)| Step::Run(kind, seen, times)),
        2 => Just(Step::NewContainer),
        3 => Just(Step::AgentRestarts),
        1 => Just(Step::PodEnds),
    ]
}

fn specs() -> impl Strategy<Value = Vec<ProbeSpec>> {
    prop::collection::vec((any::<bool>(), 1u32..4, 1u32..4), 3).prop_map(|asked| {
        let pairs = ProbeKind::ALL.into_iter().zip(asked).filter(|(_, (there, ..))| *there);
        pairs
            .map(|(kind, (_, success, failure))| {
                let mut spec = spec(kind, HandlerKind::HttpGet);
                // As validation requires.
                spec.success_threshold = if kind == ProbeKind::Readiness { success } else { 1 };
                spec.failure_threshold = failure;
                spec
            })
            .collect()
    })
}

struct World {
    specs: Vec<ProbeSpec>,
    memory: ProbeMemory,
    /// The agent's state on disk.
    saved: String,
    /// All runs of this container, by kind.
    runs: [Vec<Verdict>; 3],
    containers: u32,
    ending: bool,
    kubelet: Kubelet,
}

impl World {
    fn new(specs: Vec<ProbeSpec>) -> Self {
        let kubelet = Kubelet::new(&specs);
        let memory = ProbeMemory::new("0");
        let saved = serde_json::to_string(&memory).unwrap();
        Self { specs, memory, saved, runs: [vec![], vec![], vec![]], containers: 0, ending: false, kubelet }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Run(kind, seen, times) => (0..times).for_each(|_| self.run(kind, seen)),
            Step::NewContainer => {
                self.containers += 1;
                self.memory = ProbeMemory::new(&self.containers.to_string());
                self.saved = serde_json::to_string(&self.memory).unwrap();
                self.runs = Default::default();
                self.kubelet.new_container();
            }
            Step::AgentRestarts => {
                let before = std::mem::take(&mut self.memory);
                self.memory = serde_json::from_str(&self.saved).unwrap();
                for kind in ProbeKind::ALL {
                    assert_eq!(self.memory.of(kind).result, before.of(kind).result);
                    assert_eq!(self.memory.of(kind).last, before.of(kind).last);
                }
            }
            Step::PodEnds => {
                self.ending = true;
                self.kubelet.stop_liveness_and_startup();
            }
        }
    }

    fn run(&mut self, kind: ProbeKind, seen: Verdict) {
        let Some(spec) = self.specs.iter().find(|spec| spec.kind == kind) else { return };
        let made = waits(kind, &self.specs, &self.memory, self.ending).is_none();
        assert_eq!(self.kubelet.tick(kind, seen), made, "{kind:?}");
        if !made {
            return;
        }
        let before = *self.memory.of(kind);
        let changed = take(spec, self.memory.of_mut(kind), seen);
        let after = self.memory.of(kind);
        let runs = &mut self.runs[kind as usize];
        runs.push(seen);
        let threshold = match seen {
            Verdict::Success => spec.success_threshold,
            Verdict::Failure => spec.failure_threshold,
        };
        let row = runs.iter().rev().take_while(|&&run| run == seen).count();
        // A result changes exactly with the run that reaches its threshold.
        assert_eq!(changed.is_some(), row >= threshold as usize && before.result != Some(seen));
        assert_eq!(after.result, if changed.is_some() { changed } else { before.result });
        if differs(&before, after) {
            self.saved = serde_json::to_string(&self.memory).unwrap();
        }
    }

    fn check(&self) {
        let (specs, memory) = (&self.specs, &self.memory);
        assert_eq!(started(specs, memory), self.kubelet.started());
        assert_eq!(ready(specs, memory), self.kubelet.ready());
        assert_eq!(failed(specs, memory), self.kubelet.restarts_for());
        if ready(specs, memory) {
            assert!(started(specs, memory));
            let has = |kind| specs.iter().any(|spec: &ProbeSpec| spec.kind == kind);
            let succeeded = |kind: ProbeKind| self.runs[kind as usize].contains(&Verdict::Success);
            assert!(!has(ProbeKind::Startup) || succeeded(ProbeKind::Startup));
            assert!(!has(ProbeKind::Readiness) || succeeded(ProbeKind::Readiness));
        }
        if let Some(kind) = failed(specs, memory) {
            assert!(waits(kind, specs, memory, self.ending).is_some(), "held until the new container");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn rules_agree_with_a_kubelet(specs in specs(), history in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(specs);
        for step in history {
            world.take(step);
            world.check();
        }
    }

    /// If the agent is killed before its last state was on disk, one more run is needed; otherwise none.
    #[test]
    fn a_restart_delays_a_threshold_by_one_run_at_most(
        success in 1u32..4, failure in 1u32..5, unsaved in any::<bool>(),
        before in prop::collection::vec(prop::sample::select(vec![Verdict::Success, Verdict::Failure]), 1..12),
        seen in prop::sample::select(vec![Verdict::Success, Verdict::Failure]),
    ) {
        let mut spec = spec(ProbeKind::Readiness, HandlerKind::HttpGet);
        (spec.success_threshold, spec.failure_threshold) = (success, failure);
        let (mut lived, mut saved, mut older) = (ProbeState::default(), ProbeState::default(), ProbeState::default());
        for &run in &before {
            let was = lived;
            take(&spec, &mut lived, run);
            older = saved;
            if differs(&was, &lived) {
                saved = lived;
            }
        }
        let mut restarted = if unsaved { older } else { saved };
        let runs_until = |probe_state: &mut ProbeState| (1..10).find(|_| {
            take(&spec, probe_state, seen);
            probe_state.result == Some(seen)
        }).unwrap();
        let (without, with) = (runs_until(&mut lived), runs_until(&mut restarted));
        prop_assert!(with <= without + u32::from(unsaved), "{with} runs instead of {without}");
    }
}
