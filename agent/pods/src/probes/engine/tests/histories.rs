//! Random histories: probers that return any answer after any time, containers and agents that restart, pods
//! that terminate. In every order, the calls to sinks must follow from the answers of the prober.

use proptest::prelude::*;
use tokio::time::Instant;

use super::bounds::most;
use super::*;
use crate::probes::engine::fixture::{Begun, Scripted};
use crate::probes::rules;
use nodewarden_model::Verdict;

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    /// A pod's container is replaced by a new one.
    NewContainer(usize),
    AgentRestarts,
    /// The agent loses and finds a container.
    Again(usize),
    PodEnds(usize),
    PodGone(usize),
}

const PODS: usize = 4;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1u64..4_000).prop_map(Step::Pass),
        2 => (0..PODS).prop_map(Step::NewContainer),
        1 => Just(Step::AgentRestarts),
        1 => (0..PODS).prop_map(Step::Again),
        1 => (0..PODS).prop_map(Step::PodEnds),
        1 => (0..PODS).prop_map(Step::PodGone),
    ]
}

/// The probes of a pod's container, with small thresholds and mixed handlers.
fn specs() -> impl Strategy<Value = Vec<ProbeSpec>> {
    let one = (any::<bool>(), 0usize..4, 1u32..4, 1u32..4, 0u64..3, 1u64..4);
    prop::collection::vec(one, 3).prop_map(|asked| {
        let asked = ProbeKind::ALL.into_iter().zip(asked).filter(|(_, asked)| asked.0);
        asked
            .map(|(kind, (_, handler, success, failure, delay, period))| {
                let mut spec = spec(kind, HandlerKind::ALL[handler]);
                spec.success_threshold = if kind == READINESS { success } else { 1 };
                spec.failure_threshold = failure;
                (spec.initial_delay, spec.period) = (ms(delay * 700), ms(period * 500));
                spec
            })
            .collect()
    })
}

/// One pod: its successive containers, each with its record.
struct Pod {
    specs: Vec<ProbeSpec>,
    containers: Vec<Arc<Record>>,
    watched: Option<Watched>,
    ended: Option<Instant>,
    gone: bool,
}

struct World {
    script: Arc<Script>,
    probes: Probes,
    saving: Duration,
    pods: Vec<Pod>,
    /// For containers that are no longer watched: their id, the sink's record, and the numbers of calls and
    /// runs until then.
    dropped: Vec<(String, Arc<Record>, usize, usize)>,
}

const BOUNDS: [usize; 4] = [1, 2, 1, 1];

fn settings() -> ProbeSettings {
    let [max_exec, max_http_get, max_tcp_socket, max_grpc] = BOUNDS;
    ProbeSettings { max_exec, max_http_get, max_tcp_socket, max_grpc }
}

impl World {
    fn new(pods: Vec<Vec<ProbeSpec>>, luck: Vec<u8>, saving: Duration) -> Self {
        let script = Script::new(move |target, spec, run| {
            let seed = target.container_id.bytes().map(usize::from).sum::<usize>() * 31;
            let luck = luck[(seed + run * 7 + spec.kind as usize * 13) % luck.len()];
            let after = ms([0, 1, 90, 1_700][usize::from(luck >> 6)]);
            let says = match luck % 16 {
                0..=6 => Scripted::Success,
                7 => Scripted::Warning,
                8..=12 => Scripted::Failure,
                13 | 14 => Scripted::Error,
                _ => Scripted::Nothing,
            };
            // Handlers limit every run.
            if says == Scripted::Nothing { (ms(1_000), Scripted::Failure) } else { (after, says) }
        });
        let probes = Probes::start_in_runtime(&settings(), script.clone());
        let pod = |specs| Pod { specs, containers: Vec::new(), watched: None, ended: None, gone: false };
        let pods = pods.into_iter().map(pod).collect();
        let mut world = Self { script, probes, saving, pods, dropped: Vec::new() };
        (0..world.pods.len()).for_each(|number| world.new_container(number));
        world
    }

