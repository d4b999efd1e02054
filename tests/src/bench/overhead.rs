//! Measures what the kernel programs cost under a storm of forks and context switches.

use std::collections::BTreeMap;
use std::time::Duration;

use nodewarden_proto::nodewarden::v1::ProgramCost;

use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{Agent, AgentOptions, AttachPoint, Client, Group, TestRoot, TinyProgram, Worker};
use crate::harness::{Context, Failure};
use crate::worker::report::Took;

pub struct Overhead;

/// The hooks that a storm of forks and switches passes.
const HOOKS: [&str; 3] = ["sched_switch", "sched_process_fork", "sched_process_exit"];
/// Where the slow-down of the storm is wanted, in percent, and what `sched_switch` takes above an empty
/// program, in nanoseconds.
const SLOW_DOWN: Bound = Bound::p50(2.0);
const SCHED_SWITCH: Bound = Bound::p50(40.0);
/// A mean over fewer runs is not meaningful.
const FEWEST_RUNS: u64 = 1000;

impl Bench for Overhead {
    fn name(&self) -> &'static str {
        "overhead"
    }

    fn about(&self) -> &'static str {
        "slow-down of a fork and switch storm by the agent, and each program's run time above an empty program"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let root = TestRoot::new(run.context)?;
        let group = root.child("storm")?;
        let storm = Storm::calibrated(run, &group)?;
        let mut figures = slow_down(run, &storm, &group)?;
        figures.extend(program_costs(run, &storm, &group)?);
        Ok(figures)
    }
}

/// The work that is measured, fixed for this run.
struct Storm {
    pairs: String,
    rounds: String,
    forks: String,
}

impl Storm {
    fn new(rounds: u32) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            pairs: (2 * cpus).to_string(),
            rounds: rounds.to_string(),
            forks: (rounds / 20).max(1).to_string(),
        }
    }

    /// An amount of work that takes about 2 s (0.7 s on a quick run) on this machine without an agent.
    fn calibrated(run: &Run<'_>, group: &Group) -> Result<Self, Failure> {
        let target = if run.quick { 0.7 } else { 2.0 };
        let mut rounds = 2000;
        for _ in 0..3 {
            let took = Self::new(rounds).once(run.context, group)?.as_secs_f64();
            rounds = (f64::from(rounds) * target / took.max(0.001)).clamp(100.0, 10_000_000.0) as u32;
        }
        let storm = Self::new(rounds);
        run.progress(&format!("{} pairs of {rounds} rounds, {} forks", storm.pairs, storm.forks));
        Ok(storm)
    }

    fn once(&self, context: &Context, group: &Group) -> Result<Duration, Failure> {
        let arguments = ["storm", "--pairs", &self.pairs, "--rounds", &self.rounds, "--forks", &self.forks];
        let worker = Worker::start(context, Some(group), &arguments)?;
        let Took { took_ns } = worker.report(Duration::from_secs(120))?;
        worker.finish(Duration::from_secs(5))?;
        Ok(Duration::from_nanos(took_ns))
    }
}

