//! Asks the agent all the time whether it lives, and how long it takes to answer.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::fixture::{Agent, Client, get};
use parking_lot::Mutex;

/// A question that is not answered at all fails after this many times the limit.
const GIVEN_UP: u32 = 10;

/// On a machine whose load is more than this many times its CPUs, which the round's pods do not cause,
/// answers may take [`OVERLOAD_FACTOR`] times as long.
const OVERLOAD: f64 = 3.0;
const OVERLOAD_FACTOR: u32 = 5;

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Questions that were answered.
    pub answers: u64,
    /// The longest answers of `/healthz` and of the API.
    pub slowest: [Duration; 2],
    /// Answers that took longer than the limit while the machine was overloaded.
    pub overloaded: u64,
    /// Answers that took too long, were wrong or did not come.
    pub violations: Vec<String>,
}

/// Asks the running agent until it is dropped.
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    limit: Duration,
    period: Duration,
    stops: AtomicBool,
    /// The agent, and how often it changed.
    target: Mutex<(u64, Option<Target>)>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone)]
struct Target {
    http: SocketAddr,
    socket: PathBuf,
}

impl Watch {
    /// Without an agent at first. Answers have to come within `limit`.
    pub fn new(limit: Duration, period: Duration) -> Self {
        let shared = Arc::new(Shared {
            limit,
            period,
            stops: AtomicBool::new(false),
            target: Mutex::default(),
            seen: Mutex::default(),
        });
        let own = shared.clone();
        let thread = Some(std::thread::spawn(move || own.run()));
        Self { shared, thread }
    }

    /// The agent is about to be ended: an answer that does not come is no violation.
    pub fn pause(&self) {
        let mut target = self.shared.target.lock();
        *target = (target.0 + 1, None);
    }

    /// From now on this agent is asked.
    pub fn follow(&self, agent: &Agent) {
        let found = Target { http: agent.http(), socket: agent.socket().to_owned() };
        let mut target = self.shared.target.lock();
        *target = (target.0 + 1, Some(found));
    }

    pub fn seen(&self) -> Seen {
        self.shared.seen.lock().clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.pause();
        self.shared.stops.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its violations have been recorded.
            let _ended = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut client: Option<(u64, Client)> = None;
        while !self.stops.load(Ordering::Relaxed) {
            std::thread::sleep(self.period);
            let (number, target) = self.target.lock().clone();
            let Some(target) = target else {
                client = None;
                continue;
            };
            let begun = Instant::now();
            let answer = match get(target.http, "/healthz", self.limit * GIVEN_UP) {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) => Err(format!("{}: {}", answer.status, answer.text().trim())),
                Err(error) => Err(error.to_string()),
            };
            self.record(0, "/healthz", number, begun.elapsed(), answer);
            if client.as_ref().is_none_or(|(of, _)| *of != number) {
                client = Client::connect(&target.socket).ok().map(|client| (number, client));
            }
            let begun = Instant::now();
            let answer = match &client {
                Some((_, client)) => client.status().map(drop).map_err(|error| error.to_string()),
                None => Err("cannot connect".to_owned()),
            };
            self.record(1, "GetStatus", number, begun.elapsed(), answer);
        }
    }

    fn record(&self, which: usize, what: &str, number: u64, took: Duration, answer: Result<(), String>) {
        let target = self.target.lock();
        if target.0 != number {
            return;
        }
        let mut seen = self.seen.lock();
        seen.answers += 1;
        seen.slowest[which] = seen.slowest[which].max(took);
        match answer {
            Err(error) => seen.violations.push(format!("{what}: {error}, after {:.2} s", took.as_secs_f64())),
            Ok(()) if took > self.limit && took <= self.limit * OVERLOAD_FACTOR && is_overloaded() => {
                seen.overloaded += 1;
            }
            Ok(()) if took > self.limit => {
                seen.violations.push(format!("{what} was answered only after {:.2} s", took.as_secs_f64()));
            }
            Ok(()) => {}
        }
    }
}

/// Whether others use up the machine's CPUs, by the load of the last minute.
fn is_overloaded() -> bool {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    load > OVERLOAD * cpus as f64
}
