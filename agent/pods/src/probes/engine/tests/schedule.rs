//! Tests of the times at which probes run.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::*;
use crate::probes::ProbeState;
use crate::probes::engine::fixture::Scripted;
use crate::probes::grid::Grid;
use nodewarden_model::Verdict;

/// The points of the grid of container `c` of pod `uid`, in milliseconds, up to a time.
fn points(spec: &ProbeSpec, until: u64) -> Vec<u128> {
    let grid = Grid::of(&target("uid", "c", "id"), spec);
    let mut due = grid.next(Duration::ZERO);
    let mut points = Vec::new();
    while due <= ms(until) {
        // Rounded like tokio's timer.
        let begun = if points.is_empty() { due } else { grid.together(due) };
        points.push(begun.as_nanos().div_ceil(1_000_000));
        due = grid.after(due, due);
    }
    points
}

#[tokio::test(start_paused = true)]
async fn after_the_initial_delay_every_period() {
    let script = Script::says(&[(READINESS, &[Scripted::Success])]);
    let (probes, start) = (start(&script), Instant::now());
    let mut spec = every_second(READINESS);
    spec.initial_delay = ms(5_000);
    let watched = watch(&probes, "id", &[spec.clone()], &Record::new());
    pass(ms(4_999)).await;
    assert_eq!(script.runs().len(), 0);
    pass(ms(15_001)).await;
    assert_eq!(script.begun(start, READINESS), points(&spec, 20_000));
    assert_eq!(script.begun(start, READINESS)[0], 5_000);
    drop(watched);
}

#[tokio::test(start_paused = true)]
async fn without_a_delay_at_once() {
    let script = Script::says(&[(LIVENESS, &[Scripted::Success])]);
    let (probes, start) = (start(&script), Instant::now());
    let _watched = watch(&probes, "id", &[every_second(LIVENESS)], &Record::new());
    pass(ms(1)).await;
    assert_eq!(script.begun(start, LIVENESS), [0]);
}

#[tokio::test(start_paused = true)]
async fn startup_holds_the_others_until_its_success_is_published() {
    let says = &[Scripted::Failure, Scripted::Failure, Scripted::Success];
    let script =
        Script::says(&[(STARTUP, says), (READINESS, &[Scripted::Success]), (LIVENESS, &[Scripted::Success])]);
    let (probes, start) = (start(&script), Instant::now());
    let mut startup = every_second(STARTUP);
    startup.failure_threshold = 9;
    let mut slow = every_second(READINESS);
    slow.period = ms(10_000);
    let mut liveness = slow.clone();
    liveness.kind = LIVENESS;
    let specs = [startup.clone(), slow, liveness.clone()];
    let record = Record::saving(ms(300));
    let _watched = watch(&probes, "id", &specs, &record);
    pass(ms(40_000)).await;

    let third = points(&startup, 10_000)[2];
    assert_eq!(script.begun(start, STARTUP), points(&startup, 10_000)[..3], "none after its success");
    let readiness = script.begun(start, READINESS);
    assert!((third + 300..=third + 301).contains(&readiness[0]), "{readiness:?} after {third}");
    assert!(readiness[1] >= readiness[0] + 5_000, "a run between points of the grid leaves half a period");
    let own: Vec<_> = points(&liveness, 40_000).into_iter().filter(|&point| point >= third + 300).collect();
    let begun = script.begun(start, LIVENESS);
    assert_eq!(begun[1..], own[1..], "by its own schedule");
    assert!((begun[0]..=begun[0] + 10).contains(&own[0]), "{begun:?}: the first at its point, {own:?}");
}

