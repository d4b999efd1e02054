//! What the agent uses beside a kubelet with many pods that do nothing, and what the kubelet uses.

use std::time::{Duration, Instant};

use crate::bench::node::{Side, cpu_time};
use crate::bench::pods::CpuByThread;
use crate::bench::{Bench, Bound, Figure, Run};
use crate::e2e::cluster::beside::arguments;
use crate::e2e::cluster::node::NodeKind;
use crate::fixture::{Agent, AgentOptions, Cluster};
use crate::harness::Failure;

/// Default sizes, on a full and on a quick run.
const PODS: [usize; 2] = [100, 20];
const SECONDS: [u64; 2] = [180, 60];
/// Pause after a start, so that no work of it is measured.
const REST: Duration = Duration::from_secs(30);
/// The agent's bounds: CPU seconds a minute, and megabytes without mapped eBPF maps.
const CPU: f64 = 0.3;
const MEMORY_MB: f64 = 25.0;
/// What is switched on: as it is shipped, and everything.
const KINDS: [(&str, &str); 2] = [
    ("audited as shipped", ""),
    (
        "all enforced",
        "augment: {events: Enforce, protection: Enforce, memoryHigh: Enforce, cpuIdle: Enforce, \
         cpuBurst: Enforce, eviction: Enforce}",
    ),
];

pub struct AugmentCost;

impl Bench for AugmentCost {
    fn name(&self) -> &'static str {
        "augment-cost"
    }

    fn about(&self) -> &'static str {
        "CPU time and memory of mode augment beside a kubelet with idle pods"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        measure(run, super::control_plane(run)?.cluster())
    }
}

fn measure(run: &Run<'_>, cluster: &Cluster) -> Result<Vec<Figure>, Failure> {
    let usual = usize::from(run.quick);
    let pods = run.sizes.pods.unwrap_or(PODS[usual]);
    let time = Duration::from_secs(run.sizes.idle.unwrap_or(SECONDS[usual]));
    run.progress(&format!("the kubelet with {pods} pods that do nothing"));
    let mut side = Side::start(run.context, cluster, NodeKind::Kubelet)?;
    side.create_many(pods)?;
    std::thread::sleep(REST);
    let kubelet = side.fixture().runs_by().pid();
    let kubelet = kubelet.ok_or_else(|| Failure::Unexpected("the kubelet does not run".into()))?;
    let minutes = time.as_secs_f64() / 60.0;
    let before = cpu_time(kubelet)?;
    std::thread::sleep(time);
    let alone = (cpu_time(kubelet)? - before).as_secs_f64() / minutes;
    let figure = |what: &str, unit, value, bound| {
        Figure::one("augment-cost", format!("{what}, {pods} idle pods"), unit, value, bound)
    };
    let mut figures = vec![figure("CPU time of the kubelet alone", "s/min", alone, Bound::NONE)];
    for (kind, section) in KINDS {
        run.progress(&format!("nodewarden beside it, {kind}"));
        let agent = Agent::start(run.context, &options(run, &side, section))?;
        std::thread::sleep(REST);
        let threads = CpuByThread::of(agent.pid());
        let (begun, own, beside) = (Instant::now(), agent.cpu_time()?, cpu_time(kubelet)?);
        std::thread::sleep(time);
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        let own = (agent.cpu_time()? - own).as_secs_f64() / minutes;
        let beside = (cpu_time(kubelet)? - beside).as_secs_f64() / minutes;
        run.progress(&format!(
            "CPU by thread, ms a minute (wake-ups): {}",
            threads.since(agent.pid(), begun.elapsed())
        ));
        let (resident, mapped) = agent.resident_bytes()?;
        let memory = resident.saturating_sub(mapped) as f64 / 1e6;
        figures.extend([
            figure(&format!("CPU time, {kind}"), "s/min", own, Bound::p50(CPU)),
            figure(&format!("memory without eBPF maps, {kind}"), "MB", memory, Bound::p50(MEMORY_MB)),
            figure(&format!("CPU time of the kubelet beside it, {kind}"), "s/min", beside, Bound::NONE),
        ]);
    }
    // A kubelet takes half a minute and more for so many.
    side.delete_many(pods)?;
    side.finish()?;
    Ok(figures)
}

fn options(run: &Run<'_>, side: &Side<'_>, section: &str) -> AgentOptions {
    let fixture = side.fixture();
    AgentOptions {
        state: Some(run.context.temp.join("cost-state")),
        runtime: Some(fixture.runtime().to_owned()),
        kubelet: format!("cgroupRoot: /{}\n", run.context.prefix()),
        section: section.to_owned(),
        arguments: arguments(fixture),
        ..AgentOptions::default()
    }
}
