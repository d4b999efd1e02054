//! Measures the time from the kernel's OOM kill to the event in a subscribed client. Beside it stand a bare
//! reader of the kernel's tracepoint, and a client to which that reader sends what it reads by gRPC: an agent
//! that does nothing else.

mod bare;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{
    Agent, AgentOptions, Events as Subscription, Group, QuietConsole, Received, Relay, TestRoot, Worker,
};
use crate::harness::{Context, Failure};
use crate::worker::report::Victim;
use bare::{BareReader, Kill};

pub struct Events;

const LIMIT: u64 = 16 << 20;
/// Where the time to a client is wanted, in milliseconds.
const GOAL: Bound = Bound::both(0.2, 1.0);

impl Bench for Events {
    fn name(&self) -> &'static str {
        "events"
    }

    fn about(&self) -> &'static str {
        "time from the kernel's OOM kill to the event in a subscribed client, idle and with all cores busy"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let context = run.context;
        let kills = if run.quick { 100 } else { 300 };
        let root = TestRoot::new(context)?;
        let agent = Agent::start(context, &AgentOptions::default())?;
        let client = agent.client()?;
        let events = client.watch_types(&["oom"])?;
        let group = root.child("victims")?;
        group.limit_memory(LIMIT)?;

        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let crowd = root.child("crowd")?;
        let hour = (3600 * 1000).to_string();
        let spin = || -> Result<Vec<Worker>, Failure> {
            let spinner = |_| Ok(Worker::start(context, Some(&crowd), &["spin", &hour])?);
            let spinners = (0..cpus).map(spinner).collect();
            std::thread::sleep(Duration::from_millis(500));
            spinners
        };
        let (mut with_agent, mut alone, mut relayed) = (Vec::new(), Vec::new(), Vec::new());
        for (name, busy, quiet) in CONDITIONS {
            run.progress(&format!("{kills} kills, {name}"));
            let _spinners = busy.then(spin).transpose()?;
            let _quiet = quiet.then(QuietConsole::new).transpose()?;
            with_agent.push(series(context, &group, &events, kills)?);
        }
        drop(agent);
        for (name, busy, quiet) in CONDITIONS {
            run.progress(&format!("{kills} kills, {name}, without an agent"));
            let _spinners = busy.then(spin).transpose()?;
            let _quiet = quiet.then(QuietConsole::new).transpose()?;
            alone.push(bare(context, &group, kills)?);
            run.progress(&format!("{kills} kills, {name}, through gRPC without an agent"));
            relayed.push(through_grpc(context, &group, kills)?);
        }

        let mut figures = Vec::new();
        let floors = alone.iter().zip(&relayed);
        for ((name, _, quiet), (ours, (alone, relayed))) in
            CONDITIONS.iter().zip(with_agent.iter().zip(floors))
        {
            let row = |what: &str, values: &[f64], bound| {
                Figure::of("events", format!("{what}, {name}"), "ms", values, bound)
            };
            // The floor is an agent that does nothing else.
            let floor = relayed.as_deref().unwrap_or_default();
            let to_client = row("kill to client", &ours.from_kernel, Bound::both(0.5, 5.0));
            figures.push(to_client.with_goal(GOAL, floor));
            if let Some(alone) = alone {
                figures.push(row("bare: kill to a reader of the tracepoint", alone, Bound::NONE));
            }
            if let Some(relayed) = relayed {
                figures.push(row("no-op agent: that reader to a client by gRPC", relayed, Bound::NONE));
            }
            if !quiet {
                figures.push(row("parent's waitid to client", &ours.from_parent, Bound::NONE));
            }
        }
        Ok(figures)
    }
}

/// Name, whether every core is busy, and whether nothing is printed on the console.
const CONDITIONS: [(&str, bool, bool); 4] = [
    ("idle", false, false),
    ("all cores busy", true, false),
    ("idle, quiet console", false, true),
    ("busy, quiet console", true, true),
];

/// Milliseconds from each kill to a bare reader; `None` where there is no tracefs.
fn bare(context: &Context, group: &Group, kills: u32) -> Result<Option<Vec<f64>>, Failure> {
    let seen = Seen::default();
    let reader = BareReader::start(seen.noting())?;
    seen.of_series(reader, context, group, kills)
}

