//! Periodic runs: when they begin, and how much each looks at.
//!
//! In mode manage a run waits for the next list of the runtime that another part asks for ([`SharedList`]),
//! so that it does not wake the machine by itself. Most of the time the list shows what the last run found,
//! which had nothing to do, or that and pods that have started since: then a run is quiet and looks at images
//! alone ([`quiet`]).
//!
//! [`SharedList`]: nodewarden_cri::SharedList

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_cri::Listing;
use nodewarden_tasks::parts::Pulse;
use nodewarden_tasks::pause::every;
use tokio::time::Instant;

use super::collector::Collector;
use super::first_runs::FirstRuns;
use super::images::RunCache;
use super::metrics::Part;
use super::quiet::{self, TRUSTED};
use super::run::Run;
use super::shared::{Idle, Shared};
use super::sweep::When;

/// Wait between two checks whether the node's pods are known.
const START: Duration = Duration::from_millis(200);

/// How much later than others a run begins without a list of them: in the normal case one has come by then.
const LATER: Duration = Duration::from_millis(4096);

/// Why a run begins.
#[derive(Debug)]
pub enum Cause {
    /// The node's pods are known.
    Start,
    /// Another part asked for this list.
    List(Arc<Listing>),
    /// The period is over.
    Time,
    /// The disk is short of space.
    Pressure,
}

impl Collector {
    /// Runs at the start, then each period and when the disk is short of space.
    pub(crate) async fn run_periodically(self, pulse: &Pulse) {
        let inner = &self.0;
        pulse.waits();
        while inner.acts && inner.board.desired().is_none() {
            tokio::time::sleep(START).await;
        }
        let (mut cause, mut last) = (Cause::Start, Instant::now());
        loop {
            pulse.progress();
            // Those because of pressure are extra.
            if !matches!(cause, Cause::Pressure) {
                last = Instant::now();
            }
            match cause {
                Cause::List(listing) => self.run_with(listing).await,
                Cause::Time => self.run_once(When::Shared).await,
                Cause::Start | Cause::Pressure => self.run_once(When::Now).await,
            }
            pulse.waits();
            cause = inner.next_cause(last).await;
        }
    }

    /// One periodic run; `when` the runtime is listed.
    pub(crate) async fn run_once(&self, when: When) {
        let _running = self.0.run_lock.lock().await;
        self.0.run_whole(when).await;
    }

    /// One periodic run because there is this list of the runtime, made a moment ago.
    pub(crate) async fn run_with(&self, listing: Arc<Listing>) {
        let Ok(_running) = self.0.run_lock.try_lock() else {
            // The list is old when the run in progress ends.
            drop(listing);
            return self.run_once(When::Shared).await;
        };
        if self.0.is_quiet(&listing) {
            return self.0.run_quietly(listing).await;
        }
        drop(listing);
        self.0.run_whole(When::Shared).await;
    }
}