#[tokio::test(start_paused = true)]
async fn a_success_of_startup_does_not_shorten_the_initial_delay() {
    let script = Script::says(&[(STARTUP, &[Scripted::Success]), (READINESS, &[Scripted::Success])]);
    let (probes, start) = (start(&script), Instant::now());
    let mut readiness = every_second(READINESS);
    readiness.initial_delay = ms(7_000);
    let _watched = watch(&probes, "id", &[every_second(STARTUP), readiness], &Record::new());
    pass(ms(7_400)).await;
    assert_eq!(script.begun(start, READINESS), [7_000]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_startup_or_liveness_holds_until_the_new_container() {
    for (kind, says) in [(STARTUP, Scripted::Failure), (LIVENESS, Scripted::Failure)] {
        let script = Script::new(move |_, spec, _| {
            (Duration::ZERO, if spec.kind == kind { says } else { Scripted::Success })
        });
        let probes = start(&script);
        let specs = [every_second(kind), every_second(READINESS)];
        let record = Record::new();
        let first = watch(&probes, "first", &specs, &record);
        pass(ms(5_000)).await;
        let of = |id: &str, kind| script.runs().iter().filter(|r| r.id == id && r.kind == kind).count();
        assert_eq!(of("first", kind), 1);
        assert_eq!(of("first", READINESS) > 0, kind == LIVENESS, "readiness continues with liveness");
        drop(first);
        let _second = watch(&probes, "second", &specs, &record);
        pass(ms(500)).await;
        assert_eq!(of("second", kind), 1, "{kind:?} again");
    }
}

fn adopted(seconds: i64) -> crate::probes::Target {
    let mut target = target("uid", "c", "id");
    target.started = Timestamp::now() - SignedDuration::from_secs(seconds);
    target
}

#[tokio::test(start_paused = true)]
async fn an_adopted_container_is_probed_at_its_next_point() {
    let script = Script::says(&[(READINESS, &[Scripted::Success])]);
    let (probes, start) = (start(&script), Instant::now());
    let mut spec = spec(READINESS, HandlerKind::TcpSocket);
    spec.initial_delay = ms(20_000);
    let mut memory = ProbeMemory::new("id");
    let s = Some(Verdict::Success);
    memory.readiness = ProbeState { result: s, last: s, run: 7 };
    let _watched = probes.watch(adopted(3_600), vec![spec.clone()], memory, Record::new());
    pass(ms(10_010)).await;
    let wanted = points(&spec, 3_620_000).into_iter().find(|&point| point >= 3_600_000).unwrap() - 3_600_000;
    let begun = script.begun(start, READINESS);
    // The wall clock advances while the test runs.
    assert!(begun[0].abs_diff(wanted) < 100, "{begun:?}, not {wanted}");
}

#[tokio::test(start_paused = true)]
async fn an_old_container_that_was_never_probed_is_probed_at_once() {
    let script = Script::says(&[(READINESS, &[Scripted::Success])]);
    let (probes, start) = (start(&script), Instant::now());
    let mut spec = spec(READINESS, HandlerKind::TcpSocket);
    spec.initial_delay = ms(20_000);
    // The memory belongs to another container.
    let mut memory = ProbeMemory::new("other");
    memory.readiness.last = Some(Verdict::Success);
    let _watched = probes.watch(adopted(86_400 * 400), vec![spec], memory, Record::new());
    pass(ms(2)).await;
    assert!(script.begun(start, READINESS)[0] <= 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_longer_than_the_period_skips_points() {
    let script = Script::new(|_, _, _| (ms(2_300), Scripted::Success));
    let (probes, start) = (start(&script), Instant::now());
    let mut spec = every_second(LIVENESS);
    spec.timeout = ms(5_000);
    let _watched = watch(&probes, "id", &[spec.clone()], &Record::new());
    pass(ms(30_000)).await;
    let begun = script.begun(start, LIVENESS);
    let points = points(&spec, 31_000);
    assert!(begun.iter().all(|at| points.contains(at)), "{begun:?} are no points of the grid");
    for pair in begun.windows(2) {
        let next = points.iter().find(|&&point| point >= pair[0] + 2_300).unwrap();
        assert_eq!(pair[1], *next, "at the first point after the one before has ended");
    }
    assert_eq!(begun.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_result_being_saved_delays_the_next_run_of_its_probe_only() {
    let script = Script::says(&[(READINESS, &[Scripted::Success]), (LIVENESS, &[Scripted::Success])]);
    let (probes, start) = (start(&script), Instant::now());
    let record = Record::saving(ms(5_000));
    let mut liveness = every_second(LIVENESS);
    liveness.success_threshold = 100;
    let _watched = watch(&probes, "id", &[every_second(READINESS), liveness.clone()], &record);
    pass(ms(9_000)).await;
    assert_eq!(script.begun(start, LIVENESS), points(&liveness, 9_000));
    let begun = script.begun(start, READINESS);
    let published = (record.published.lock()[0] - start).as_millis();
    assert_eq!(begun[0], 0);
    assert!(begun[1] >= published && begun[1] < published + 1_001, "{begun:?}, published at {published}");
}

#[tokio::test(start_paused = true)]
async fn three_thousand_at_once() {
    let script = Script::new(|_, _, _| (ms(3), Scripted::Success));
    let (probes, start) = (start(&script), Instant::now());
    let watched: Vec<_> = (0..3_000)
        .map(|number| {
            let target = target(&format!("uid-{}", number / 50), &format!("c-{number}"), &number.to_string());
            let spec = every_second(READINESS);
            probes.watch(target, vec![spec], ProbeMemory::default(), Record::new())
        })
        .collect();
    pass(ms(10_000)).await;
    let runs = script.runs();
    // The first run, then on average ten less half a period.
    assert!((31_000..=32_000).contains(&runs.len()), "{}", runs.len());
    let first = runs.iter().filter(|run| run.at - start < ms(499)).count();
    assert_eq!(first, 3_000, "all begin at once, 512 under way at a time");
    // From the second run on they are spread: no interval of 50 ms has more than twice the average.
    let mut slots = vec![0; 100];
    for run in runs.iter().filter(|run| run.at - start >= ms(5_000)) {
        slots[((run.at - start - ms(5_000)).as_millis() / 50).min(99) as usize] += 1;
    }
    assert!(slots.iter().all(|&count| count <= 300), "{slots:?}");
    drop(watched);
}
