//! Tests of the view of the engine's state.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::probes::engine::fixture::Scripted;
use crate::probes::rules;
use nodewarden_model::{Outcome, Verdict};

#[tokio::test(start_paused = true)]
async fn the_view_shows_what_each_probe_waits_for() {
    let script = Script::new(|_, spec, run| match spec.kind {
        STARTUP => (ms(30), Scripted::Success),
        READINESS if run == 2 => (ms(0), Scripted::Nothing),
        READINESS => (ms(20), Scripted::Warning),
        LIVENESS => (ms(7), Scripted::Error),
    });
    let probes = start(&script);
    let record = Record::saving(ms(50));
    let specs = [STARTUP, READINESS, LIVENESS].map(every_second);
    let _watched = watch(&probes, "id", &specs, &record);
    let waits = || probes.view().probes.iter().map(|probe| probe.waits_for).collect::<Vec<_>>();
    assert_eq!(waits(), ["", rules::STARTUP, rules::STARTUP]);
    pass(ms(10)).await;
    assert_eq!(waits(), ["an answer", rules::STARTUP, rules::STARTUP]);
    pass(ms(40)).await;
    assert_eq!(waits(), ["its result to be saved", rules::STARTUP, rules::STARTUP]);
    pass(ms(60)).await;
    assert_eq!(waits(), [rules::NEW_CONTAINER, "its result to be saved", ""]);
    pass(ms(10_000)).await;
    assert_eq!(waits(), [rules::NEW_CONTAINER, "an answer", ""]);

    let view = probes.view();
    let [startup, readiness, liveness] = &view.probes[..] else { panic!("{view:?}") };
    assert_eq!((&startup.namespace[..], &startup.pod[..], &startup.uid[..]), ("default", "pod-uid", "uid"));
    assert_eq!((&startup.container[..], &startup.container_id[..]), ("c", "id"));
    assert_eq!([startup, readiness, liveness].map(|probe| probe.spec.clone()), specs);
    assert_eq!(
        [startup, readiness, liveness].map(|p| p.result),
        [Some(Verdict::Success), Some(Verdict::Success), None]
    );
    assert_eq!([startup, readiness, liveness].map(|p| p.in_a_row), [1, 2, 0]);

    let last = readiness.last.as_ref().unwrap();
    assert_eq!((&last.outcome, &last.output[..], last.took), (&Ok(Outcome::Warning), "run 1", ms(20)));
    let last = liveness.last.as_ref().unwrap();
    assert_eq!(last.output, "");
    assert!(last.outcome.as_ref().unwrap_err().contains("the pod has no address"));
    assert!((Timestamp::now().duration_since(last.begun)).abs() < SignedDuration::from_secs(60));
    let next = liveness.next.unwrap().duration_since(Timestamp::now());
    assert!(next <= SignedDuration::from_secs(1) && next > SignedDuration::from_secs(-1), "{next}");
    assert!(readiness.next.is_none() && startup.next.is_none());

    assert_eq!(readiness.counts.successful, 2);
    assert!(liveness.counts.unknown >= 8);
    let observed =
        |of: &nodewarden_model::Buckets| of.counts.iter().map(|(_, count)| count).sum::<u64>() + of.above;
    assert_eq!(observed(&readiness.durations), 2);
    assert_eq!(readiness.durations.counts[2], (0.025, 2));
    assert_eq!(observed(&liveness.durations), 0, "as a kubelet, which observes successes");
    assert!((readiness.durations.sum - 0.04).abs() < 1e-6);
    let http = &view.delays.iter().find(|(name, _)| *name == "httpGet").unwrap().1;
    assert_eq!(observed(http), 3 + liveness.counts.unknown);
    // The run without an answer is long past its time-out.
    assert_eq!(view.running, [("exec", 0), ("httpGet", 0), ("tcpSocket", 0), ("grpc", 0)]);
    assert_eq!(view.waiting, [("exec", 0), ("httpGet", 0), ("tcpSocket", 0), ("grpc", 0)]);
}

#[tokio::test(start_paused = true)]
async fn by_pod_container_and_kind() {
    let script = Script::says(&[(READINESS, &[Scripted::Success]), (LIVENESS, &[Scripted::Success])]);
    let probes = start(&script);
    let mut watched = Vec::new();
    for (uid, container) in [("2", "a"), ("1", "b"), ("1", "a"), ("3", "c")] {
        let specs = vec![every_second(LIVENESS), every_second(READINESS)];
        let sink = Record::new();
        watched.push(probes.watch(target(uid, container, "id"), specs, ProbeMemory::default(), sink));
    }
    drop(watched.pop());
    let view = probes.view();
    let shown: Vec<_> = view.probes.iter().map(|p| (&p.uid[..], &p.container[..], p.spec.kind)).collect();
    let names = [("1", "a"), ("1", "b"), ("2", "a"), ("3", "c")];
    let wanted = names.iter().flat_map(|&(uid, c)| [(uid, c, READINESS), (uid, c, LIVENESS)]);
    assert_eq!(shown, wanted.collect::<Vec<_>>());
    assert!(view.probes.iter().filter(|probe| probe.uid == "3").all(|probe| probe.result.is_none()));
}
