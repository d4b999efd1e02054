//! What an agent uses with a number of pods.

use std::path::PathBuf;
use std::time::Duration;

use super::bare::{self, Least};
use super::churn::{self, Churn};
use super::pressure::{self, Pressure};
use crate::bench::Run;
use crate::bench::pods::CpuByThread;
use crate::e2e::stand_in::fixture::{CONTAINERS, Scale};
use crate::ensure;
use crate::fixture::{Agent, RuntimeFaults, Scraper};
use crate::harness::Failure;

/// Names of figures that have bounds.
pub const MEMORY: &str = "memory without eBPF maps";
pub const IDLE_CPU: &str = "idle CPU";
pub const WAKES: &str = "wake-ups when idle";
pub const DESCRIPTORS: &str = "open descriptors";
pub const START: &str = "start of all pods";
pub const START_CPU: &str = "CPU for the start";
pub const BARE_START: &str = "start by bare calls";
pub const BARE_CPU: &str = "CPU for bare calls and runtime";
/// No doing of the agent's: how it grows is not judged.
pub const FAULTS: &str = "waits for dropped pages of code when idle";
pub const READY: &str = "start of the agent to ready";
/// Pause after the start, in which the agent has time to finish.
const REST: Duration = Duration::from_secs(10);
/// How long after the beginning of the idle time wake-ups are counted: in the first minute the agent compares
/// what the start has left, which is no time in which nothing changes.
const SETTLING: Duration = Duration::from_secs(60);
/// Scrapes, and those before that are a warm-up.
const SCRAPES: usize = 20;
const WARM_UP: usize = 3;
/// Interval of the scrapes: longer than the agent shares a reading between callers.
const BETWEEN: Duration = Duration::from_millis(60);
/// Interval of a Prometheus' scrapes, and how many of them are measured on a full and on a quick run.
const USUAL: Duration = Duration::from_secs(15);
const USUAL_SCRAPES: [usize; 2] = [8, 2];
/// Limits in seconds for starting and ending all pods.
const LIMIT: u64 = 300;

/// The figures of one number of pods.
pub struct Measured {
    /// Seconds until every container ran.
    pub start_s: f64,
    /// The agent's CPU seconds for that.
    pub start_cpu_s: f64,
    /// The same by bare calls.
    pub least: Least,
    /// Resident without the eBPF maps, after the idle time, and right after scrapes 15 s apart.
    pub memory_mb: f64,
    pub scraped_memory_mb: f64,
    /// How long that was, and CPU seconds a minute.
    pub idle_seconds: u64,
    pub idle_cpu: f64,
    /// How often a thread of the agent gave the CPU up by itself, a minute, from the second one on, but for
    /// `faults`: how often one waited for a page of its code from the disk, which the machine had dropped
    /// from its page cache.
    pub wakes: f64,
    pub faults: f64,
    /// Calls to the runtime a minute.
    pub calls: f64,
    /// The agent's CPU time for a scrape.
    pub scrape_cpu_ms: f64,
    pub scrapes_ms: Vec<f64>,
    /// The agent's CPU time for 15 s of which one scrape is a part, and how long that scrape took: what
    /// changes seldom is read again too.
    pub usual_scrape_cpu_ms: f64,
    pub usual_scrapes_ms: Vec<f64>,
    pub descriptors: f64,
    pub threads: f64,
    pub churn: Churn,
    /// Seconds from the start of another agent until it was ready, while all pods ran.
    pub ready_s: f64,
    /// Milliseconds to the kill and to the death of a pod that uses up memory, one value a round.
    pub pressure: Pressure,
}

impl Measured {
    /// Every figure with one value: name, unit and value.
    pub fn values(&self) -> [(&'static str, &'static str, f64); 17] {
        [
            (START, "s", self.start_s),
            (START_CPU, "s", self.start_cpu_s),
            (BARE_START, "s", self.least.start_s),
            (BARE_CPU, "s", self.least.cpu_s),
            (MEMORY, "MB", self.memory_mb),
            ("memory right after scrapes", "MB", self.scraped_memory_mb),
            (IDLE_CPU, "s/min", self.idle_cpu),
            (WAKES, "/min", self.wakes),
            (FAULTS, "/min", self.faults),
            ("calls to the runtime when idle", "/min", self.calls),
            ("CPU for a scrape", "ms", self.scrape_cpu_ms),
            ("CPU for 15 s with a scrape", "ms", self.usual_scrape_cpu_ms),
            ("CPU for a pod that comes and goes", "ms", self.churn.cpu_ms),
            (READY, "s", self.ready_s),
            ("last of ten pods a second to all settled", "s", self.churn.settled_s),
            (DESCRIPTORS, "", self.descriptors),
            ("threads", "", self.threads),
        ]
    }
}

/// Resident memory without the eBPF maps, in MB.
fn memory_mb(agent: &Agent) -> Result<f64, Failure> {
    let (resident, mapped) = agent.resident_bytes()?;
    Ok((resident - mapped) as f64 / 1e6)
}

