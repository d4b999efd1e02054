//! Tests of the results of runs.

use tokio::time::Instant;

use super::*;
use crate::probes::engine::fixture::Scripted;
use crate::probes::{Change, ProbeState, rules};
use nodewarden_model::Verdict;

const S: Option<Verdict> = Some(Verdict::Success);
const F: Option<Verdict> = Some(Verdict::Failure);

#[tokio::test(start_paused = true)]
async fn results_follow_their_thresholds() {
    use Scripted::*;
    let says =
        &[Failure, Success, Success, Error, Failure, Panic, Failure, Failure, Warning, Failure, Success];
    let script = Script::says(&[(READINESS, says)]);
    let probes = start(&script);
    let mut spec = every_second(READINESS);
    (spec.success_threshold, spec.failure_threshold) = (2, 3);
    let record = Record::new();
    let _watched = watch(&probes, "id", &[spec], &record);
    pass(ms(15_000)).await;
    let change = |from, to: Option<Verdict>, run: u32| Change {
        kind: READINESS,
        from,
        to: to.unwrap(),
        output: format!("run {run}"),
    };
    assert_eq!(record.changes(), [change(None, S, 2), change(S, F, 7), change(F, S, 11)]);
    let steps: Vec<_> = record.kept.lock().iter().map(|(_, memory, _)| memory.readiness).collect();
    let probe_state = |(result, last, run)| ProbeState { result, last, run };
    let wanted = [
        (None, F, 1),
        (None, S, 1),
        (S, S, 2),
        (S, F, 1),
        (S, F, 2),
        (F, F, 3),
        (F, S, 1),
        (F, F, 1),
        (F, S, 1),
        (S, S, 2),
    ];
    assert_eq!(steps, wanted.map(probe_state), "kept whenever the next agent would go on otherwise");
    assert_eq!(
        record.run_result(),
        [
            "Unhealthy: Readiness probe failed (1 of 3): run 0",
            "Healthy: Readiness probe succeeded: run 2",
            &format!(
                "ProbeError: Readiness probe errored: {}",
                crate::probes::engine::fixture::prober_error()
            ),
            "Unhealthy: Readiness probe failed (1 of 3): run 4",
            "ProbeError: Readiness probe errored: the prober panicked: as scripted",
            "Unhealthy: Readiness probe failed 3 times: run 7",
            "ProbeWarning: Readiness probe warning: run 8",
            "Unhealthy: Readiness probe failed again: run 9",
            "Healthy: Readiness probe succeeded: run 11",
        ]
    );
    let counts = probes.view().probes[0].counts;
    assert_eq!((counts.failed, counts.unknown), (5, 2));
    assert_eq!(counts.successful as usize + 7, script.runs().len());
}

#[tokio::test(start_paused = true)]
async fn the_next_agent_continues_with_the_saved_state() {
    // Two of three failures, then a restarted agent with one more failure.
    let script = Script::says(&[(READINESS, &[Scripted::Failure])]);
    let mut spec = every_second(READINESS);
    spec.failure_threshold = 3;
    let record = Record::new();
    let first = start(&script);
    let mut memory = ProbeMemory::new("id");
    memory.readiness = ProbeState { result: S, last: S, run: 40 };
    let watched = first.watch(target("uid", "c", "id"), vec![spec.clone()], memory, record.clone());
    while script.runs().len() < 2 {
        pass(ms(10)).await;
    }
    pass(ms(10)).await;
    drop((watched, first));
    let saved = record.saved();
    assert_eq!(saved.readiness, ProbeState { result: S, last: F, run: 2 });
    assert!(rules::ready(std::slice::from_ref(&spec), &saved), "ready through the restart");

    let second = start(&script);
    let next = Record::new();
    let _watched = second.watch(target("uid", "c", "id"), vec![spec.clone()], saved, next.clone());
    pass(ms(1_500)).await;
    let changes = next.changes();
    assert_eq!((changes.len(), changes[0].from, Some(changes[0].to)), (1, S, F));
    assert_eq!(next.kept.lock()[0].1.readiness.run, 3);
}

