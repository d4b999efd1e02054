//! Helper functions that several groups of tests use.

use std::time::{Duration, Instant, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;
use nodewarden_proto::nodewarden::v1::{Cgroup, Event, Histogram, Note, OomKill, WatchEventsRequest};

use crate::fixture::{Client, Group, RpcError, Worker};
use crate::harness::{Context, Failure};
use crate::worker::report::Victim;

pub const MIB: u64 = 1 << 20;
/// How long `eventually` waits between two questions at least, and at most.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long an event may take to arrive.
pub const SOON: Duration = Duration::from_secs(1);

/// A group's counters in the agent, once the latest events are counted.
pub fn settled(client: &Client, group: &Group) -> Result<Cgroup, RpcError> {
    // The agent may reuse a reading for some milliseconds, and the latest events may still be in the ring.
    std::thread::sleep(Duration::from_millis(300));
    client.cgroup(group.path())
}

/// The value of a field that must be set. The failure names `field`.
pub fn known<T>(value: Option<T>, field: &str) -> Result<T, Failure> {
    value.ok_or_else(|| Failure::Unexpected(format!("the agent does not report {field}")))
}

/// The details of an OOM event.
pub fn oom_of(event: &Event) -> Option<&OomKill> {
    match &event.detail {
        Some(Detail::Oom(oom)) => Some(oom),
        _ => None,
    }
}

/// Number of values in a histogram; 0 if it is absent.
pub fn count(histogram: Option<&Histogram>) -> u64 {
    histogram.map_or(0, |histogram| histogram.buckets.iter().sum())
}

/// Whether `seen` is within `percent` of `expected`.
pub fn within(seen: u64, expected: u64, percent: f64) -> bool {
    (seen as f64 - expected as f64).abs() <= expected as f64 * percent / 100.0
}

/// Runs a process that allocates memory until its cgroup's limit kills it. Returns its pid and when it was
/// seen dead.
pub fn die_of_memory(context: &Context, group: &Group, bytes: u64) -> Result<(u32, SystemTime), Failure> {
    let mut worker = Worker::start(context, Some(group), &["eat-memory", &bytes.to_string()])?;
    let status = worker.wait(context.patiently(20))?;
    let seen = SystemTime::now();
    crate::ensure!(
        std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL),
        "the worker should have been killed for memory and ended with {status}"
    );
    Ok((worker.pid(), seen))
}

/// A request for the events in the journal since a time, without following.
pub fn since(time: SystemTime, types: &[&str]) -> WatchEventsRequest {
    WatchEventsRequest {
        since: Some(time.into()),
        types: types.iter().map(|&name| name.to_owned()).collect(),
        pod: String::new(),
        no_follow: true,
    }
}

/// Whether a note is of a start that was in progress when the agent or the runtime died: the runtime undoes
/// it, even after the container's first instructions.
pub fn was_interrupted(note: &Note) -> bool {
    let failed = ["StartError", "RunContainerError"].iter().any(|word| note.message.contains(word));
    failed || note.reason == "StartResumed"
}

/// Calls `ask` until it returns `Some`. Fails with `missing` after `wait`.
pub fn eventually<T>(
    wait: Duration,
    missing: &str,
    mut ask: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let deadline = Instant::now() + wait;
    loop {
        let asked = Instant::now();
        if let Some(found) = ask()? {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(Failure::Unexpected(format!("{missing} (waited {} s)", wait.as_secs())));
        }
        // On an emulated machine a question can take as long as the pause: asking must not take the CPUs
        // from what is waited for.
        std::thread::sleep((4 * asked.elapsed()).clamp(SHORTEST_PAUSE, LONGEST_PAUSE));
    }
}

/// Runs a worker with `count` victims that are killed one after the other in a cgroup with a limit, every
/// second one a grandchild of the worker.
pub fn kill_victims(
    context: &Context,
    group: &Group,
    count: u32,
    bytes: u64,
) -> Result<Vec<Victim>, Failure> {
    let arguments = ["oom-victims", &count.to_string(), &bytes.to_string(), "--grandchildren"];
    let worker = Worker::start(context, Some(group), &arguments)?;
    let victims =
        (0..count).map(|_| worker.report(context.patiently(20))).collect::<Result<Vec<Victim>, _>>()?;
    worker.finish(context.patiently(5))?;
    Ok(victims)
}