/// The same to a client to which the reader sends each.
fn through_grpc(context: &Context, group: &Group, kills: u32) -> Result<Option<Vec<f64>>, Failure> {
    let (seen, dir) = (Seen::default(), tempfile::tempdir().map_err(Failure::file(&std::env::temp_dir()))?);
    let mut note = seen.noting();
    let relay = Relay::start(dir.path(), move |text| {
        if let Some(kill) = Kill::from_text(text) {
            note(kill);
        }
    })?;
    let sender = relay.sender();
    let reader = BareReader::start(move |kill| sender.send(kill.to_text()))?;
    seen.of_series(reader, context, group, kills)
}

/// Victims, each with the milliseconds from its kill.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Vec<(u32, f64)>>>);

impl Seen {
    /// Notes a kill at the moment of the call.
    fn noting(&self) -> impl FnMut(Kill) + Send + use<> {
        let seen = self.clone();
        move |kill| {
            let after_ms = kill.age_ms();
            seen.0.lock().push((kill.pid, after_ms));
        }
    }

    /// Has processes killed while `reader` runs. Returns the milliseconds to each.
    fn of_series(
        &self,
        reader: Option<BareReader>,
        context: &Context,
        group: &Group,
        kills: u32,
    ) -> Result<Option<Vec<f64>>, Failure> {
        let Some(reader) = reader else { return Ok(None) };
        let victims: HashSet<u32> =
            kill(context, group, kills)?.into_iter().map(|victim| victim.pid).collect();
        reader.finish();
        let seen = self.0.lock();
        let of_ours: Vec<f64> =
            seen.iter().filter(|(pid, _)| victims.contains(pid)).map(|(_, after_ms)| *after_ms).collect();
        ensure!(of_ours.len() >= victims.len(), "{} of {} kills were seen", of_ours.len(), victims.len());
        Ok(Some(of_ours))
    }
}

/// Latencies in milliseconds, one value per kill.
struct Latencies {
    /// From the event's own time, which is the kernel's clock at the kill.
    from_kernel: Vec<f64>,
    /// From the time at which the victim's parent saw its death, by a clock independent of the agent.
    /// Negative if the event came first.
    from_parent: Vec<f64>,
}

fn series(context: &Context, group: &Group, events: &Subscription, kills: u32) -> Result<Latencies, Failure> {
    let victims = kill(context, group, kills)?;
    let received = events
        .collect(Duration::from_secs(2), Duration::from_secs(20), |event| event.cgroup == group.path())?;
    latencies(&victims, &received)
}

/// Has so many processes killed, one after the other.
fn kill(context: &Context, group: &Group, kills: u32) -> Result<Vec<Victim>, Failure> {
    let arguments = ["oom-victims", &kills.to_string(), &(2 * LIMIT).to_string(), "--on-demand"];
    let mut worker = Worker::start(context, Some(group), &arguments)?;
    let mut victims = Vec::new();
    for i in 0..kills {
        victims.push(worker.report::<Victim>(Duration::from_secs(20))?);
        // A pause, so that the agent sleeps at each kill.
        std::thread::sleep(Duration::from_millis(5));
        if i + 1 < kills {
            worker.go()?;
        }
    }
    worker.finish(Duration::from_secs(5))?;
    Ok(victims)
}

fn latencies(victims: &[Victim], received: &[Received]) -> Result<Latencies, Failure> {
    ensure!(
        victims.len() == received.len(),
        "{} kills and {} events: each kill needs one event to be measured",
        victims.len(),
        received.len()
    );
    let mut by_pid: HashMap<u32, &Victim> = victims.iter().map(|victim| (victim.pid, victim)).collect();
    let mut latencies = Latencies { from_kernel: Vec::new(), from_parent: Vec::new() };
    for event in received {
        let pid = match &event.event.detail {
            Some(nodewarden_proto::nodewarden::v1::event::Detail::Oom(oom)) => oom.pid,
            other => return Err(Failure::Unexpected(format!("an OOM event with {other:?}"))),
        };
        let Some(victim) = by_pid.remove(&pid) else {
            return Err(Failure::Unexpected(format!("an event for pid {pid}, which was not killed (again)")));
        };
        latencies.from_kernel.push(milliseconds(event.time()?, event.at));
        latencies.from_parent.push(milliseconds(victim.seen_dead(), event.at));
    }
    Ok(latencies)
}

/// Milliseconds between two times; negative if `to` is before `from`.
fn milliseconds(from: SystemTime, to: SystemTime) -> f64 {
    match to.duration_since(from) {
        Ok(after) => after.as_secs_f64() * 1e3,
        Err(before) => -before.duration().as_secs_f64() * 1e3,
    }
}
