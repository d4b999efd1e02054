//! One pod after the other, by bare calls and by the agent in turn.

use super::bare::{Bare, end};
use super::{BENCH, Measured, mark, milliseconds};
use crate::bench::statistics::quantile;
use crate::bench::{Bound, Figure, Run};
use crate::fixture::remove_tree;
use crate::harness::Failure;

/// Rounds, and of a quick look.
const ROUNDS: [usize; 2] = [50, 10];
/// What the agent may add, at the median.
const ADDED_MS: f64 = 20.0;

pub fn measure(run: &Run<'_>, bench: &mut Measured<'_>) -> Result<Vec<Figure>, Failure> {
    let rounds = ROUNDS[usize::from(run.quick)];
    let mut series: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds + 2 {
        if round % 10 == 0 {
            run.progress(&format!("round {round} of {rounds}, bare calls and the agent in turn"));
        }
        let name = format!("round{round}");
        let mut measured = [0.0; 4];
        // First one first, then the other.
        for turn in [round % 2, (round + 1) % 2] {
            let (begin, end) =
                if turn == 0 { by_bare_calls(run, bench, &name)? } else { by_the_agent(run, bench, &name)? };
            measured[turn] = begin;
            measured[2 + turn] = end;
        }
        // The first ones warm up.
        if round >= 2 {
            series.iter_mut().zip(measured).for_each(|(values, value)| values.push(value));
        }
    }
    let [bare_begin, agent_begin, bare_end, agent_end] = &series;
    let added = |agent: &[f64], bare: &[f64]| quantile(agent, 0.5) - quantile(bare, 0.5);
    let many = |name: &str, values: &[f64]| Figure::of(BENCH, name, "ms", values, Bound::NONE);
    let one = |name: &str, value: f64| Figure::one(BENCH, name, "ms", value, Bound::p50(ADDED_MS));
    Ok(vec![
        many("bare CRI calls to first instruction", bare_begin),
        many("manifest written to first instruction", agent_begin),
        one("added by the agent at a pod's beginning (p50)", added(agent_begin, bare_begin)),
        many("bare CRI calls to cgroup gone", bare_end),
        many("manifest removed to cgroup gone", agent_end),
        one("added by the agent at a pod's end (p50)", added(agent_end, bare_end)),
    ])
}

/// Milliseconds to the first instruction, and to the cgroup's end.
fn by_bare_calls(run: &Run<'_>, bench: &Measured<'_>, name: &str) -> Result<(f64, f64), Failure> {
    let limit = run.context.patiently(20);
    let stage = &bench.stage;
    let name = format!("bare-{name}");
    let parent = stage.parent_for(&name);
    let pod = Bare {
        name: name.clone(),
        cgroup_parent: parent.clone(),
        folder: bench.folder.display().to_string(),
        logs: run.context.temp.join("bare-logs").display().to_string(),
    };
    let cri = stage.cri();
    let begun = mark::now()?;
    let sandbox = cri.block_on("RunPodSandbox, CreateContainer, StartContainer", pod.start(cri.clone()))?;
    let first = mark::take(&bench.folder.join(&name), limit)?;
    let directories = mark::directories(&run.context.layout, &stage.path_of(&parent));
    let ending = mark::now()?;
    cri.block_on("StopPodSandbox, RemovePodSandbox", end(sandbox, cri.clone()))?;
    // The runtime leaves the pod's own cgroup to its caller.
    for directory in &directories {
        remove_tree(directory, std::time::Instant::now() + limit)?;
    }
    let ended = mark::now()?;
    Ok((milliseconds(first.saturating_sub(begun)), milliseconds(ended - ending)))
}

fn by_the_agent(run: &Run<'_>, bench: &mut Measured<'_>, name: &str) -> Result<(f64, f64), Failure> {
    let limit = run.context.patiently(20);
    let manifest = bench.manifest(name);
    let begun = mark::now()?;
    bench.stage.put([manifest])?;
    let first = mark::take(&bench.folder.join(name), limit)?;
    let seen = bench.stage.up(name)?;
    let directories = mark::directories(&run.context.layout, &bench.stage.cgroup(&seen)?);
    if directories.is_empty() {
        return Err(Failure::Unexpected(format!("pod {name} has no cgroup")));
    }
    let ending = mark::now()?;
    bench.stage.remove(name)?;
    mark::gone(&directories, limit)?;
    let ended = mark::now()?;
    bench.stage.gone(&[name])?;
    Ok((milliseconds(first.saturating_sub(begun)), milliseconds(ended - ending)))
}
