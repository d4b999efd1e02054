//! Tests of the first poll of a run, which the engine's task does itself.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::{self, yield_now};

use super::*;
use crate::probes::{Answer, ProbeError, Prober, Target};
use nodewarden_model::Outcome;

fn success() -> Result<Answer, ProbeError> {
    Ok(Answer { outcome: Outcome::Success, output: String::new() })
}

/// Records the tasks in which runs begin and end; runs of other containers than `quick` wait.
#[derive(Default)]
struct Tasks(Mutex<Vec<(task::Id, task::Id)>>);

impl Prober for Tasks {
    fn probe<'a>(
        &'a self,
        target: &'a Target,
        _: &'a ProbeSpec,
    ) -> BoxFuture<'a, Result<Answer, ProbeError>> {
        async {
            let begun = task::id();
            if target.container_id != "quick" {
                yield_now().await;
            }
            self.0.lock().push((begun, task::id()));
            success()
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_gets_a_task_when_it_waits() {
    for (id, waits) in [("quick", false), ("slow", true)] {
        let tasks = Arc::new(Tasks::default());
        let probes = Probes::start_in_runtime(&ProbeSettings::default(), tasks.clone());
        let _watched = watch(&probes, id, &[every_second(READINESS)], &Record::new());
        pass(ms(5_000)).await;
        let seen = tasks.0.lock();
        let (engine, _) = seen[0];
        assert!(seen.len() >= 4, "{seen:?}");
        assert!(
            seen.iter().all(|(begun, ended)| *begun == engine && (*ended != engine) == waits),
            "{seen:?}"
        );
    }
}

/// Ends the watching of its container while it is first polled; then waits forever, or answers.
struct Stopping {
    watched: Mutex<Option<Watched>>,
    answers: bool,
    left: AtomicUsize,
}

struct Leaves<'a>(&'a AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Prober for Stopping {
    fn probe<'a>(&'a self, _: &'a Target, _: &'a ProbeSpec) -> BoxFuture<'a, Result<Answer, ProbeError>> {
        async {
            let _leaves = Leaves(&self.left);
            drop(self.watched.lock().take());
            if !self.answers {
                std::future::pending::<()>().await;
            }
            success()
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_in_its_first_poll_ends() {
    for answers in [false, true] {
        let prober = Arc::new(Stopping { watched: Mutex::default(), answers, left: AtomicUsize::new(0) });
        let probes = Probes::start_in_runtime(&ProbeSettings::default(), prober.clone());
        let record = Record::new();
        *prober.watched.lock() = Some(watch(&probes, "id", &[every_second(READINESS)], &record));
        // Less than the time-out of a run, after which its place is free in any case.
        pass(ms(900)).await;
        assert_eq!(prober.left.load(Ordering::Relaxed), 1, "answers: {answers}");
        assert!(record.kept.lock().is_empty() && record.run_result().is_empty());
        assert!(probes.view().running.iter().all(|(_, count)| *count == 0));
        pass(ms(5_000)).await;
        assert_eq!(prober.left.load(Ordering::Relaxed), 1, "it was probed again");
    }
}

/// Counts its runs.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Prober for Counting {
    fn probe<'a>(&'a self, _: &'a Target, _: &'a ProbeSpec) -> BoxFuture<'a, Result<Answer, ProbeError>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        async { success() }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn other_tasks_work_while_many_runs_are_due() {
    const ALL: usize = 1_000;
    let prober = Arc::new(Counting::default());
    let probes = Probes::start_in_runtime(&ProbeSettings::default(), prober.clone());
    let watched: Vec<_> = (0..ALL)
        .map(|number| {
            let target = target(&number.to_string(), "c", &number.to_string());
            let specs = vec![spec(READINESS, HandlerKind::TcpSocket)];
            probes.watch(target, specs, ProbeMemory::default(), Record::new())
        })
        .collect();
    let (mut most, mut seen) = (0, 0);
    for _ in 0..ALL {
        yield_now().await;
        let now = prober.0.load(Ordering::Relaxed);
        (most, seen) = (most.max(now - seen), now);
    }
    assert_eq!(seen, ALL);
    assert!(most <= 64, "{most} runs at once");
    drop(watched);
}
