//! Benches of many probes on a real container runtime: how far behind schedule they start, what they cost the
//! agent, and how long a command in a container takes compared with a bare call to the runtime at the same
//! time.

mod bare;
mod histogram;
mod manifest;
mod measure;

use std::time::{Duration, Instant};

use super::pods::{NODE, PodsFixture};
use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{Cri, PrivateContainerd, PrivateOptions, ServerProgram};
use crate::harness::Failure;
use measure::Minute;

pub struct Probes;

/// Default number of pods with servers, on a full and on a quick run.
const PODS: [usize; 2] = [20, 4];
/// Containers of each of these pods.
const CONTAINERS: usize = 50;
/// There is one probe by command for every 20 probes by HTTP and TCP. It runs every ten seconds, and a
/// container has two of them.
const COMMANDS_FOR: usize = 10;
/// Containers of a pod that is probed by commands.
const COMMANDED: usize = 10;
const SECONDS: [u64; 2] = [60, 20];
/// Bound of the delay of probes, p99 in milliseconds.
const DELAY_P99_MS: f64 = 20.0;
/// The default interval of the agent's full reconcile.
const RECONCILE: Duration = Duration::from_secs(60);
/// Time-out for starting the pods in seconds, in all and per pod. A container starts in a quarter of a second
/// on two otherwise idle cores.
const UP_S: u64 = 30;
const UP_S_PER_POD: u64 = 30;
/// Time-out for ending all pods, in seconds.
const CLEAR_TIMEOUT_S: u64 = 60;
/// Where the agent's CPU time is wanted, in seconds a minute, with so many probes by HTTP and as many by TCP
/// a second.
const GOAL_CPU: Bound = Bound::p50(6.0);
const GOAL_SERVERS: usize = 1000;
/// Pause before the measurement, until the work of starting the pods is over.
const REST: Duration = Duration::from_secs(10);

impl Bench for Probes {
    fn name(&self) -> &'static str {
        "probes"
    }

    fn about(&self) -> &'static str {
        "1,000 HTTP and 1,000 TCP probes a second and 100 commands in 10 s: delay behind schedule, the agent's cost"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let context = run.context;
        let pods = run.sizes.pods.unwrap_or(PODS[usize::from(run.quick)]);
        let seconds = run.sizes.idle.unwrap_or(SECONDS[usize::from(run.quick)]);
        // Dropped in reverse order: the agent first, because it would restart pods, and containerd after the
        // pods.
        let containerd = PrivateContainerd::start(PrivateOptions::for_test(context))?;
        let fixture = PodsFixture::new(context, containerd.socket(), RECONCILE)?;
        let cri = Cri::connect(containerd.socket())?;
        let mut program = ServerProgram::new(context)?;
        manifest::pause(&program)?;
        let own_network = containerd.no_network().is_none();
        if let Some(why) = containerd.no_network() {
            run.progress(&format!("pods are on the machine's network: {why}"));
        }

        let (mut manifests, mut ports_of) = (Vec::new(), Vec::new());
        for n in 0..pods {
            let ports = [program.port()?, program.port()?];
            ports_of.push((manifest::served_name(n), ports));
            manifests.push(manifest::served(&program, n, ports, CONTAINERS, own_network));
        }
        let commands = pods * CONTAINERS / COMMANDS_FOR;
        let containers = commands.div_ceil(2);
        let mut later: Vec<_> = (0..containers / COMMANDED)
            .map(|n| manifest::commands(&program, n, COMMANDED, own_network))
            .collect();
        if !containers.is_multiple_of(COMMANDED) {
            later.push(manifest::commands(&program, later.len(), containers % COMMANDED, own_network));
        }
        let all = manifests.len() + later.len();
        run.progress(&format!(
            "{} containers of {all} pods begin on node {NODE}",
            pods * CONTAINERS + containers
        ));
        let begun = Instant::now();
        fixture.put(&manifests)?;
        let time = Duration::from_secs(seconds);
        // containerd 1.6 gets stuck at commands in a container while a thousand containers start, so these
        // pods start later.
        let ready = until_ready(run, &fixture, manifests.len()).and_then(|()| {
            fixture.put(&later)?;
            until_ready(run, &fixture, all)
        });
        let measured = ready.and_then(|()| {
            run.progress(&format!(
                "all ready after {:.0} s; measured for {seconds} s",
                begun.elapsed().as_secs_f64()
            ));
            std::thread::sleep(REST);
            let servers = bare::servers(fixture.agent(), &ports_of, own_network)?;
            measure::minute(&fixture, &cri, manifest::COMMANDS, &servers, time)
        });
        // Done after a failure too: running pods would delay dropping the fixtures.
        run.progress("the pods end");
        let cleared = fixture.clear(run.context.patiently(CLEAR_TIMEOUT_S));
        let minute = measured?;
        if let Err(failure) = cleared {
            // The measurement is valid nevertheless. Ending containerd removes what is left.
            run.progress(&format!("the runtime does not end a thousand containers in time: {failure}"));
        }
        Ok(figures(&minute, pods * CONTAINERS, containers * 2))
    }
}

