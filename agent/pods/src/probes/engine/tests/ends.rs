//! Tests of the end of probing: of a container, of a pod, of the agent.

use parking_lot::Mutex;

use futures_util::future::BoxFuture;

use super::*;
use crate::probes::engine::fixture::Scripted;
use crate::probes::{Change, ProbeSink, rules};

#[tokio::test(start_paused = true)]
async fn after_a_drop_no_call_begins() {
    let script = Script::new(|_, _, run| (ms(if run == 0 { 0 } else { 400 }), Scripted::Failure));
    let probes = start(&script);
    let record = Record::new();
    let mut spec = every_second(LIVENESS);
    spec.failure_threshold = 2;
    let watched = watch(&probes, "id", &[spec], &record);
    while script.runs().len() < 2 {
        pass(ms(1)).await;
    }
    // The second run, which would be the second failure, is running.
    drop(watched);
    let (kept, run_result) = (record.kept.lock().len(), record.run_result().len());
    assert_eq!((kept, run_result), (1, 1));
    pass(ms(60_000)).await;
    assert_eq!((record.kept.lock().len(), record.run_result().len()), (kept, run_result));
    let runs = script.runs();
    assert_eq!(runs.len(), 2);
    assert!(!runs[1].ended.unwrap().1, "thrown away");
    let view = &probes.view().probes[0];
    assert_eq!((view.counts.failed, view.waits_for, view.next), (1, "the container to run", None));
    assert_eq!(Arc::strong_count(&record), 1, "the sink is let go");
}

#[tokio::test(start_paused = true)]
async fn while_a_pod_terminates_only_readiness_probes_run() {
    let script =
        Script::new(|_, spec, _| (ms(if spec.kind == LIVENESS { 700 } else { 0 }), Scripted::Failure));
    let probes = start(&script);
    let record = Record::new();
    let watched = watch(&probes, "id", &[every_second(READINESS), every_second(LIVENESS)], &record);
    pass(ms(300)).await;
    watched.end();
    pass(ms(10_000)).await;
    let runs = script.runs();
    let liveness: Vec<_> = runs.iter().filter(|run| run.kind == LIVENESS).collect();
    assert_eq!(liveness.len(), 1);
    assert!(!liveness[0].ended.unwrap().1, "what was under way is thrown away");
    assert!(runs.len() >= 10, "readiness probes continue");
    assert!(record.changes().iter().all(|change| change.kind == READINESS));
    let view = probes.view();
    assert_eq!(view.probes.iter().map(|probe| probe.waits_for).collect::<Vec<_>>(), ["", rules::END]);
}

