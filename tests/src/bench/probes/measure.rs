//! One measurement: the agent's metrics before and after, and bare calls to the runtime meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use super::bare::{self, Servers};
use super::histogram::Histogram;
use crate::bench::pods::PodsFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::probes::samples;
use crate::ensure;
use crate::fixture::{Agent, Cri, Sample};
use crate::harness::Failure;

const DELAYS: &str = "nodewarden_probe_start_delay_seconds";
const TOOK: &str = "prober_probe_duration_seconds_sum";
const TIMED: &str = "prober_probe_duration_seconds_count";
const RUNS: &str = "prober_probe_total";
const HANDLERS: [&str; 3] = ["httpGet", "tcpSocket", "exec"];
/// Interval of the bare calls. It makes a tenth of the load of the probes by command.
const BETWEEN: Duration = Duration::from_secs(1);

/// The result of a measurement.
#[derive(Debug, Clone)]
pub struct Minute {
    pub lasted: Duration,
    /// Start delays in seconds, by handler.
    pub delays: Vec<(&'static str, Histogram)>,
    /// Number of runs that did not succeed.
    pub failed: f64,
    /// CPU time of the agent.
    pub cpu: Duration,
    /// CPU time of a bare request and a bare connection.
    pub bare_pair: Duration,
    /// The agent's resident memory in bytes, without and with the mapped eBPF arrays.
    pub own: u64,
    pub resident: u64,
    /// Mean duration of probes by command in milliseconds.
    pub command_mean_ms: f64,
    /// Duration of each bare call in milliseconds.
    pub bare_ms: Vec<f64>,
}

/// Measures for `time`. Containers of pods whose names begin with `commands` have probes by command; the
/// others are probed at `servers`.
///
/// # Errors
/// The agent or the runtime does not answer.
pub fn minute(
    fixture: &PodsFixture<'_>,
    cri: &Cri,
    commands: &str,
    servers: &[Servers],
    time: Duration,
) -> Result<Minute, Failure> {
    let agent = fixture.agent();
    let containers: Vec<String> = cri
        .list_containers()?
        .into_iter()
        .filter(|container| {
            container.labels.get("io.kubernetes.pod.name").is_some_and(|pod| pod.starts_with(commands))
        })
        .map(|container| container.id)
        .collect();
    ensure!(!containers.is_empty(), "the runtime has no containers of pod {commands}");
    let (cpu, before, begun) = (agent.cpu_time()?, samples(agent)?, Instant::now());
    let (bare_pair, bare_ms) = thread::scope(|scope| {
        let pair = scope.spawn(|| bare::pair(servers, begun + time));
        let commands = bare_commands(cri, &containers, begun, time);
        (pair.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), commands)
    });
    let (bare_pair, bare_ms) = (bare_pair?, bare_ms?);
    thread::sleep((begun + time).saturating_duration_since(Instant::now()));
    let (lasted, after, cpu) = (begun.elapsed(), samples(agent)?, agent.cpu_time()? - cpu);
    let delays = HANDLERS.map(|handler| {
        let read = |samples: &[Sample]| Histogram::read(samples, DELAYS, ("handler", handler));
        (handler, read(&after).since(&read(&before)))
    });
    let added = |wanted: &dyn Fn(&Sample) -> bool| sum(&after, wanted) - sum(&before, wanted);
    let of_commands = |name: &'static str| {
        move |sample: &Sample| {
            sample.name == name && sample.labels.get("pod").is_some_and(|pod| pod.starts_with(commands))
        }
    };
    let failed = |sample: &Sample| {
        sample.name == RUNS && sample.labels.get("result").map(String::as_str) != Some("successful")
    };
    let (seconds, count) = (added(&of_commands(TOOK)), added(&of_commands(TIMED)));
    ensure!(count > 0.0, "no command was run by a probe in {lasted:?}");
    let (resident, mapped) = agent.resident_bytes()?;
    Ok(Minute {
        lasted,
        delays: delays.to_vec(),
        failed: added(&failed),
        cpu,
        own: resident.saturating_sub(mapped),
        resident,
        command_mean_ms: seconds / count * 1e3,
        bare_pair,
        bare_ms,
    })
}

/// Runs a command in a container every [`BETWEEN`]. Returns how long each took in milliseconds.
fn bare_commands(
    cri: &Cri,
    containers: &[String],
    begun: Instant,
    time: Duration,
) -> Result<Vec<f64>, Failure> {
    let mut took = Vec::new();
    for id in containers.iter().cycle() {
        let due = begun + BETWEEN * (took.len() as u32 + 1);
        if due > begun + time {
            break;
        }
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        let (code, output) = cri.exec(id, &["/bin/true"])?;
        ensure!(code == 0, "/bin/true ends with {code}: {output}");
        took.push(asked.elapsed().as_secs_f64() * 1e3);
    }
    Ok(took)
}

fn sum(samples: &[Sample], wanted: &dyn Fn(&Sample) -> bool) -> f64 {
    samples.iter().filter(|sample| wanted(sample)).map(|sample| sample.value).sum()
}

/// The number of pods with all containers ready.
///
/// # Errors
/// The agent does not answer.
pub fn ready_pods(agent: &Agent) -> Result<usize, Failure> {
    let answer = agent.get("/pods")?;
    ensure!(answer.status == 200, "/pods answers {}", answer.status);
    Ok(ListedPod::list(&answer.text())?.iter().filter(|pod| pod.is_up()).count())
}
