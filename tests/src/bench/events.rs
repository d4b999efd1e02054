//! Measures the time from the kernel's OOM kill to the event in a subscribed client.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{
    Agent, AgentOptions, Events as Subscription, Group, QuietConsole, Received, TestRoot, Worker,
};
use crate::harness::{Context, Failure};
use crate::worker::report::Victim;

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

        run.progress(&format!("{kills} kills, idle"));
        let idle = series(context, &group, &events, kills)?;
        run.progress(&format!("{kills} kills, idle, nothing printed on the console"));
        let quiet = {
            let _quiet = QuietConsole::new()?;
            series(context, &group, &events, kills)?
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        run.progress(&format!("{kills} kills, {cpus} cores busy"));
        let crowd = root.child("crowd")?;
        let hour = (3600 * 1000).to_string();
        let _spinners = (0..cpus)
            .map(|_| Worker::start(context, Some(&crowd), &["spin", &hour]))
            .collect::<Result<Vec<_>, _>>()?;
        std::thread::sleep(Duration::from_millis(500));
        let busy = series(context, &group, &events, kills)?;
        run.progress(&format!("{kills} kills, {cpus} cores busy, nothing printed on the console"));
        let quiet_busy = {
            let _quiet = QuietConsole::new()?;
            series(context, &group, &events, kills)?
        };

        let bound = Bound::both(0.5, 5.0);
        Ok(vec![
            Figure::of("events", "kill to client, idle", "ms", &idle.from_kernel, bound),
            Figure::of("events", "kill to client, all cores busy", "ms", &busy.from_kernel, bound),
            Figure::of("events", "kill to client, idle, quiet console", "ms", &quiet.from_kernel, bound),
            Figure::of("events", "kill to client, busy, quiet console", "ms", &quiet_busy.from_kernel, bound),
            Figure::of("events", "parent's waitid to client, idle", "ms", &idle.from_parent, Bound::NONE),
            Figure::of("events", "parent's waitid to client, busy", "ms", &busy.from_parent, Bound::NONE),
        ])
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
    let received = events
        .collect(Duration::from_secs(2), Duration::from_secs(20), |event| event.cgroup == group.path())?;
    worker.finish(Duration::from_secs(5))?;
    latencies(&victims, &received)
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
