//! The long-lived parts of the agent: threads and tasks that nothing waits for. A part that ends by itself
//! would otherwise be missing until the agent's end without anyone noticing.
//!
//! A thread holds its [`Part`] while it runs, and calls [`Part::end`] when it was asked to end. A task runs
//! inside of [`Part::task`] or [`Part::task_with`]: it may return or be aborted, but not panic.
//!
//! Each part registers itself ([`register`]) and reports its progress. Three things follow from that: the end
//! of a part ends the agent ([`Parts::ended`]), so that it is started again whole; `/healthz` names the parts
//! that make no progress ([`Parts::health`]); and systemd's watchdog is notified only while there are none.

mod panic_text;

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

pub use panic_text::{keep_panic_texts, last as last_panic_text};

/// Registers a part of this process: [`Parts::register`] of [`Parts::of_process`].
pub fn register(name: &'static str, limit: Duration) -> Part {
    Parts::of_process().register(name, limit)
}

/// Parts that run. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Parts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    begun: Instant,
    entries: Mutex<Entries>,
    /// The first part that ended by itself.
    ended: watch::Sender<Option<Ended>>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    parts: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    name: &'static str,
    limit: Duration,
    state: Arc<AtomicU64>,
    ended: Option<Ended>,
}

impl Default for Inner {
    fn default() -> Self {
        Self { begun: Instant::now(), entries: Mutex::default(), ended: watch::Sender::default() }
    }
}

/// A part that ended although it was not asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Name of the part.
    pub part: &'static str,
    /// What it panicked with; `None` if it returned.
    pub panic: Option<String>,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.panic {
            Some(text) => write!(f, "{} panicked: {text}", self.part),
            None => write!(f, "{} ended by itself", self.part),
        }
    }
}

/// How a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Name of the part.
    pub part: &'static str,
    /// What is wrong with it; `None` if it is as it should be.
    pub problem: Option<String>,
}

/// In [`Part`]'s state: it waits for something to do.
const WAITS: u64 = u64::MAX;

/// A part that runs. Dropped without [`Part::end`], it has ended by itself.
#[derive(Debug)]
pub struct Part {
    pulse: Pulse,
    number: u64,
    asked: bool,
}

/// Reports the progress of a part.
#[derive(Debug, Clone)]
pub struct Pulse {
    parts: Parts,
    /// When the part last made progress, in milliseconds since the registry was made, or [`WAITS`].
    state: Arc<AtomicU64>,
}

impl Parts {
    /// Those of this process.
    pub fn of_process() -> &'static Self {
        static PARTS: LazyLock<Parts> = LazyLock::new(Parts::default);
        &PARTS
    }

    /// Registers a part. It is unhealthy when it works for longer than `limit` without progress.
    pub fn register(&self, name: &'static str, limit: Duration) -> Part {
        let state = Arc::new(AtomicU64::new(self.now()));
        let mut entries = self.0.entries.lock();
        let number = entries.next;
        entries.next += 1;
        entries.parts.insert(number, Entry { name, limit, state: state.clone(), ended: None });
        Part { pulse: Pulse { parts: self.clone(), state }, number, asked: false }
    }

    /// How each part is, by name. Of several with one name the worst counts.
    pub fn health(&self) -> Vec<Health> {
        let now = self.now();
        let mut found: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
        for entry in self.0.entries.lock().parts.values() {
            let problem = match &entry.ended {
                Some(ended) => Some(match &ended.panic {
                    Some(text) => format!("panicked: {text}"),
                    None => "ended by itself".to_owned(),
                }),
                None => standstill(entry.state.load(Ordering::Relaxed), now, entry.limit),
            };
            let worst = found.entry(entry.name).or_default();
            *worst = worst.take().or(problem);
        }
        found.into_iter().map(|(part, problem)| Health { part, problem }).collect()
    }

    /// Waits until a part has ended by itself, and returns the first one that did.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.0.ended.subscribe();
        match ended.wait_for(Option::is_some).await.ok().and_then(|ended| ended.clone()) {
            Some(ended) => ended,
            // The sender is as old as this.
            None => std::future::pending().await,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(WAITS - 1)
    }
}

