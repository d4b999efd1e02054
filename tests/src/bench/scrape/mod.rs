//! Measures a scrape of `/metrics/cadvisor` with many containers, and the agent's own memory and CPU time.

mod bare;

use std::time::Duration;

use super::statistics::median;
use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{Agent, AgentOptions, Group, Scraper, TestRoot, Worker};
use crate::harness::Failure;

pub struct Scrape;

const PATH: &str = "/metrics/cadvisor";
/// The number of containers that have a process, at most.
const RUNNING: usize = 100;
/// Pause after them: for five seconds the agent takes a cgroup that it has not read before for one in which
/// tasks may be stalled.
const REST: Duration = Duration::from_secs(7);
/// The first scrapes, and those after the pause, which are not measured: files are opened, and those of
/// cgroups in which nothing runs are closed again.
const WARM_UP: usize = 3;
/// Interval of the scrapes: longer than the agent shares a reading between callers, so that each scrape reads
/// all files.
const BETWEEN: Duration = Duration::from_millis(60);

impl Bench for Scrape {
    fn name(&self) -> &'static str {
        "scrape"
    }

    fn about(&self) -> &'static str {
        "/metrics/cadvisor with 100 and 1,000 containers; the agent's memory, and its CPU time when idle"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let mut figures = with_containers(run, 100, 3.0)?;
        figures.extend(with_containers(run, 1000, 15.0)?);
        Ok(figures)
    }
}

/// `goal_ms`: where the median of a scrape is wanted.
fn with_containers(run: &Run<'_>, containers: usize, goal_ms: f64) -> Result<Vec<Figure>, Failure> {
    let context = run.context;
    run.progress(&format!("{containers} containers"));
    let root = TestRoot::named(context, &format!("-{containers}"))?;
    let groups = make(&root, containers)?;
    let _sleepers = groups
        .iter()
        .take(RUNNING)
        .map(|group| Worker::start(context, Some(group), &["sleep"]))
        .collect::<Result<Vec<_>, _>>()?;
    let agent = Agent::start(context, &AgentOptions::default())?;

    let reading = bare::reading(&groups)?;
    let mut figures = scrapes(run, &agent, &root, containers, (goal_ms, median(&reading)))?;
    let name = format!("bare: reading CPU time and memory of {containers} containers");
    figures.push(Figure::of("scrape", name, "ms", &reading, Bound::NONE));
    figures.extend(memory(&agent, containers)?);
    if containers == 100 {
        figures.push(idle(run, &agent, containers)?);
    }
    Ok(figures)
}

/// Creates Burstable pods with one container each, with the names that the kubelet's cgroupfs driver uses.
fn make(root: &TestRoot, containers: usize) -> Result<Vec<Group>, Failure> {
    let burstable = root.child("kubepods")?.child("burstable")?;
    (0..containers)
        .map(|i| {
            let pod = burstable.child(&format!("pod{i:08x}-1111-4222-8333-{containers:012x}"))?;
            let container = pod.child(&format!("{:064x}", 0xabc0_0000 + i))?;
            container.limit_memory(256 << 20)?;
            Ok(container)
        })
        .collect()
}

/// `reading_ms`: what reading alone takes. The floor is that and what sending the same text takes, one after
/// the other.
fn scrapes(
    run: &Run<'_>,
    agent: &Agent,
    root: &TestRoot,
    containers: usize,
    (goal_ms, reading_ms): (f64, f64),
) -> Result<Vec<Figure>, Failure> {
    let count = if run.quick { 20 } else { 50 };
    let (mut times, mut scraper) = (Vec::new(), Scraper::default());
    let mut before = Duration::ZERO;
    for i in 0..count + 2 * WARM_UP {
        match i {
            WARM_UP => std::thread::sleep(REST),
            i if i == 2 * WARM_UP => before = agent.cpu_time()?,
            _ => {}
        }
        let response = agent.scrape(&mut scraper, PATH)?;
        ensure!(response.is_ok(), "{PATH} answers {}", response.parsed()?.status);
        if i >= 2 * WARM_UP {
            times.push(response.took.as_secs_f64() * 1e3);
        }
        std::thread::sleep(BETWEEN);
    }
    let used = (agent.cpu_time()? - before).as_secs_f64() * 1e3 / count as f64;
    let body = agent.scrape(&mut scraper, PATH)?.parsed()?.text();
    let series = body.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count();
    let ours = body
        .lines()
        .filter(|line| {
            line.starts_with("container_memory_usage_bytes{") && line.contains(root.group().path())
        })
        .filter(|line| line.contains("/pod") && line.contains("abc"))
        .count();
    ensure!(ours >= containers, "only {ours} of {containers} containers are in the answer");
    let name = |what: &str| format!("{what}, {containers} containers");
    let sending = bare::sending(body.as_bytes())?;
    let floor = [reading_ms + median(&sending)];
    Ok(vec![
        Figure::of("scrape", name("GET /metrics/cadvisor"), "ms", &times, Bound::NONE)
            .with_goal(Bound::p50(goal_ms), &floor),
        Figure::of("scrape", name("bare: sending the same text"), "ms", &sending, Bound::NONE),
        Figure::one("scrape", name("CPU time of a scrape"), "ms", used, Bound::NONE),
        Figure::one("scrape", name("size"), "kB", body.len() as f64 / 1e3, Bound::NONE),
        Figure::one("scrape", name("series"), "series", series as f64, Bound::NONE),
    ])
}

/// Figures of resident memory without the mapped eBPF maps, and of the maps.
fn memory(agent: &Agent, containers: usize) -> Result<Vec<Figure>, Failure> {
    let (resident, mapped) = agent.resident_bytes()?;
    let maps = agent.client()?.status()?.map_bytes;
    let name = |what: &str| format!("{what}, {containers} containers");
    let own = (resident - mapped) as f64 / 1e6;
    Ok(vec![
        Figure::one("scrape", name("memory without maps"), "MB", own, Bound::p50(30.0)),
        Figure::one("scrape", name("mapped eBPF maps, resident"), "MB", mapped as f64 / 1e6, Bound::NONE),
        Figure::one("scrape", name("eBPF maps, in the kernel"), "MB", maps as f64 / 1e6, Bound::NONE),
    ])
}

/// Measures CPU time while there are no requests.
fn idle(run: &Run<'_>, agent: &Agent, containers: usize) -> Result<Figure, Failure> {
    let seconds = if run.quick { 20 } else { 60 };
    run.progress(&format!("idle for {seconds} s"));
    let before = agent.cpu_time()?;
    std::thread::sleep(Duration::from_secs(seconds));
    let used = (agent.cpu_time()? - before).as_secs_f64() * 60.0 / seconds as f64;
    let name = format!("idle CPU time, {containers} containers");
    Ok(Figure::one("scrape", name, "s/min", used, Bound::p50(0.4)))
}
