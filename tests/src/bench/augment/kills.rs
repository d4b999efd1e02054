//! Children that are killed for memory in pods of the real kubelet: how soon there is an Event at the API
//! server, and what ten thousand kills cost it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Bench, Bound, Figure, Run};
use crate::e2e::cluster::beside::arguments;
use crate::e2e::cluster::fixture::{ClusterFixture, container_id};
use crate::e2e::cluster::manifest::{WAIT, pod};
use crate::e2e::cluster::node::NodeKind;
use crate::e2e::cluster::options::{NodeOptions, Prepared};
use crate::e2e::pressure::fixture::metric;
use crate::e2e::support::{MIB, die_of_memory, eventually};
use crate::ensure;
use crate::fixture::{Agent, AgentOptions, Api, Cluster, Group, QuietConsole, Watch, Worker};
use crate::harness::Failure;
use crate::worker::report::Victim;

/// Pods, and kills in each, with an Event each: below the 25 that an object has at once.
const PODS: usize = 5;
const KILLS: [usize; 2] = [20, 4];
/// Kills as fast as the machine can, on a full and on a quick run, and in how many pods: while the kernel
/// kills in one, the next child starts in the other.
const STORM: [u32; 2] = [10_000, 1_000];
const STORM_PODS: u32 = 2;
const LIMIT: u64 = 32 * MIB;
/// Limit of each of these pods, and what the children's parent holds of it: the less a child uses until it is
/// killed, the more are killed in a minute. A child must still have more than any other process of the pod:
/// with 12 MiB held it had one, and the kernel once killed the container's shell.
const STORM_LIMIT: u64 = 16 * MIB;
const STORM_HELD: u64 = 9 * MIB;
/// Time for one kill, in seconds.
const ONE_KILL: u64 = 20;
/// How long an Event may take before it counts as missing.
const MISSING: Duration = Duration::from_secs(10);
/// Until the agent has read the pods.
const SETTLED: u64 = 3;
/// Bounds: death to Event, p99 in milliseconds; requests for the storm, each pod's budget.
const EVENT_P99_MS: f64 = 1000.0;
const REQUESTS: f64 = 26.0 * STORM_PODS as f64;
/// Bound: milliseconds for each kill of the storm, which are ten thousand kills in a minute.
const STORM_KILL_MS: f64 = 6.0;

pub struct AugmentEvents;

impl Bench for AugmentEvents {
    fn name(&self) -> &'static str {
        "augment-events"
    }

    fn about(&self) -> &'static str {
        "Events of killed children in mode augment, and ten thousand kills"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        measure(run, super::control_plane(run)?.cluster())
    }
}

fn measure(run: &Run<'_>, cluster: &Cluster) -> Result<Vec<Figure>, Failure> {
    let usual = usize::from(run.quick);
    let options = NodeOptions { kind: Some(NodeKind::Kubelet), ..NodeOptions::default() };
    let fixture = Prepared::of(run.context, cluster.clone(), None).start(options)?;
    let groups: Vec<Group> =
        (0..PODS).map(|number| start(run, &fixture, number, LIMIT)).collect::<Result<_, _>>()?;
    let start_storm = |number: u32| start(run, &fixture, PODS + number as usize, STORM_LIMIT);
    let of_storm = (0..STORM_PODS).map(start_storm).collect::<Result<Vec<_>, _>>()?;
    let agent = Agent::start(run.context, &self::options(run, &fixture))?;
    std::thread::sleep(run.context.patiently(SETTLED));
    let events = Events(Watch::start(
        &Api::new(cluster)?,
        &format!("/api/v1/namespaces/{}/events", fixture.namespace()),
    ));
    run.progress(&format!("{} kills in {PODS} pods, one after the other", PODS * KILLS[usual]));
    let mut delays = Vec::new();
    for _ in 0..KILLS[usual] {
        for group in &groups {
            let (pid, _) = die_of_memory(run.context, group, 4 * LIMIT)?;
            delays.push(events.delay(pid, Instant::now())?);
        }
    }
    let before = counted(&agent)?;
    run.progress(&format!("{} kills in {STORM_PODS} other pods, as fast as they come", STORM[usual]));
    let took = {
        // The kernel's report of each kill takes milliseconds on a serial console.
        let _quiet = QuietConsole::new()?;
        let begun = Instant::now();
        storm(run, &of_storm, STORM[usual])?;
        begun.elapsed().as_secs_f64()
    };
    let mut now = 0.0;
    // Counts that do not come are a figure, not an error.
    let _all = eventually(run.context.patiently(20), "", || {
        now = counted(&agent)? - before;
        Ok((now >= f64::from(STORM[usual])).then_some(()))
    });
    std::thread::sleep(run.context.patiently(SETTLED));
    let requests = events.count();
    drop((agent, events));
    let of_storm = |what: &str, unit, value, bound| {
        let what = format!("{what}, {} kills in {STORM_PODS} pods", STORM[usual]);
        Figure::one("augment-events", what, unit, value, bound)
    };
    let figures = vec![
        Figure::of(
            "augment-events",
            "child dead of memory to its Event at the API server".to_owned(),
            "ms",
            &delays,
            Bound { p50: None, p99: Some(EVENT_P99_MS) },
        ),
        of_storm("time", "s", took, Bound::p50(f64::from(STORM[usual]) * STORM_KILL_MS / 1e3)),
        of_storm("counted wrongly", "kills", (now - f64::from(STORM[usual])).abs(), Bound::p50(0.5)),
        of_storm("Events written or changed", "requests", requests as f64, Bound::p50(REQUESTS)),
    ];
    // What was measured is not lost if a pod is slow to go.
    figures.iter().for_each(|figure| run.progress(&figure.line()));
    fixture.finish()?;
    Ok(figures)
}