#[tokio::test(start_paused = true)]
async fn memory_of_another_container_counts_for_nothing() {
    let script = Script::says(&[(READINESS, &[Scripted::Failure])]);
    let probes = start(&script);
    let mut memory = ProbeMemory::new("old");
    memory.readiness = ProbeState { result: S, last: F, run: 2 };
    let record = Record::new();
    let mut spec = every_second(READINESS);
    spec.failure_threshold = 3;
    let _watched = probes.watch(target("uid", "c", "new"), vec![spec], memory, record.clone());
    pass(ms(1)).await;
    let mut wanted = ProbeMemory::new("new");
    wanted.readiness = ProbeState { result: None, last: F, run: 1 };
    assert_eq!(record.saved(), wanted);
}

#[tokio::test(start_paused = true)]
async fn an_older_memory_of_the_same_container_counts_for_nothing() {
    let script = Script::says(&[(READINESS, &[Scripted::Success])]);
    let probes = start(&script);
    let record = Record::new();
    let first = watch(&probes, "id", &[every_second(READINESS)], &record);
    pass(ms(10)).await;
    assert_eq!(record.changes().len(), 1);
    drop(first);
    // The memory was read before the sink had the change.
    let _second = watch(&probes, "id", &[every_second(READINESS)], &record);
    assert_eq!(probes.view().probes[0].result, S);
    pass(ms(3_000)).await;
    assert_eq!(record.changes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_memory_is_never_older_than_the_one_before() {
    // Three probes of one container whose results keep changing and whose runs take different times.
    let script = Script::new(|_, spec, run| {
        let says = if (run / 2) % 2 == 0 { Scripted::Success } else { Scripted::Failure };
        let says = if spec.kind == LIVENESS { Scripted::Success } else { says };
        (ms(1 + spec.kind as u64 * 37), says)
    });
    let probes = start(&script);
    let record = Record::saving(ms(120));
    let mut startup = every_second(STARTUP);
    (startup.success_threshold, startup.failure_threshold) = (2, 9);
    let mut liveness = every_second(LIVENESS);
    liveness.success_threshold = 20;
    let _watched = watch(&probes, "id", &[startup, every_second(READINESS), liveness], &record);
    pass(ms(40_000)).await;
    let kept = record.kept.lock();
    assert!(kept.len() > 40, "{}", kept.len());
    for pair in kept.windows(2) {
        let ((_, before, _), (_, after, change)) = (&pair[0], &pair[1]);
        let moved = ProbeKind::ALL.into_iter().filter(|&kind| before.of(kind) != after.of(kind));
        // Runs of other probes that agree with their result are not saved separately.
        let run_result = moved.filter(|&kind| rules::differs(before.of(kind), after.of(kind))).count();
        assert_eq!(run_result, 1, "one step after another: {before:?}, {after:?}");
        if let Some(change) = change {
            assert_eq!(before.of(change.kind).result, change.from);
            assert_eq!(after.of(change.kind).result, Some(change.to));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_stops_nothing() {
    struct Broken;
    impl super::super::ProbeSink for Broken {
        fn keep(
            &self,
            _: &ProbeMemory,
            change: Option<&Change>,
        ) -> futures_util::future::BoxFuture<'static, ()> {
            assert!(change.is_none(), "keep, as scripted");
            Box::pin(async { panic!("the future, as scripted") })
        }
        fn record_event(&self, _: &'static str, _: String) {
            panic!("record_event, as scripted");
        }
    }
    let script = Script::says(&[(READINESS, &[Scripted::Failure])]);
    let (probes, start) = (start(&script), Instant::now());
    let mut spec = every_second(READINESS);
    spec.failure_threshold = 3;
    let sink = Arc::new(Broken);
    let _watched = probes.watch(target("uid", "c", "id"), vec![spec], ProbeMemory::default(), sink);
    pass(ms(10_000)).await;
    assert!(script.begun(start, READINESS).len() >= 10);
}