#[tokio::test(start_paused = true)]
async fn while_a_pod_terminates_that_has_not_started_no_probe_runs() {
    let script = Script::says(&[(STARTUP, &[Scripted::Error]), (READINESS, &[Scripted::Success])]);
    let probes = start(&script);
    let watched = watch(&probes, "id", &[every_second(STARTUP), every_second(READINESS)], &Record::new());
    pass(ms(5_000)).await;
    watched.end();
    let before = script.runs().len();
    pass(ms(10_000)).await;
    assert_eq!(script.runs().len(), before);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_a_success_of_startup_that_is_being_saved_still_counts() {
    let script = Script::says(&[
        (STARTUP, &[Scripted::Success]),
        (READINESS, &[Scripted::Success]),
        (LIVENESS, &[Scripted::Success]),
    ]);
    let probes = start(&script);
    let record = Record::saving(ms(500));
    let specs = [STARTUP, READINESS, LIVENESS].map(every_second);
    let watched = watch(&probes, "id", &specs, &record);
    pass(ms(100)).await;
    watched.end();
    pass(ms(5_000)).await;
    let kinds: Vec<_> = record.changes().iter().map(|change| change.kind).collect();
    assert_eq!(kinds, [STARTUP, READINESS]);
}

#[tokio::test(start_paused = true)]
async fn a_new_watch_takes_over_from_the_one_before() {
    let script = Script::new(|_, _, _| (ms(100), Scripted::Success));
    let probes = start(&script);
    let first = watch(&probes, "first", &[every_second(READINESS)], &Record::new());
    pass(ms(50)).await;
    let second = watch(&probes, "second", &[every_second(READINESS)], &Record::new());
    // As in a map, the old value is dropped after the new one was inserted.
    drop(first);
    pass(ms(5_000)).await;
    let runs = script.runs();
    assert_eq!(runs.iter().filter(|run| run.id == "first").count(), 1);
    assert!(!runs[0].ended.unwrap().1);
    let view = probes.view();
    assert_eq!(view.probes.len(), 1);
    assert_eq!(view.probes[0].container_id, "second");
    assert_eq!((second.container_id(), second.address()), ("second", None));
}

#[tokio::test(start_paused = true)]
async fn counts_continue_over_restarts_of_the_container_until_the_pod_is_forgotten() {
    let script = Script::says(&[(READINESS, &[Scripted::Success])]);
    let probes = start(&script);
    let successful = || probes.view().probes.iter().map(|probe| probe.counts.successful).sum::<u64>();
    let mut watched = None;
    for (number, id) in ["first", "second", "third"].into_iter().enumerate() {
        drop(watched.replace(watch(&probes, id, &[every_second(READINESS)], &Record::new())));
        pass(ms(5)).await;
        assert_eq!(successful(), number as u64 + 1);
    }
    drop(watched.take());
    assert_eq!(successful(), 3);
    let last = watch(&probes, "fourth", &[every_second(READINESS)], &Record::new());
    probes.forget("another");
    assert_eq!(probes.view().probes.len(), 1);
    probes.forget("uid");
    assert!(probes.view().probes.is_empty());
    let before = script.runs().len();
    pass(ms(5_000)).await;
    assert_eq!(script.runs().len(), before, "what is forgotten is not probed");
    last.end();
    drop(last);
}

/// The state of a pod, which holds its watched containers and handles results under its own lock.
#[derive(Default)]
struct Pod {
    watched: Mutex<Option<Watched>>,
    probes: Mutex<Option<Probes>>,
    calls: Mutex<u32>,
}

impl ProbeSink for Pod {
    fn keep(&self, _: &ProbeMemory, _: Option<&Change>) -> BoxFuture<'static, ()> {
        *self.calls.lock() += 1;
        let mut watched = self.watched.lock();
        if let Some(watched) = &*watched {
            watched.end();
        }
        if let Some(probes) = &*self.probes.lock() {
            assert_eq!(probes.view().probes.len(), 1);
        }
        drop(watched.take());
        Box::pin(async {})
    }

    fn record_event(&self, _: &'static str, _: String) {}
}

#[tokio::test(start_paused = true)]
async fn a_sink_may_call_the_engine_and_drop_its_watch() {
    let script = Script::says(&[(READINESS, &[Scripted::Success])]);
    let probes = start(&script);
    let pod = Arc::new(Pod::default());
    *pod.probes.lock() = Some(probes.clone());
    let specs = vec![every_second(READINESS)];
    *pod.watched.lock() =
        Some(probes.watch(target("uid", "c", "id"), specs, ProbeMemory::default(), pod.clone()));
    pass(ms(5_000)).await;
    assert_eq!(*pod.calls.lock(), 1);
    assert_eq!(script.runs().len(), 1);
}

#[test]
fn the_engine_ends_with_its_runtime() {
    let script = Script::says(&[(READINESS, &[Scripted::Nothing])]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let record = Record::new();
    let (probes, watched) = runtime.block_on(async {
        let probes = start(&script);
        let watched = watch(&probes, "id", &[every_second(READINESS)], &record);
        while script.runs().is_empty() {
            pass(ms(1)).await;
        }
        (probes, watched)
    });
    drop(runtime);
    assert!(!script.runs()[0].ended.unwrap().1, "thrown away");
    // None of this needs the runtime.
    let late = watch(&probes, "late", &[every_second(READINESS)], &record);
    watched.end();
    drop((watched, late));
    probes.forget("uid");
    assert!(probes.view().probes.is_empty());
    drop(probes);
    assert_eq!((Arc::strong_count(&record), Arc::strong_count(&script)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_engine_ends_with_its_last_handle() {
    let script = Script::says(&[(READINESS, &[Scripted::Success])]);
    let probes = start(&script);
    let watched = watch(&probes, "id", &[every_second(READINESS)], &Record::new());
    drop(probes);
    pass(ms(3_000)).await;
    assert!(script.runs().len() >= 3, "as long as anything is watched");
    drop(watched);
    pass(ms(1)).await;
    assert_eq!(Arc::strong_count(&script), 1);
}
