//! Measures the time from the kernel's OOM kill to the event in a subscribed client, and to a bare reader of
//! the kernel's tracepoint.

mod bare;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{
    Agent, AgentOptions, Events as Subscription, Group, QuietConsole, Received, TestRoot, Worker,
};
use crate::harness::{Context, Failure};
use crate::worker::report::Victim;
use bare::BareReader;

pub struct Events;

const LIMIT: u64 = 16 << 20;

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
        let (mut with_agent, mut alone) = (Vec::new(), Vec::new());
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
        }

        let mut figures = Vec::new();
        for ((name, _, quiet), (ours, alone)) in CONDITIONS.iter().zip(with_agent.iter().zip(&alone)) {
            let row = |what: &str, values: &[f64], bound| {
                Figure::of("events", format!("{what}, {name}"), "ms", values, bound)
            };
            figures.push(row("kill to client", &ours.from_kernel, Bound::both(0.5, 5.0)));
            if let Some(alone) = alone {
                figures.push(row("bare: kill to a reader of the tracepoint", alone, Bound::NONE));
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
    let Some(reader) = BareReader::start()? else { return Ok(None) };
    let victims: HashSet<u32> = kill(context, group, kills)?.into_iter().map(|victim| victim.pid).collect();
    let seen = reader.finish();
    let of_ours: Vec<f64> =
        seen.into_iter().filter(|seen| victims.contains(&seen.pid)).map(|seen| seen.after_ms).collect();
    ensure!(of_ours.len() >= victims.len(), "{} of {} kills are in the trace", of_ours.len(), victims.len());
    Ok(Some(of_ours))
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