    fn id(&self, number: usize) -> String {
        format!("{number}/{}", self.pods[number].containers.len() - 1)
    }

    fn let_go(&mut self, number: usize) {
        if self.pods[number].watched.take().is_some() {
            let id = self.id(number);
            let record = self.pods[number].containers.last().unwrap().clone();
            let runs = self.script.runs().iter().filter(|run| run.id == id).count();
            let calls = record.kept.lock().len() + record.run_result().len();
            self.dropped.push((id, record, calls, runs));
        }
    }

    fn new_container(&mut self, number: usize) {
        if self.pods[number].gone {
            return;
        }
        self.let_go(number);
        self.pods[number].containers.push(Record::saving(self.saving));
        self.watch(number);
    }

    fn watch(&mut self, number: usize) {
        let id = self.id(number);
        self.dropped.retain(|(dropped, ..)| *dropped != id);
        let pod = &mut self.pods[number];
        let record = pod.containers.last().unwrap();
        let target = target(&format!("uid-{number}"), "c", &id);
        let watched = self.probes.watch(target, pod.specs.clone(), record.saved(), record.clone());
        if pod.ended.is_some() {
            watched.end();
        }
        pod.watched = Some(watched);
    }

    async fn take(&mut self, step: &Step) {
        match *step {
            Step::Pass(time) => pass(ms(time)).await,
            Step::NewContainer(number) => self.new_container(number),
            Step::Again(number) if !self.pods[number].gone => {
                self.let_go(number);
                self.watch(number);
            }
            Step::AgentRestarts => {
                (0..self.pods.len()).for_each(|number| self.let_go(number));
                self.probes = Probes::start_in_runtime(&settings(), self.script.clone());
                // The previous one has ended.
                pass(ms(1)).await;
                let there: Vec<_> = (0..self.pods.len()).filter(|&n| !self.pods[n].gone).collect();
                there.into_iter().for_each(|number| self.watch(number));
            }
            Step::PodEnds(number) => {
                let pod = &mut self.pods[number];
                pod.ended.get_or_insert(Instant::now());
                pod.watched.iter().for_each(Watched::end);
            }
            Step::PodGone(number) => {
                self.let_go(number);
                self.pods[number].gone = true;
                self.probes.forget(&format!("uid-{number}"));
            }
            Step::Again(_) => {}
        }
    }

    fn check(&self) {
        let runs = self.script.runs();
        for (handler, bound) in HandlerKind::ALL.into_iter().zip(BOUNDS) {
            // Runs cancelled by a dead agent do not count for the next agent.
            assert!(most(&runs, |run| run.handler == handler) <= bound, "{handler:?}");
        }
        for (number, pod) in self.pods.iter().enumerate() {
            for (container, record) in pod.containers.iter().enumerate() {
                self.check_container(&runs, &format!("{number}/{container}"), pod, record);
            }
        }
        for (id, record, calls, begun) in &self.dropped {
            let now = record.kept.lock().len() + record.run_result().len();
            assert_eq!(now, *calls, "{id}: the sink was called after the end");
            assert_eq!(
                runs.iter().filter(|run| run.id == *id).count(),
                *begun,
                "{id} was probed after the end"
            );
        }
    }

