//! Tests of the limits on concurrent runs.

use tokio::time::Instant;

use super::*;
use crate::probes::engine::fixture::{Begun, Scripted};

fn settings() -> ProbeSettings {
    ProbeSettings { max_exec: 2, max_http_get: 3, max_tcp_socket: 1, max_grpc: 1 }
}

/// The maximum number of concurrent runs.
pub fn most(runs: &[Begun], which: impl Fn(&Begun) -> bool) -> usize {
    let mut steps = Vec::new();
    for run in runs.iter().filter(|run| which(run)) {
        steps.push((run.at, 1));
        steps.extend(run.ended.map(|(at, _)| (at, -1)));
    }
    // At equal times ends are ordered before starts.
    steps.sort();
    let mut now = 0;
    let counts = steps.into_iter().map(|(_, step)| {
        now += step;
        now
    });
    counts.max().unwrap_or(0).try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn slow_exec_probes_delay_no_others() {
    let script = Script::new(|_, spec, _| match spec.handler.kind() {
        HandlerKind::Exec => (ms(900), Scripted::Success),
        _ => (ms(1), Scripted::Success),
    });
    let probes = Probes::start_in_runtime(&settings(), script.clone());
    let begin = Instant::now();
    let kinds = HandlerKind::ALL;
    let watched: Vec<_> = (0..40)
        .map(|number| {
            let handler = kinds[number % 4];
            let mut spec = spec(READINESS, handler);
            spec.period = ms(1_000);
            let target = target("uid", &format!("c{number}"), &number.to_string());
            probes.watch(target, vec![spec], ProbeMemory::default(), Record::new())
        })
        .collect();
    pass(ms(30_000)).await;
    let view = probes.view();
    let runs = script.runs();
    for (handler, bound) in kinds.into_iter().zip([2, 3, 1, 1]) {
        assert_eq!(most(&runs, |run| run.handler == handler), bound, "{handler:?}");
        let delays = &view.delays.iter().find(|(name, _)| *name == handler.name()).unwrap().1;
        let late: u64 = delays.counts.iter().filter(|(bound, _)| *bound > 0.03).map(|(_, count)| count).sum();
        assert_eq!(late > 0, handler == HandlerKind::Exec, "{handler:?}: {delays:?}");
    }
    let counts = |which: HandlerKind| runs.iter().filter(|run| run.handler == which).count();
    assert!(counts(HandlerKind::HttpGet) >= 295 && counts(HandlerKind::Grpc) >= 295);
    let exec = counts(HandlerKind::Exec);
    assert!((60..=68).contains(&exec), "{exec}: two at a time, 0.9 s each");
    // The probe that was due first begins first, so none starves.
    for number in (0..40).step_by(4) {
        let of = runs.iter().filter(|run| run.id == number.to_string()).count();
        assert!(of.abs_diff(exec / 10) <= 1, "container {number}: {of} of {exec}");
    }
    assert_eq!(view.waiting.iter().map(|(name, _)| *name).collect::<Vec<_>>(), kinds.map(HandlerKind::name));
    assert!(view.waiting[0].1 >= 7 && view.running[0].1 == 2, "{:?} {:?}", view.waiting, view.running);
    assert!(runs.iter().all(|run| run.at >= begin));
    drop(watched);
}

#[tokio::test(start_paused = true)]
async fn a_run_without_an_answer_delays_no_other() {
    let script = Script::new(|target, _, _| match target.container_id.as_str() {
        "0" | "1" => (ms(100_000), Scripted::Success),
        _ => (ms(1), Scripted::Success),
    });
    let probes = Probes::start_in_runtime(&settings(), script.clone());
    let watch = |number: usize| {
        let spec = spec(READINESS, HandlerKind::Exec);
        let target = target("uid", &format!("c{number}"), &number.to_string());
        probes.watch(target, vec![spec], ProbeMemory::default(), Record::new())
    };
    let watched: Vec<_> = (0..4).map(watch).collect();
    pass(ms(1_900)).await;
    assert_eq!(script.runs().len(), 2);
    // One second after their time-out of one second.
    pass(ms(60_000)).await;
    let runs = script.runs();
    let of = |id: &str| runs.iter().filter(|run| run.id == id).count();
    assert_eq!((of("0"), of("1")), (1, 1), "none of them overlaps itself");
    assert!(of("2") >= 5 && of("3") >= 5, "{} and {}", of("2"), of("3"));
    assert_eq!(probes.view().running[0], ("exec", 0));
    // When they have finally ended, the limit is the same as before.
    pass(ms(60_000)).await;
    assert!(most(&script.runs(), |run| run.id == "2" || run.id == "3") <= 2);
    drop(watched);
}

#[tokio::test(start_paused = true)]
async fn the_first_due_begins_first() {
    let script = Script::new(|_, _, _| (ms(400), Scripted::Success));
    let probes = Probes::start_in_runtime(&settings(), script.clone());
    // They are due in the reverse order of watching.
    let watched: Vec<_> = (0..6u64)
        .map(|number| {
            let mut spec = spec(READINESS, HandlerKind::Grpc);
            spec.initial_delay = ms(60 - number * 10);
            probes.watch(
                target("uid", &number.to_string(), &number.to_string()),
                vec![spec],
                ProbeMemory::default(),
                Record::new(),
            )
        })
        .collect();
    pass(ms(3_000)).await;
    let order: Vec<_> = script.runs().into_iter().map(|run| run.id).collect();
    assert_eq!(order, ["5", "4", "3", "2", "1", "0"]);
    drop(watched);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_frees_its_place() {
    let script = Script::new(|target, _, _| {
        (Duration::ZERO, if target.container_id == "hangs" { Scripted::Nothing } else { Scripted::Success })
    });
    let probes = Probes::start_in_runtime(&settings(), script.clone());
    let specs = vec![spec(READINESS, HandlerKind::TcpSocket)];
    let of = |id: &str| target("uid", id, id);
    let hangs = probes.watch(of("hangs"), specs.clone(), ProbeMemory::default(), Record::new());
    let _waits = probes.watch(of("waits"), specs.clone(), ProbeMemory::default(), Record::new());
    pass(ms(100)).await;
    assert_eq!(script.runs().len(), 1);
    let waiting = || probes.view().probes.iter().find(|probe| probe.container == "waits").unwrap().waits_for;
    assert_eq!(waiting(), "its turn");
    drop(hangs);
    pass(ms(1)).await;
    assert_eq!(script.runs().len(), 2);
    assert_eq!(waiting(), "");
    let view = probes.view();
    let gone = view.probes.iter().find(|probe| probe.container == "hangs").unwrap();
    assert_eq!((gone.counts, gone.last.as_ref()), (Default::default(), None), "not counted");
    // A queued probe whose container is no longer watched does not run.
    let hangs = probes.watch(of("hangs"), specs.clone(), ProbeMemory::default(), Record::new());
    pass(ms(10)).await;
    let later = probes.watch(of("later"), specs, ProbeMemory::default(), Record::new());
    pass(ms(10)).await;
    drop((later, hangs));
    pass(ms(10)).await;
    assert_eq!(script.runs().iter().filter(|run| run.id == "later").count(), 0);
    assert!(probes.view().running.iter().chain(&probes.view().waiting).all(|(_, count)| *count == 0));
}