impl Shared {
    /// Waits until a run is due; `last`: when the last one began that was not because of pressure.
    pub(crate) async fn next_cause(&self, last: Instant) -> Cause {
        let period = self.settings.period;
        // In mode observe no other part asks each minute.
        let list = self.list.as_ref().filter(|_| self.acts);
        let later = list.map_or(Duration::ZERO, |_| LATER);
        let over = by_time((every(period) + later).into(), last, period);
        let mut over = pin!(tokio::time::sleep_until(over));
        loop {
            let next = async {
                match list {
                    Some(list) => list.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut over => return Cause::Time,
                () = self.pressure.notified() => return Cause::Pressure,
                answer = next => match answer {
                    Ok(listing) if is_due(last.elapsed(), period) => return Cause::List(listing),
                    // The run asks again, and reports it if that fails too.
                    Err(_) if is_due(last.elapsed(), period) => return Cause::Time,
                    // Others look more often.
                    _ => {}
                },
            }
        }
    }

    /// Whether the listing shows that a run has nothing to do but for images.
    fn is_quiet(&self, listing: &Listing) -> bool {
        let Some(idle) = *self.idle.lock() else { return false };
        let removed_pods = self.board.removed();
        let mark = quiet::mark(listing).wrapping_add(self.mark_of_pods());
        let all_alive = quiet::all_alive(listing);
        if quiet::is_quiet(Some(idle.mark).zip(self.since_all_logs()), mark, all_alive) {
            return true;
        }
        // Nothing that had logs is gone: those of what has started since are needed.
        let is_recent = self.since_all_logs().is_some_and(|since| since <= TRUSTED);
        let has_only_grown = all_alive && is_recent && idle.removed_pods == removed_pods && {
            let (wanted, pods) = (self.board.desired().unwrap_or_default(), self.board.pods());
            let all = pods.len();
            let first_runs = FirstRuns::of(pods);
            let uids = first_runs.uids();
            let are_wanted = wanted.pods.iter().all(|sourced| uids.contains(sourced.pod.uid.as_str()));
            uids.len() == all && wanted.pods.len() == all && are_wanted && first_runs.are_all_of(listing)
        };
        if has_only_grown {
            *self.idle.lock() = Some(Idle { mark, removed_pods });
        }
        has_only_grown
    }

    fn since_all_logs(&self) -> Option<Duration> {
        self.all_logs.lock().map(|began| began.elapsed())
    }

    fn mark_of_pods(&self) -> u64 {
        let (wanted, pods) = (self.board.desired().unwrap_or_default(), self.board.pods());
        quiet::mark_of_pods(&wanted, pods.iter().map(|view| &**view))
    }

    /// What a run does for images. Containers and logs are as the last whole run left them.
    async fn run_quietly(&self, listing: Arc<Listing>) {
        let detected = self.detect(&listing, &mut RunCache::default()).await;
        drop(listing);
        let mut run = Run::new(false, None, &self.removals);
        let images = match detected {
            Ok(_) => self.collect_images(&mut run).await,
            Err(error) => Err(error),
        };
        self.report_images(&run, &images);
    }

    async fn run_whole(&self, when: When) {
        if !self.acts {
            let detected = match self.list(when).await {
                Ok(listing) => self.detect(&listing, &mut RunCache::default()).await.map(drop),
                Err(error) => Err(error.into()),
            };
            return self.reporter.report(Part::Image, self.count_early_end(Part::Image, &detected));
        }
        *self.idle.lock() = None;
        // Before anything is read: what changes meanwhile makes the next run a whole one.
        let (began, pods, removed_pods) = (Instant::now(), self.mark_of_pods(), self.board.removed());
        let without = match (when, self.since_all_logs()) {
            (When::Shared, Some(since)) if since <= TRUSTED => FirstRuns::of(self.board.pods()),
            _ => {
                *self.all_logs.lock() = Some(began);
                FirstRuns::default()
            }
        };
        let contents = self.contents(when, true, without).await;
        let found = contents.as_ref().ok().map(|contents| quiet::mark(&contents.listing));
        let detected = match &contents {
            Ok(contents) => self.detect(&contents.listing, &mut RunCache::default()).await.map(drop),
            Err(_) => self.detect_now(&mut RunCache::default()).await.map(drop),
        };
        let mut run = Run::new(false, None, &self.removals);
        let containers = self.collect_containers(&mut run, contents, false).await;
        let images = match detected {
            Ok(()) => self.collect_images(&mut run).await,
            failed => failed,
        };
        if containers.is_err() {
            // All were not looked at.
            *self.all_logs.lock() = None;
        }
        if containers.is_ok() && images.is_ok() && run.had_nothing_to_do() {
            *self.idle.lock() = found.map(|found| Idle { mark: found.wrapping_add(pods), removed_pods });
        }
        self.report(&run, &containers, &images);
    }
}

/// When a run begins without a list: at the end of the current period, or a period later if a list that came
/// right before its end has begun one.
fn by_time(end: Instant, last: Instant, period: Duration) -> Instant {
    if is_due(end.saturating_duration_since(last), period) { end } else { end + period }
}

/// Whether a list that comes this long after the last run began may begin the next one. Lists come at other
/// times than the ends of periods, and the last run may have begun without one.
fn is_due(since: Duration, period: Duration) -> bool {
    since + LATER >= period / 10 * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_come_more_often_than_runs_are_due_are_left() {
        for (since, period, due) in [
            // Each time, and after a run without a list.
            (57_344, 60_000, true),
            (53_248, 60_000, true),
            (40_000, 60_000, false),
            (229_376, 300_000, false),
            (286_720, 300_000, true),
            (4096, 10_000, false),
        ] {
            let (since, period) = (Duration::from_millis(since), Duration::from_millis(period));
            assert_eq!(is_due(since, period), due, "{since:?} {period:?}");
        }
    }

    #[test]
    fn a_run_by_a_list_takes_the_place_of_the_one_at_the_end_of_its_period() {
        let (last, period) = (Instant::now(), Duration::from_secs(300));
        for (end, expected) in [(8, 308), (12, 312), (269, 269), (299, 299), (400, 400)] {
            let at = |seconds| last + Duration::from_secs(seconds);
            assert_eq!(by_time(at(end), last, period), at(expected), "{end}");
        }
        // A short period has a run in each.
        let period = Duration::from_secs(60);
        assert_eq!(by_time(last + period, last, period), last + period);
    }
}
