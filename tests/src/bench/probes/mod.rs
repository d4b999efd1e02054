//! Probes at scale on a real container runtime: how far behind schedule they begin, what they cost the agent, and what a
//! command in a container takes beside the bare call to the runtime in the same minute.

mod histogram;
mod manifest;
mod measure;

use std::time::{Duration, Instant};

use super::pods::{NODE, Site};
use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{Cri, PrivateContainerd, PrivateOptions, ServerProgram, link_name};
use crate::harness::Failure;
use measure::Minute;

pub struct Probes;

/// Pods with servers unless told otherwise, on a record and on a quick look.
const PODS: [usize; 2] = [20, 4];
/// Containers of each.
const CONTAINERS: usize = 50;
/// Of every twenty probes by http and by tcp there is one by a command, each of ten seconds; two of them a container.
const COMMANDS_FOR: usize = 10;
/// Containers of a pod that is probed by commands.
const COMMANDED: usize = 10;
const SECONDS: [u64; 2] = [60, 20];
/// A probe may begin so much behind schedule.
const DELAY_P99_MS: f64 = 20.0;
/// How often the agent compares everything, by default.
const RECONCILE: Duration = Duration::from_secs(60);
/// A container begins in a quarter of a second on two cores, if nothing else goes on.
const UP_S: u64 = 30;
const UP_S_PER_POD: u64 = 30;
/// For all pods to end.
const PATIENCE_S: u64 = 60;
/// Before it is measured: what begins with the pods is over.
const REST: Duration = Duration::from_secs(10);

impl Bench for Probes {
    fn name(&self) -> &'static str {
        "probes"
    }

    fn about(&self) -> &'static str {
        "1,000 http and 1,000 tcp probes a second and 100 commands in 10 s: delay behind schedule, the agent's cost"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let context = run.context;
        let pods = run.sizes.pods.unwrap_or(PODS[usize::from(run.quick)]);
        let seconds = run.sizes.idle.unwrap_or(SECONDS[usize::from(run.quick)]);
        // Dropped from the last on: the agent, which would make pods anew, and containerd after what runs in it.
        let options = PrivateOptions {
            folder: context.temp.join("containerd"),
            link: link_name(context.runner()),
            log: context.temp.join("containerd.txt"),
            timeout: context.patiently(30),
        };
        let containerd = PrivateContainerd::start(options)?;
        let site = Site::new(context, containerd.socket(), RECONCILE)?;
        let cri = Cri::connect(containerd.socket())?;
        let mut program = ServerProgram::new(context)?;
        manifest::pause(&program)?;
        let own_network = containerd.no_network().is_none();
        if let Some(why) = containerd.no_network() {
            run.progress(&format!("pods are on the machine's network: {why}"));
        }

        let mut manifests = Vec::new();
        for n in 0..pods {
            let ports = [program.port()?, program.port()?];
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
        site.put(&manifests)?;
        let time = Duration::from_secs(seconds);
        // Commands in a container while a thousand begin beside it are what containerd 1.6 gets stuck at.
        let ready = until_ready(run, &site, manifests.len()).and_then(|()| {
            site.put(&later)?;
            until_ready(run, &site, all)
        });
        let measured = ready.and_then(|()| {
            run.progress(&format!(
                "all ready after {:.0} s; measured for {seconds} s",
                begun.elapsed().as_secs_f64()
            ));
            std::thread::sleep(REST);
            measure::minute(&site, &cri, manifest::COMMANDS, time)
        });
        // Also after a failure: what runs would be in the way of all that is dropped.
        run.progress("the pods end");
        let cleared = site.clear(run.context.patiently(PATIENCE_S));
        let minute = measured?;
        if let Err(failure) = cleared {
            // What was measured stands; containerd's end takes what is left with it.
            run.progress(&format!("the runtime does not end a thousand containers in time: {failure}"));
        }
        Ok(figures(&minute, pods * CONTAINERS, containers * 2))
    }
}

/// For all of so many pods to begin.
fn limit(run: &Run<'_>, pods: usize) -> Duration {
    run.context.patiently(UP_S + UP_S_PER_POD * pods as u64)
}

fn until_ready(run: &Run<'_>, site: &Site<'_>, pods: usize) -> Result<(), Failure> {
    let limit = limit(run, pods);
    let begun = Instant::now();
    let mut last = 0;
    loop {
        let ready = measure::ready_pods(site.agent())?;
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

/// Of so many probes by http and as many by tcp every second, and so many commands every ten seconds.
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
        // A point in a hundred of the grid may lie just outside of the measured time.
        let missed = (per_second * seconds - delays.count()) / (per_second * seconds) * 100.0;
        figures.push(one(
            format!("{handler}: points of the grid without a run"),
            "%",
            missed.max(0.0),
            Bound::p50(2.0),
        ));
    }
    let mean = |took: &[f64]| took.iter().sum::<f64>() / (took.len().max(1) as f64);
    figures.extend([
        one("runs that failed or could not be made".to_owned(), "runs", minute.failed, Bound::p50(1.0)),
        one("agent's CPU time".to_owned(), "s/min", minute.cpu.as_secs_f64() * 60.0 / seconds, Bound::NONE),
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
    fn a_probe_that_is_late_or_missing_breaks_its_bound() {
        let delays = |counts: &[(f64, f64)]| Histogram::of(counts.to_vec());
        let minute = |http, failed| Minute {
            lasted: Duration::from_secs(60),
            delays: vec![("httpGet", http)],
            failed,
            cpu: Duration::from_secs(6),
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
