//! Tests with threads and the real clock: watching, ending and dropping from several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::*;
use crate::probes::engine::fixture::Scripted;
use crate::probes::{Answer, Change, ProbeError, ProbeSink, Prober, Target};
use nodewarden_model::Outcome;

/// A sink that panics if it is called after the end.
#[derive(Default)]
struct Strict {
    gone: AtomicBool,
    calls: AtomicU64,
    late: AtomicU64,
}

impl Strict {
    fn called(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.late.fetch_add(u64::from(self.gone.load(Ordering::SeqCst)), Ordering::Relaxed);
    }
}

impl ProbeSink for Strict {
    fn keep(&self, memory: &ProbeMemory, _: Option<&Change>) -> BoxFuture<'static, ()> {
        assert!(memory.readiness.last.is_some());
        self.called();
        tokio::task::yield_now().boxed()
    }

    fn record_event(&self, _: &'static str, _: String) {
        self.called();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn dropped_from_other_threads_at_any_moment() {
    let script = Script::new(|_, _, run| {
        let says = [Scripted::Success, Scripted::Failure, Scripted::Warning, Scripted::Error][run % 4];
        (Duration::from_micros(200 * (run as u64 % 3)), says)
    });
    let probes = start(&script);
    let tasks = (0..8u64).map(|task| {
        let probes = probes.clone();
        tokio::spawn(async move {
            let (mut calls, mut late) = (0, 0);
            for round in 0..60u64 {
                let sink = Arc::new(Strict::default());
                let mut spec = every_second(READINESS);
                (spec.period, spec.success_threshold) = (ms(2), 1);
                let target = target(&format!("uid-{task}"), "c", &format!("{task}-{round}"));
                let watched = probes.watch(target, vec![spec], ProbeMemory::default(), sink.clone());
                tokio::time::sleep(Duration::from_micros(500 + (task * 60 + round) % 7 * 900)).await;
                if round % 5 == 0 {
                    watched.end();
                }
                drop(watched);
                // A call that was in progress has ended by then.
                tokio::time::sleep(ms(2)).await;
                sink.gone.store(true, Ordering::SeqCst);
                tokio::time::sleep(ms(2)).await;
                calls += sink.calls.load(Ordering::Relaxed);
                late += sink.late.load(Ordering::Relaxed);
            }
            probes.forget(&format!("uid-{task}"));
            (calls, late)
        })
    });
    let mut sums = (0, 0);
    for task in tasks.collect::<Vec<_>>() {
        let (calls, late) = task.await.unwrap();
        sums = (sums.0 + calls, sums.1 + late);
    }
    assert!(sums.0 > 480, "{} calls", sums.0);
    assert_eq!(sums.1, 0, "calls after the drop");
    let view = probes.view();
    assert!(view.probes.is_empty());
    // Every task has reported, so nothing is left in a lane.
    pass(ms(50)).await;
    assert!(probes.view().running.iter().chain(&view.waiting).all(|(_, count)| *count == 0));
}

/// A prober that answers at once.
struct Quick;

impl Prober for Quick {
    fn probe<'a>(&'a self, _: &'a Target, _: &'a ProbeSpec) -> BoxFuture<'a, Result<Answer, ProbeError>> {
        async { Ok(Answer { outcome: Outcome::Success, output: String::new() }) }.boxed()
    }
}

/// Measures the engine's own cost and its delays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn two_thousand_runs_a_second() {
    let probes = Probes::start_in_runtime(&ProbeSettings::default(), Arc::new(Quick));
    let watched: Vec<_> = (0..2_200)
        .map(|number| {
            let target = target(&format!("uid-{}", number / 50), &format!("c-{number}"), &number.to_string());
            probes.watch(target, vec![every_second(READINESS)], ProbeMemory::default(), Record::new())
        })
        .collect();
    pass(ms(5_000)).await;
    let cpu = || {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
        let of = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
        of(usage.user_time()) + of(usage.system_time())
    };
    let runs = || probes.view().probes.iter().map(|probe| probe.counts.successful).sum::<u64>();
    let (before, began) = (cpu(), runs());
    pass(ms(20_000)).await;
    println!("{} runs, {} µs of CPU", runs() - began, cpu() - before);
    println!("{:?}", probes.view().delays[1]);
    drop(watched);
}

/// Whether this process has a thread of the engine's name.
fn has_engine_thread() -> bool {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end while it is looked at.
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.trim_end() == "probes")
}

fn within_ten_seconds(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < ms(10_000), "{what}");
        std::thread::sleep(ms(5));
    }
}

#[test]
fn the_engine_has_a_thread_of_its_own_that_ends_with_it() {
    let probes = Probes::start(&ProbeSettings::default(), Arc::new(Quick)).unwrap();
    let watched = watch(&probes, "id", &[every_second(READINESS)], &Record::new());
    let successes = || probes.view().probes.iter().map(|probe| probe.counts.successful).sum::<u64>();
    within_ten_seconds("no probe ran", || successes() > 0);
    assert!(has_engine_thread());
    drop((watched, probes));
    within_ten_seconds("the thread is still there", || !has_engine_thread());
}
