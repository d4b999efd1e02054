//! systemd's watchdog and readiness (sd_notify(3)): the agent is reported alive only while every part makes
//! progress. Without systemd nothing happens.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sd_notify::NotifyState;
use tracing::{error, warn};

use super::error::DaemonError;
use nodewarden_tasks::parts::{Health, Parts};

/// How often the parts are asked where systemd does not want to be notified more often.
const REGULAR: Duration = Duration::from_secs(60);

/// The thread that asks the parts; ended when this is dropped.
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Reports to systemd that the agent has started, and from then on that it is alive.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(parts: &Parts) -> Result<Self, DaemonError> {
        notify(&[NotifyState::Ready]);
        // Twice in the time that systemd allows.
        let every = sd_notify::watchdog_enabled().map_or(REGULAR, |limit| limit / 2);
        Self::start_with(parts.clone(), every, || notify(&[NotifyState::Watchdog]))
    }

    /// Calls `feed` once in `every` while each part makes progress.
    fn start_with(
        parts: Parts,
        every: Duration,
        feed: impl Fn() + Send + 'static,
    ) -> Result<Self, DaemonError> {
        let (stop, stopped) = mpsc::channel::<()>();
        let run = move || {
            let mut reported = Vec::new();
            loop {
                let unhealthy = unhealthy(&parts.health());
                if unhealthy.is_empty() {
                    feed();
                } else if unhealthy != reported {
                    error!("{}", unhealthy.join("; "));
                }
                reported = unhealthy;
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("watchdog".into()).spawn(run);
        let thread = thread.map_err(|source| DaemonError::Start { what: "watchdog thread", source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reports to systemd that the agent ends, which may take longer than the watchdog's time.
pub fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!(%error, "systemd cannot be notified");
    }
}

/// What is wrong, by part. The names of the parts in their order.
fn unhealthy(parts: &[Health]) -> Vec<String> {
    let problem = |own: &Health| own.problem.as_ref().map(|problem| format!("{}: {problem}", own.part));
    parts.iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_shipped_unit_has_a_watchdog_and_is_always_started_again() {
        let text = include_str!("../../../deploy/nodewarden.service");
        let (unit, service) = text.split_once("[Service]").unwrap();
        assert!(unit.contains("\nStartLimitIntervalSec=0\n"), "{unit}");
        for line in ["Type=notify", "Restart=always", "WatchdogSec=60s"] {
            assert!(service.lines().any(|own| own == line), "{line}");
        }
    }

    #[test]
    fn only_parts_with_a_problem_are_unhealthy() {
        let health = |part, problem: Option<&str>| Health { part, problem: problem.map(str::to_owned) };
        assert!(unhealthy(&[]).is_empty());
        let parts = [health("gc", None), health("eviction", Some("no progress for 75 s (at most 60 s)"))];
        assert_eq!(unhealthy(&parts), ["eviction: no progress for 75 s (at most 60 s)"]);
    }

    #[test]
    fn the_watchdog_is_fed_only_while_every_part_makes_progress() {
        let (parts, fed) = (Parts::default(), Arc::new(AtomicUsize::new(0)));
        let (eviction, _upkeep) =
            (parts.register("eviction", Duration::ZERO), parts.register("upkeep", Duration::MAX));
        eviction.waits();
        let counted = fed.clone();
        let feed = move || _ = counted.fetch_add(1, Ordering::Relaxed);
        let watchdog = Watchdog::start_with(parts, Duration::from_millis(2), feed).unwrap();
        let is_fed = |wanted: bool| {
            let begun = Instant::now();
            loop {
                let before = fed.load(Ordering::Relaxed);
                thread::sleep(Duration::from_millis(30));
                if (fed.load(Ordering::Relaxed) > before) == wanted {
                    return;
                }
                assert!(begun.elapsed() < Duration::from_secs(5), "fed: {}", !wanted);
            }
        };
        is_fed(true);
        eviction.progress();
        is_fed(false);
        eviction.waits();
        is_fed(true);
        drop(eviction);
        is_fed(false);
        drop(watchdog);
    }
}