/// Measures the work with and without the agent, and with empty programs in its place, alternating which
/// comes first. The agent runs with its default settings: the kernel measures its programs for one second a
/// minute, which is part of what it costs.
fn slow_down(run: &Run<'_>, storm: &Storm, group: &Group) -> Result<Vec<Figure>, Failure> {
    let rounds = if run.quick { 4 } else { 12 };
    let options = AgentOptions::default();
    let with = || -> Result<f64, Failure> {
        let _agent = Agent::start(run.context, &options)?;
        std::thread::sleep(Duration::from_millis(500));
        Ok(storm.once(run.context, group)?.as_secs_f64())
    };
    let without = || -> Result<f64, Failure> {
        std::thread::sleep(Duration::from_millis(500));
        Ok(storm.once(run.context, group)?.as_secs_f64())
    };
    let btf = aya::Btf::from_sys_fs().map_err(|error| Failure::Unexpected(error.to_string()))?;
    let empty = || -> Result<f64, Failure> {
        let attach = |hook: &&'static str| TinyProgram::attach(AttachPoint::Tracepoint(hook), &btf);
        let attached = HOOKS.iter().map(attach).collect::<Result<Vec<_>, _>>();
        let _attached = attached.map_err(|error| Failure::Unexpected(error.to_string()))?;
        without()
    };
    let (mut on, mut off, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..rounds {
        run.progress(&format!("round {} of {rounds}", i + 1));
        if i % 2 == 0 {
            off.push(without()?);
            bare.push(empty()?);
            on.push(with()?);
        } else {
            on.push(with()?);
            bare.push(empty()?);
            off.push(without()?);
        }
    }
    let percent = |slow: &[f64]| -> Vec<f64> {
        slow.iter().zip(&off).map(|(slow, off)| (slow / off - 1.0) * 100.0).collect()
    };
    let by_empty = "slow-down by empty programs on three of the agent's hooks (paired rounds)";
    Ok(vec![
        Figure::of("overhead", "storm without the agent", "s", &off, Bound::NONE),
        Figure::of("overhead", "storm with the agent", "s", &on, Bound::NONE),
        Figure::of("overhead", "slow-down (paired rounds)", "%", &percent(&on), Bound::p50(5.0))
            .with_goal(SLOW_DOWN, &percent(&bare)),
        Figure::of("overhead", by_empty, "%", &percent(&bare), Bound::NONE),
    ])
}

/// The programs of neighbours too, which only mode augment has, and nothing else that it does.
const NEIGHBOURS: &str = "augment: {events: Off, protection: Off, memoryHigh: Off, cpuIdle: Off, \
    cpuBurst: Off, eviction: Off, devices: Off, neighbours: Audit}";

/// Measures each program's mean run time, and its difference to the empty program on the same hook.
fn program_costs(run: &Run<'_>, storm: &Storm, group: &Group) -> Result<Vec<Figure>, Failure> {
    let rounds = if run.quick { 3 } else { 10 };
    let options = AgentOptions {
        program_stats: Some(true),
        empty_programs: true,
        section: NEIGHBOURS.to_owned(),
        arguments: ["--mode", "augment"].map(str::to_owned).to_vec(),
        ..AgentOptions::default()
    };
    let agent = Agent::start(run.context, &options)?;
    let client = agent.client()?;
    let mut means: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    let mut runs: BTreeMap<(String, String), u64> = BTreeMap::new();
    for i in 0..rounds {
        run.progress(&format!("programs, round {} of {rounds}", i + 1));
        let before = costs(&client)?;
        storm.once(run.context, group)?;
        for (key, after) in costs(&client)? {
            let Some(before) = before.get(&key) else { continue };
            let count = after.run_count - before.run_count;
            *runs.entry(key.clone()).or_default() += count;
            if count >= FEWEST_RUNS {
                let time = (after.run_time_ns - before.run_time_ns) as f64;
                means.entry(key).or_default().push(time / count as f64);
            }
        }
    }
    figures_of(&means)
}

/// The costs of the programs by hook and name.
fn costs(client: &Client) -> Result<BTreeMap<(String, String), ProgramCost>, Failure> {
    let programs = client.status()?.programs;
    Ok(programs.into_iter().map(|p| ((p.hook.clone(), p.name.clone()), p)).collect())
}

fn figures_of(means: &BTreeMap<(String, String), Vec<f64>>) -> Result<Vec<Figure>, Failure> {
    let mut figures = Vec::new();
    let mut compared = 0;
    for ((hook, name), values) in means {
        figures.push(Figure::of("overhead", format!("{name}: run time"), "ns", values, Bound::NONE));
        if is_empty(name) {
            continue;
        }
        let empty = means.iter().find(|((other, name), _)| other == hook && is_empty(name));
        let Some((_, empty)) = empty else { continue };
        let above: Vec<f64> = values.iter().zip(empty).map(|(ours, empty)| ours - empty).collect();
        let scheduler = hook.contains("sched_switch") || hook.contains("sched_wakeup");
        let always = scheduler && !name.starts_with("neighbours_");
        let bound = if always { Bound::p50(150.0) } else { Bound::NONE };
        compared += usize::from(scheduler);
        let above = Figure::of("overhead", format!("{name}: above an empty program"), "ns", &above, bound);
        figures.push(if name == "sched_switch" { above.with_goal(SCHED_SWITCH, &[]) } else { above });
    }
    ensure!(compared > 0, "the status shows no scheduler program together with an empty one on its hook");
    Ok(figures)
}

fn is_empty(name: &str) -> bool {
    name.starts_with("empty_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_compared_with_the_empty_one_on_its_hook() {
        let key = |hook: &str, name: &str| (hook.to_owned(), name.to_owned());
        let means = BTreeMap::from([
            (key("tp_btf/sched_switch", "sched_switch"), vec![190.0, 210.0]),
            (key("tp_btf/sched_switch", "empty_sched_switch"), vec![30.0, 40.0]),
            (key("tp_btf/sched_switch", "neighbours_sched_switch"), vec![230.0, 240.0]),
            (key("tp_btf/cgroup_mkdir", "cgroup_mkdir"), vec![900.0]),
        ]);
        let figures = figures_of(&means).unwrap();
        let above: Vec<&Figure> = figures.iter().filter(|f| f.name.contains("above")).collect();
        assert_eq!(above.len(), 2);
        // Only what always runs has a bound.
        assert_eq!((above[0].p50, above[0].holds), (200.0, true));
        assert_eq!((above[1].p50, above[1].p99), (160.0, Some(170.0)));
        assert!(!above[1].holds);
        assert_eq!(figures.len(), 6);
        assert!(figures_of(&BTreeMap::new()).is_err());
    }
}