/// Lets the kernel kill so many children in these cgroups together; in each one after the other.
fn storm(run: &Run<'_>, groups: &[Group], kills: u32) -> Result<(), Failure> {
    let of_each = kills / STORM_PODS;
    let [kills_text, each, held] =
        [of_each.into(), 2 * STORM_LIMIT, STORM_HELD].map(|number: u64| number.to_string());
    let arguments = ["oom-victims", &kills_text, &each, "--hold", &held, "--at-once"];
    let start = |group| Worker::start(run.context, Some(group), &arguments);
    let parents = groups.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..of_each {
        for parent in &parents {
            let _: Victim = parent.report(run.context.patiently(ONE_KILL))?;
        }
    }
    parents.into_iter().try_for_each(|parent| parent.finish(run.context.patiently(5)).map(drop))?;
    Ok(())
}

/// Starts a pod with a memory limit, and returns its container's cgroup.
fn start(run: &Run<'_>, fixture: &ClusterFixture<'_>, number: usize, limit: u64) -> Result<Group, Failure> {
    let name = format!("limited-{number}");
    let mut object = pod(&name, fixture.name(), WAIT);
    object["spec"]["containers"][0]["resources"] =
        json!({ "requests": { "cpu": "10m", "memory": "16Mi" }, "limits": { "memory": limit.to_string() } });
    fixture.apply(&object)?;
    let ready = fixture.wait_ready(&name)?;
    let uid = ready["metadata"]["uid"].as_str().unwrap_or_default();
    let id = container_id(&ready).as_str().and_then(|id| Some(id.split_once("://")?.1)).unwrap_or_default();
    let path = format!("/{}/kubepods/burstable/pod{uid}/{id}", run.context.prefix());
    let group = Group::new(Arc::clone(&run.context.layout), path);
    ensure!(group.procs_files().iter().all(|file| file.exists()), "{name} has no cgroup {}", group.path());
    Ok(group)
}

fn options(run: &Run<'_>, fixture: &ClusterFixture<'_>) -> AgentOptions {
    AgentOptions {
        state: Some(run.context.temp.join("kills-state")),
        runtime: Some(fixture.runtime().to_owned()),
        kubelet: format!("cgroupRoot: /{}\n", run.context.prefix()),
        section: "augment: {events: Enforce, protection: Off, memoryHigh: Off, cpuIdle: Off, cpuBurst: Off}"
            .to_owned(),
        arguments: arguments(fixture),
        ..AgentOptions::default()
    }
}

fn counted(agent: &Agent) -> Result<f64, Failure> {
    metric(agent, "nodewarden_augment_incidents_total", ("reason", "OOMKilling"))
}

/// The Events of the namespace, as they come.
struct Events(Watch);

impl Events {
    /// Milliseconds from `dead` until there was an Event that names the process; 0 if it came before.
    fn delay(&self, pid: u32, dead: Instant) -> Result<f64, Failure> {
        let wanted = format!("(pid {pid})");
        while let Some(change) = self.0.next_until(dead + MISSING) {
            let message = change.object["message"].as_str().unwrap_or_default();
            if is_of_a_kill(&change.object) && message.contains(&wanted) {
                return Ok(change.at.saturating_duration_since(dead).as_secs_f64() * 1e3);
            }
        }
        Err(Failure::Unexpected(format!("no Event names {wanted} within {MISSING:?}")))
    }

    /// How many writes of Events of kills have come since the last call of either.
    fn count(&self) -> usize {
        let changes = std::iter::from_fn(|| self.0.next_until(Instant::now()));
        changes.filter(|change| is_of_a_kill(&change.object)).count()
    }
}

fn is_of_a_kill(event: &Value) -> bool {
    event["reason"] == "OOMKilling"
}