    fn check_container(&self, runs: &[Begun], id: &str, pod: &Pod, record: &Record) {
        let of = |kind| runs.iter().filter(move |run| run.id == id && run.kind == kind);
        let answered = |run: &&Begun| run.ended.is_some_and(|(_, answered)| answered);
        for spec in &pod.specs {
            let all: Vec<_> = of(spec.kind).collect();
            for pair in all.windows(2) {
                let (ended, _) = pair[0].ended.expect("a probe overlaps itself");
                assert!(pair[1].at >= ended && pair[1].at > pair[0].at, "{id} {:?}", spec.kind);
            }
            if spec.kind != READINESS {
                assert!(
                    all.iter().all(|run| pod.ended.is_none_or(|end| run.at <= end)),
                    "after the pod's end"
                );
            }
            // The expected results, counted again from the answers.
            let said: Vec<_> =
                all.iter().copied().filter(answered).filter_map(|run| run.says.verdict()).collect();
            let mut result = None;
            let mut wanted = Vec::new();
            for (index, &verdict) in said.iter().enumerate() {
                let row = said[..=index].iter().rev().take_while(|&&other| other == verdict).count();
                let threshold = match verdict {
                    Verdict::Success => spec.success_threshold,
                    Verdict::Failure => spec.failure_threshold,
                };
                if row >= threshold as usize && result != Some(verdict) {
                    wanted.push((result, verdict));
                    result = Some(verdict);
                }
            }
            let changes = record.changes();
            let changes = changes.iter().filter(|change| change.kind == spec.kind);
            let changes: Vec<_> = changes.map(|change| (change.from, change.to)).collect();
            assert_eq!(changes, wanted, "{id} {:?}: {said:?}", spec.kind);
            if spec.kind != READINESS && result == Some(Verdict::Failure) {
                assert_eq!(said.last(), Some(&Verdict::Failure), "held since");
            }
        }
        let kept = record.kept.lock();
        for (at, memory, change) in kept.iter() {
            assert_eq!(memory.container, id);
            let started = rules::started(&pod.specs, memory);
            assert!(started || memory.readiness.last.is_none() && memory.liveness.last.is_none());
            if change.as_ref().is_some_and(|change| change.kind == STARTUP && change.to == Verdict::Success) {
                let others = of(READINESS).chain(of(LIVENESS));
                assert_eq!(
                    others.filter(|run| run.at < *at).count(),
                    0,
                    "{id}: probed before it had started"
                );
            }
        }
    }
}

type History = (Vec<Vec<ProbeSpec>>, Vec<u8>, u64, Vec<Step>);

fn history() -> impl Strategy<Value = History> {
    (
        prop::collection::vec(specs(), PODS),
        prop::collection::vec(any::<u8>(), 64),
        prop::sample::select(vec![0u64, 0, 40, 900]),
        prop::collection::vec(step(), 1..40),
    )
}

fn live((pods, luck, saving, steps): History) -> World {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(pods, luck, ms(saving));
        for step in &steps {
            world.take(step).await;
        }
        world.check();
        world
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]
    #[test]
    fn sinks_are_given_what_follows_from_answers(history in history()) {
        live(history);
    }
}

/// The generated histories contain the situations to be tested.
#[test]
fn histories_contain_the_situations_to_be_tested() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut met = std::collections::BTreeMap::new();
    let mut meet = |what: String, times: usize| *met.entry(what).or_insert(0) += times;
    for _ in 0..100 {
        let world = live(history().new_tree(&mut runner).unwrap().current());
        let runs = world.script.runs();
        meet("thrown away".to_owned(), runs.iter().filter(|run| run.ended.is_some_and(|end| !end.1)).count());
        for pod in &world.pods {
            for change in pod.containers.iter().flat_map(|record| record.changes()) {
                meet(format!("{:?} from {:?} to {:?}", change.kind, change.from, change.to), 1);
            }
            let without = pod.containers.iter().flat_map(|record| record.kept.lock().clone());
            meet("kept for a row".to_owned(), without.filter(|(.., change)| change.is_none()).count());
        }
    }
    let results =
        [(None, Verdict::Success), (None, Verdict::Failure), (Some(Verdict::Success), Verdict::Failure)];
    for (from, to) in results {
        for kind in [READINESS, LIVENESS] {
            meet(format!("{kind:?} from {from:?} to {to:?}"), 0);
        }
    }
    println!("{met:#?}");
    assert!(met.len() >= 10 && met.values().all(|&times| times >= 10), "{met:#?}");
}
