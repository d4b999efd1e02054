//! Measures what the programs for exclusive CPUs cost a switch and an interrupt, under a storm of switches on
//! one CPU: while that CPU is exclusive for the storm's cgroup, for one above it, for another one, and while
//! it is not exclusive but another CPU is.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Bench, Bound, Figure, Run};
use crate::ensure;
use crate::fixture::{ExclusiveCpu, Group, TestRoot, Worker};
use crate::harness::Failure;
use crate::worker::report::Took;

pub struct ExclusiveCpus;

const SWITCH: &str = "exclusive_sched_switch";
const EMPTY: &str = "empty_sched_switch";
/// A mean over fewer runs is not meaningful.
const FEWEST_RUNS: u64 = 100;

impl Bench for ExclusiveCpus {
    fn name(&self) -> &'static str {
        "exclusive-cpus"
    }

    fn about(&self) -> &'static str {
        "run time of the programs for exclusive CPUs above an empty program, on a CPU that is exclusive and on another"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let root = TestRoot::new(run.context)?;
        let (above, other) = (root.child("owner")?, root.child("other")?);
        let storm = above.child("storm")?;
        let mut cpu = ExclusiveCpu::load(true).map_err(Failure::Unexpected)?;
        cpu.measure();
        let mut figures = Vec::new();
        let (owned, free) = (cpu.number(), cpu.number() - 1);
        for (case, owner, on) in [
            ("the owner's own tasks", &storm, owned),
            ("tasks below the owner", &above, owned),
            ("tasks of others", &other, owned),
            ("another CPU is exclusive", &other, free),
        ] {
            cpu.give(Some(owner)).map_err(Failure::Unexpected)?;
            figures.extend(measure(run, &cpu, case, &storm, on)?);
        }
        Ok(figures)
    }
}

/// Mean run times of the programs in some rounds of the storm on a CPU.
fn measure(
    run: &Run<'_>,
    cpu: &ExclusiveCpu,
    case: &str,
    storm: &Group,
    on: u32,
) -> Result<Vec<Figure>, Failure> {
    let mut means: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for round in 0..if run.quick { 3 } else { 10 } {
        run.progress(&format!("{case}, round {}", round + 1));
        let before = costs(cpu);
        let arguments = ["storm", "--pairs", "2", "--rounds", "40000", "--forks", "1"];
        let mut worker = Worker::spawn(run.context, Some(storm), &arguments)?;
        cpu.pin_to(worker.pid(), on).map_err(Failure::Unexpected)?;
        worker.go()?;
        let Took { .. } = worker.report(Duration::from_secs(120))?;
        worker.finish(Duration::from_secs(5))?;
        for (name, (runs, ns)) in costs(cpu) {
            let (runs_before, ns_before) = before.get(&name).copied().unwrap_or_default();
            let (runs, ns) = (runs - runs_before, ns - ns_before);
            if runs >= FEWEST_RUNS {
                means.entry(name).or_default().push(ns as f64 / runs as f64);
            }
        }
    }
    let (Some(ours), Some(empty)) = (means.get(SWITCH), means.get(EMPTY)) else {
        return Err(Failure::Unexpected(format!("{SWITCH} or {EMPTY} did not run: {means:?}")));
    };
    ensure!(ours.len() == empty.len(), "rounds without enough switches: {means:?}");
    let above: Vec<f64> = ours.iter().zip(empty).map(|(ours, empty)| ours - empty).collect();
    let figure = |name: String, values: &[f64]| Figure::of("exclusive-cpus", name, "ns", values, Bound::NONE);
    let mut figures = vec![figure(format!("{SWITCH}, {case}: above an empty program"), &above)];
    let interrupts = means.iter().filter(|(name, _)| name.starts_with("exclusive_") && *name != SWITCH);
    figures.extend(interrupts.map(|(name, values)| figure(format!("{name}, {case}: run time"), values)));
    Ok(figures)
}

/// Number and time of the runs of each program that is measured.
fn costs(cpu: &ExclusiveCpu) -> BTreeMap<String, (u64, u64)> {
    let costs = cpu.costs().into_iter();
    costs.map(|cost| (cost.name, (cost.run_count, cost.run_time_ns))).collect()
}