/// Starts so many pods, measures, and ends them.
pub fn measure(run: &Run<'_>, pods: usize, idle_seconds: u64) -> Result<Measured, Failure> {
    let limit = run.context.patiently(LIMIT);
    run.progress(&format!("{pods} pods: start by bare calls"));
    let least = bare::start(run, pods)?;
    run.progress(&format!("{pods} pods: start"));
    let mut scale = Scale::new(run.context, &pods.to_string(), RuntimeFaults::default())?;
    let agent = scale.agent();
    let before = agent.cpu_time()?;
    let start_s = scale.start(pods, limit)?.as_secs_f64();
    let start_cpu_s = (agent.cpu_time()? - before).as_secs_f64();
    std::thread::sleep(REST);

    run.progress(&format!("{pods} pods: idle for {idle_seconds} s"));
    let (threads, calls) = (CpuByThread::of(agent.pid()), calls(&scale)?);
    let before = agent.cpu_time()?;
    let idle = Duration::from_secs(idle_seconds);
    let settling = SETTLING.min(idle / 2);
    std::thread::sleep(settling);
    let settled = CpuByThread::of(agent.pid());
    std::thread::sleep(idle.saturating_sub(settling));
    let minutes = idle.as_secs_f64() / 60.0;
    let idle_cpu = (agent.cpu_time()? - before).as_secs_f64() / minutes;
    let (wakes, faults) = settled.wakes_since(agent.pid());
    let quiet = idle.saturating_sub(settling).as_secs_f64() / 60.0;
    let [wakes, faults] = [wakes, faults].map(|count| count as f64 / quiet);
    let by_thread = threads.since(agent.pid(), idle);
    let calls = self::calls(&scale)?.saturating_sub(calls) as f64 / minutes;
    run.progress(&format!("{pods} pods: CPU by thread, ms a minute (wake-ups): {by_thread}"));
    // From outside: a request would have the agent map code that it does not use when it is idle.
    let memory_mb = memory_mb(agent)?;
    let count = |kind: &str| count(agent.pid(), kind);
    let (descriptors, threads) = (count("fd")?, count("task")?);

    run.progress(&format!("{pods} pods: scrapes"));
    let (scrapes_ms, scrape_cpu_ms) = scrapes(&scale, pods, (SCRAPES, BETWEEN))?;
    let usual = USUAL_SCRAPES[usize::from(run.quick)];
    let (usual_scrapes_ms, usual_scrape_cpu_ms) = scrapes(&scale, pods, (usual, USUAL))?;
    let scraped_memory_mb = self::memory_mb(scale.agent())?;
    run.progress(&format!("{pods} pods: others come and go"));
    let churn = churn::churn(run, &scale, pods)?;
    run.progress(&format!("{pods} pods: another agent, and a pod that uses up memory"));
    let mut stage = pressure::Stage::new(run.context)?;
    let ready_s = scale.restart(&stage.kubelet())?.as_secs_f64();
    let pressure = stage.rounds(run, &scale, pods)?;
    run.progress(&format!("{pods} pods: end"));
    scale.clear(limit)?;
    Ok(Measured {
        start_s,
        start_cpu_s,
        least,
        memory_mb,
        scraped_memory_mb,
        idle_seconds,
        idle_cpu,
        wakes,
        faults,
        calls,
        scrape_cpu_ms,
        scrapes_ms,
        usual_scrape_cpu_ms,
        usual_scrapes_ms,
        descriptors,
        threads,
        churn,
        ready_s,
        pressure,
    })
}

/// So many scrapes with a time between them: how long each took, and the agent's CPU time for one, both in
/// milliseconds.
fn scrapes(
    scale: &Scale<'_>,
    pods: usize,
    (count, between): (usize, Duration),
) -> Result<(Vec<f64>, f64), Failure> {
    let agent = scale.agent();
    let (mut times, mut before) = (Vec::new(), Duration::ZERO);
    let mut scraper = Scraper::default();
    for number in 0..WARM_UP + count {
        if number == WARM_UP {
            std::thread::sleep(REST);
            before = agent.cpu_time()?;
        }
        let response = agent.scrape(&mut scraper, "/metrics/cadvisor")?;
        ensure!(response.is_ok(), "/metrics/cadvisor answers {}", response.parsed()?.status);
        if number >= WARM_UP {
            times.push(response.took.as_secs_f64() * 1e3);
        } else if number == 0 {
            let text = response.parsed()?.text();
            let of_pods = |line: &&str| {
                line.starts_with("container_memory_usage_bytes{") && line.contains("pod=\"pod-")
            };
            let found = text.lines().filter(of_pods).count();
            let wanted = pods * CONTAINERS;
            ensure!(found >= wanted, "{found} of {wanted} containers are in the answer");
        }
        std::thread::sleep(if number < WARM_UP { BETWEEN } else { between });
    }
    let cpu = (agent.cpu_time()? - before).as_secs_f64() * 1e3 / count as f64;
    Ok((times, cpu))
}

fn calls(scale: &Scale<'_>) -> Result<u64, Failure> {
    Ok(scale.runtime().notes()?.calls.values().sum())
}

/// The entries of a directory of the process: its descriptors or threads.
fn count(pid: u32, kind: &str) -> Result<f64, Failure> {
    let path = PathBuf::from(format!("/proc/{pid}/{kind}"));
    Ok(std::fs::read_dir(&path).map_err(Failure::file(&path))?.count() as f64)
}
