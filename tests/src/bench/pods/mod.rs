//! Benches of pods on a real container runtime: how fast one and many pods start and end, compared with bare
//! calls to the runtime in the same run, and what the agent uses while they run.

mod bare;
mod evidence;
mod fixture;
mod idle;
mod manifest;
mod many;
mod one;
mod rounds;

use std::time::Duration;

use super::statistics::quantile;
use super::{Bench, Bound, Figure, Run};
use crate::fixture::{PrivateContainerd, PrivateOptions, SmallDisk};
use crate::harness::Failure;
use evidence::Evidence;
use one::Series;

pub(super) use bare::{Bare, Keeps, NODE};
pub(super) use fixture::PodsFixture;
pub(super) use idle::{CpuByThread, resident};

pub struct Pods;

/// The agent's default `nodewarden.retentionSeconds` and a little more.
const RETENTION: Duration = Duration::from_secs(310);
/// Default sizes, on a full and on a quick run.
const PAIRS: [usize; 2] = [40, 10];
const MANY: [usize; 2] = [100, 20];
const IDLE_SECONDS: [u64; 2] = [60, 20];

/// How much the agent may add to the runtime's own time, p50 in milliseconds.
const ADDED_MS: f64 = 20.0;
/// A kubelet 1.35 on the reference machine, p50 in milliseconds: from manifest to process, and from removal
/// to the end of the cgroup.
const KUBELET_MS: [f64; 2] = [450.0, 610.0];
/// Size in bytes of the file system of the runtime, the agent and the manifests.
const DISK: u64 = 4 << 30;
/// How often the most pods are started and ended.
const ROUNDS: [usize; 2] = [3, 5];
/// With how many pods, or a quarter of the most, the best number of parallel calls is found.
const BEST: usize = 20;
/// Numbers of idle pods, and a tenth of the CPU seconds per minute that a kubelet 1.35 uses with them.
const IDLE: [(usize, f64); 3] = [(10, 0.095), (50, 0.22), (100, 0.40)];
/// How often the agent is started with the most pods, and how many seconds it may take until it is ready.
const STARTS: usize = 10;
const START_S: f64 = 0.3;
/// Bound of the memory with the most pods, in megabytes.
const MEMORY_MB: f64 = 30.0;

impl Bench for Pods {
    fn name(&self) -> &'static str {
        "pods"
    }

    fn about(&self) -> &'static str {
        "pods on a private containerd: start and end compared with bare CRI calls, 0 to 100 to 0, cost when idle"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let context = run.context;
        let usual = |of: [usize; 2]| of[usize::from(run.quick)];
        let pairs = run.sizes.pairs.unwrap_or(usual(PAIRS));
        let pods = run.sizes.pods.unwrap_or(usual(MANY));
        let seconds = run.sizes.idle.unwrap_or(IDLE_SECONDS[usize::from(run.quick)]);

        // The machine's own file system may take longer for each file the more were removed before (an ext4
        // without a journal does), so that equal bursts differ by a half. This one has a journal.
        let disk = SmallDisk::mount(context.temp.path(), &context.temp.join("disk.img"), DISK)
            .map_err(Failure::file(context.temp.path()))?;
        run.progress(&format!("everything is on {}", disk.kind()));
        // Dropped in reverse order: the agent first, because it would restart pods, and containerd after the
        // pods.
        let evidence = Evidence::new(context)?;
        let containerd = PrivateContainerd::start(PrivateOptions::for_test(context))?;
        let bare = Bare::new(context, containerd.socket())?;
        let mut fixture = PodsFixture::new(context, containerd.socket(), bare.reconcile())?;
        let mut figures = Vec::new();
        let time = Duration::from_secs(seconds);
        run.progress(&format!("no pods for {seconds} s"));
        let mut costs = vec![(0, idle::cost(run, &fixture, time)?)];

        // Small numbers of pods first, because starting and ending many pods changes the agent's memory and
        // leaves metrics of ended pods for a while.
        for fewer in IDLE.map(|(fewer, _)| fewer).into_iter().filter(|fewer| *fewer < pods) {
            run.progress(&format!("{fewer} pods idle for {seconds} s"));
            let (_, cost) = many::by_agent(&fixture, &evidence, fewer, || idle::cost(run, &fixture, time))?;
            costs.push((fewer, cost));
        }

        let [agent, calls] = one::pairs(run, &fixture, &bare, &evidence, pairs)?;
        figures.extend(of_one(&agent, &calls));

        let best = many::best(run, &bare, &evidence, (pods / 4).max(BEST).min(pods))?;
        let sizes = (pods, run.sizes.rounds.unwrap_or(usual(ROUNDS)));
        let rounds = rounds::measure(run, &fixture, &bare, &evidence, sizes, best)?;
        figures.extend(rounds.figures(pods, best));
        // The agent keeps metrics of removed cgroups for the retention time. Those of all the earlier pods
        // are not part of what idle pods cost.
        let kept = if run.quick { Duration::ZERO } else { RETENTION };
        run.progress(&format!("{pods} pods by the agent, idle for {} s", kept.as_secs() + seconds));
        let (_, cost) = many::by_agent(&fixture, &evidence, pods, || {
            std::thread::sleep(kept);
            idle::cost(run, &fixture, time)
        })?;

        run.progress(&format!("{STARTS} starts of the agent with {pods} pods"));
        let starts = many::starts(&mut fixture, &evidence, pods, STARTS)?;
        let name = format!("start of the agent to ready, {pods} pods");
        figures.push(Figure::of("pods", name, "s", &starts, Bound::p50(START_S)));

        costs.push((pods, cost));
        figures.extend(costs.into_iter().flat_map(|(pods, cost)| of_idle(pods, cost)));
        Ok(figures)
    }
}