/// What is wrong with a part whose state is `state` at the time `now` (ms).
fn standstill(state: u64, now: u64, limit: Duration) -> Option<String> {
    if state == WAITS {
        return None;
    }
    let still = Duration::from_millis(now.saturating_sub(state));
    (still > limit).then(|| format!("no progress for {} s (at most {} s)", still.as_secs(), limit.as_secs()))
}

impl Pulse {
    /// The part made progress, and works on.
    pub fn progress(&self) {
        self.state.store(self.parts.now(), Ordering::Relaxed);
    }

    /// The part waits for something to do, for as long as it takes, until the next [`Self::progress`].
    pub fn waits(&self) {
        self.state.store(WAITS, Ordering::Relaxed);
    }
}

impl Part {
    /// See [`Pulse::progress`].
    pub fn progress(&self) {
        self.pulse.progress();
    }

    /// See [`Pulse::waits`].
    pub fn waits(&self) {
        self.pulse.waits();
    }

    /// `task` as the part, which works whenever it is polled and waits in between: it stands still when it
    /// blocks its thread.
    pub fn task<'t>(self, task: impl Future<Output = ()> + Send + 't) -> Task<'t> {
        self.fallible_task(async move {
            task.await;
            Ok(())
        })
    }

    /// The same for a task that may fail, which it logs itself: then the part has ended by itself.
    pub fn fallible_task<'t>(self, task: impl Future<Output = Result<(), Failed>> + Send + 't) -> Task<'t> {
        Task { task: Some(Box::pin(task)), part: Some(self), polled: true }
    }

    /// What `task` returns as the part. It reports its progress itself, and so also stands still when it
    /// waits for something that never comes.
    pub fn task_with<'t, F: Future<Output = ()> + Send + 't>(
        self,
        task: impl FnOnce(Pulse) -> F,
    ) -> Task<'t> {
        let task = task(self.pulse.clone());
        let task = async move {
            task.await;
            Ok(())
        };
        Task { task: Some(Box::pin(task)), part: Some(self), polled: false }
    }

    /// It ends because it was asked to.
    pub fn end(mut self) {
        self.asked = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut entries = self.pulse.parts.0.entries.lock();
        if self.asked {
            entries.parts.remove(&self.number);
            return;
        }
        let Some(entry) = entries.parts.get_mut(&self.number) else { return };
        let panic = std::thread::panicking().then(panic_text::last);
        let ended = Ended { part: entry.name, panic };
        entry.ended = Some(ended.clone());
        drop(entries);
        self.pulse.parts.0.ended.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(ended);
            is_first
        });
    }
}

/// A part could not go on. It has logged why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// What a task does.
type Work<'t> = Pin<Box<dyn Future<Output = Result<(), Failed>> + Send + 't>>;

/// A task that is a part: one type for all of them, so that the async runtime has one code for all.
pub struct Task<'t> {
    task: Option<Work<'t>>,
    part: Option<Part>,
    /// Polling is progress.
    polled: bool,
}

impl Future for Task<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let (Some(task), Some(part)) = (&mut this.task, &this.part) else { return Poll::Ready(()) };
        if this.polled {
            part.progress();
        }
        let done = task.as_mut().poll(cx);
        if this.polled {
            part.waits();
        }
        done.map(|done| {
            if done == Err(Failed) {
                // Dropped without having been asked to end.
                this.part = None;
            }
        })
    }
}

impl Drop for Task<'_> {
    fn drop(&mut self) {
        // What it holds is dropped while it still counts as running.
        self.task = None;
        if let Some(part) = self.part.take().filter(|_| !std::thread::panicking()) {
            part.end();
        }
    }
}

#[cfg(test)]
mod tests;