/// Time-out for starting this many pods.
fn limit(run: &Run<'_>, pods: usize) -> Duration {
    run.context.patiently(UP_S + UP_S_PER_POD * pods as u64)
}

fn until_ready(run: &Run<'_>, fixture: &PodsFixture<'_>, pods: usize) -> Result<(), Failure> {
    let limit = limit(run, pods);
    let begun = Instant::now();
    let mut last = 0;
    loop {
        let ready = measure::ready_pods(fixture.agent())?;
        if ready == pods {
            return Ok(());
        }
        if ready > last {
            run.progress(&format!(
                "{ready} of {pods} pods are ready after {:.0} s",
                begun.elapsed().as_secs_f64()
            ));
            last = ready;
        }
        ensure!(begun.elapsed() < limit, "only {ready} of {pods} pods are ready after {limit:?}");
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The figures of `servers` probes each by HTTP and TCP every second, and `commands` commands every ten
/// seconds.
fn figures(minute: &Minute, servers: usize, commands: usize) -> Vec<Figure> {
    let one = |name: String, unit, value, bound| Figure::one("probes", name, unit, value, bound);
    let seconds = minute.lasted.as_secs_f64();
    let mut figures = Vec::new();
    for (handler, delays) in &minute.delays {
        let quantiles =
            [0.5, 0.99].map(|q| delays.quantile(q).map_or(f64::INFINITY, |seconds| seconds * 1e3));
        let (probes, per_second) = match *handler {
            "exec" => (commands, commands as f64 / 10.0),
            _ => (servers, servers as f64),
        };
        let bound = Bound { p50: None, p99: Some(DELAY_P99_MS) };
        let name = format!("{handler}: begun behind schedule, {probes} probes");
        figures.push(Figure::summary("probes", name, "ms", quantiles, delays.count() as usize, bound));
        // Up to one in a hundred scheduled times may be just outside the measured time.
        let missed = (per_second * seconds - delays.count()) / (per_second * seconds) * 100.0;
        figures.push(one(
            format!("{handler}: points of the grid without a run"),
            "%",
            missed.max(0.0),
            Bound::p50(2.0),
        ));
    }
    let mean = |took: &[f64]| took.iter().sum::<f64>() / (took.len().max(1) as f64);
    let cpu = minute.cpu.as_secs_f64() * 60.0 / seconds;
    let cpu = one("agent's CPU time".to_owned(), "s/min", cpu, Bound::NONE);
    let bare_cpu = minute.bare_pair.as_secs_f64() * servers as f64 * 60.0;
    figures.extend([
        one("runs that failed or could not be made".to_owned(), "runs", minute.failed, Bound::p50(1.0)),
        if servers >= GOAL_SERVERS { cpu.with_goal(GOAL_CPU, &[bare_cpu]) } else { cpu },
        one(
            format!("the same {servers} requests and connections a second, bare"),
            "s/min",
            bare_cpu,
            Bound::NONE,
        ),
        one("agent's memory without eBPF maps".to_owned(), "MB", minute.own as f64 / 1e6, Bound::NONE),
        one(
            "agent's memory with mapped eBPF maps".to_owned(),
            "MB",
            minute.resident as f64 / 1e6,
            Bound::NONE,
        ),
        one("command by a probe, mean".to_owned(), "ms", minute.command_mean_ms, Bound::NONE),
        one("command by bare ExecSync, mean".to_owned(), "ms", mean(&minute.bare_ms), Bound::NONE),
    ]);
    figures.push(Figure::of("probes", "command by bare ExecSync", "ms", &minute.bare_ms, Bound::NONE));
    figures
}

#[cfg(test)]
mod tests {
    use super::histogram::Histogram;
    use super::*;

    #[test]
    fn late_or_missing_probes_miss_their_bounds() {
        let delays = |counts: &[(f64, f64)]| Histogram::of(counts.to_vec());
        let minute = |http, failed| Minute {
            lasted: Duration::from_secs(60),
            delays: vec![("httpGet", http)],
            failed,
            cpu: Duration::from_secs(6),
            bare_pair: Duration::from_micros(70),
            own: 1,
            resident: 2,
            command_mean_ms: 30.0,
            bare_ms: vec![20.0, 40.0],
        };
        let holds = |minute: Minute| figures(&minute, 10, 1).iter().map(|f| f.holds).collect::<Vec<_>>();
        let good = delays(&[(0.001, 590.0), (0.01, 600.0), (f64::INFINITY, 600.0)]);
        assert!(holds(minute(good.clone(), 0.0)).iter().all(|holds| *holds));
        let late = delays(&[(0.001, 500.0), (0.05, 600.0), (f64::INFINITY, 600.0)]);
        assert_eq!(holds(minute(late, 0.0))[..3], [false, true, true]);
        let missing = delays(&[(0.001, 500.0), (f64::INFINITY, 500.0)]);
        assert_eq!(holds(minute(missing, 0.0))[..3], [true, false, true]);
        assert_eq!(holds(minute(good, 1.0))[..3], [true, true, false]);
        assert_eq!(holds(minute(delays(&[]), 0.0))[..3], [false, false, true]);
    }
}