fn of_one(agent: &Series, calls: &Series) -> Vec<Figure> {
    let figure = |name: &str, values: &[f64], bound| Figure::of("pods", name, "ms", values, bound);
    let added = |name: &str, agent: &[f64], calls: &[f64]| {
        let added = quantile(agent, 0.5) - quantile(calls, 0.5);
        Figure::one("pods", name, "ms", added, Bound::p50(ADDED_MS))
    };
    vec![
        figure("manifest to first instruction", &agent.up, Bound::p50(KUBELET_MS[0])),
        figure("bare calls to first instruction", &calls.up, Bound::NONE),
        added("added by the agent at the start, p50", &agent.up, &calls.up),
        figure("manifest removed to cgroup gone", &agent.down, Bound::p50(KUBELET_MS[1])),
        figure("bare calls to cgroup gone", &calls.down, Bound::NONE),
        added("added by the agent at the end, p50", &agent.down, &calls.down),
    ]
}

fn of_idle(pods: usize, cost: idle::Cost) -> Vec<Figure> {
    // The bound of the next larger number of pods in the table. Without pods the cost depends on the
    // machine's other cgroups, so there is no bound; the value helps to interpret the others.
    let known = IDLE.iter().find(|(most, _)| (1..=*most).contains(&pods));
    let bound = known.map_or(Bound::NONE, |(_, cpu)| Bound::p50(*cpu));
    let memory = known.map_or(Bound::NONE, |_| Bound::p50(MEMORY_MB));
    let one = |what: &str, unit, value, bound| {
        Figure::one("pods", format!("{what}, {pods} idle pods"), unit, value, bound)
    };
    vec![
        one("CPU time", "s/min", cost.cpu, bound),
        one("wake-ups of all threads", "/min", cost.wakes, Bound::NONE),
        one("memory without eBPF maps", "MB", cost.own as f64 / 1e6, memory),
        one("memory with mapped eBPF maps", "MB", cost.resident as f64 / 1e6, Bound::NONE),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_share_is_the_difference_of_the_medians() {
        let series = |up: &[f64], down: &[f64]| Series { up: up.to_vec(), down: down.to_vec() };
        let figures =
            of_one(&series(&[110.0, 115.0, 400.0], &[131.0]), &series(&[100.0, 99.0, 101.0], &[110.0]));
        let added: Vec<_> = figures.iter().filter(|f| f.name.contains("added")).collect();
        assert_eq!((added[0].p50, added[0].holds), (15.0, true));
        assert_eq!((added[1].p50, added[1].holds), (21.0, false));
    }

    #[test]
    fn the_bound_depends_on_the_number_of_pods() {
        let cost = idle::Cost { cpu: 0.3, wakes: 40.0, resident: 40_000_000, own: 29_000_000 };
        let holds = |pods| of_idle(pods, cost).iter().map(|f| f.holds).collect::<Vec<_>>();
        assert_eq!(holds(50), [false, true, true, true]);
        assert_eq!(holds(100), [true; 4]);
        assert_eq!(holds(500), [true; 4]);
        assert_eq!(of_idle(0, cost)[0].bound, Bound::NONE);
    }
}
