//! Many pods at once, by bare calls and by the agent in turn.

use std::time::Duration;

use super::bare::{Bare, end};
use super::{BENCH, Measured, mark, milliseconds};
use crate::bench::statistics::quantile;
use crate::bench::{Bound, Figure, Run};
use crate::fixture::remove_tree;
use crate::harness::Failure;

/// Pods, and of a quick look.
const PODS: [usize; 2] = [100, 20];
const ROUNDS: [usize; 2] = [3, 1];
/// As fast as the runtime can go: so many times its own time.
const TIMES: f64 = 1.25;

pub fn measure(run: &Run<'_>, bench: &mut Measured<'_>) -> Result<Vec<Figure>, Failure> {
    let (pods, rounds) = (PODS[usize::from(run.quick)], ROUNDS[usize::from(run.quick)]);
    let mut series: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        for turn in [round % 2, (round + 1) % 2] {
            let who = ["bare calls", "the agent"][turn];
            run.progress(&format!("{pods} pods at once by {who}, round {} of {rounds}", round + 1));
            let (up, down) =
                if turn == 0 { by_bare_calls(run, bench, pods)? } else { by_the_agent(run, bench, pods)? };
            series[turn].push(up);
            series[2 + turn].push(down);
        }
    }
    let [bare_up, agent_up, bare_down, agent_down] = &series;
    let seconds = |name: String, values: &[f64]| Figure::of(BENCH, name, "s", values, Bound::NONE);
    let times = |name: String, agent: &[f64], bare: &[f64]| {
        let times = quantile(agent, 0.5) / quantile(bare, 0.5).max(1e-9);
        Figure::one(BENCH, name, "times", times, Bound::p50(TIMES))
    };
    Ok(vec![
        seconds(format!("0 to {pods} pods by bare CRI calls"), bare_up),
        seconds(format!("0 to {pods} pods by the agent"), agent_up),
        times(format!("0 to {pods} pods, the agent's time to the calls'"), agent_up, bare_up),
        seconds(format!("{pods} to 0 pods by bare CRI calls"), bare_down),
        seconds(format!("{pods} to 0 pods by the agent"), agent_down),
        times(format!("{pods} to 0 pods, the agent's time to the calls'"), agent_down, bare_down),
    ])
}

fn limit(run: &Run<'_>) -> Duration {
    run.context.patiently(180)
}

/// Seconds up and down: all calls at once, as the agent makes them.
fn by_bare_calls(run: &Run<'_>, bench: &Measured<'_>, pods: usize) -> Result<(f64, f64), Failure> {
    let stage = &bench.stage;
    let cri = stage.cri();
    let of = |name: String| Bare {
        cgroup_parent: stage.parent_for(&name),
        name,
        folder: bench.folder.display().to_string(),
        logs: run.context.temp.join("bare-logs").display().to_string(),
    };
    let pods: Vec<Bare> = (0..pods).map(|i| of(format!("bare-many{i}"))).collect();
    let begun = mark::now()?;
    let starts = pods.iter().map(|pod| pod.clone().start(cri.clone())).collect();
    let sandboxes = cri.all("RunPodSandbox, CreateContainer, StartContainer", starts)?;
    let mut last = begun;
    for pod in &pods {
        last = last.max(mark::take(&bench.folder.join(&pod.name), limit(run))?);
    }
    let ending = mark::now()?;
    cri.all(
        "StopPodSandbox, RemovePodSandbox",
        sandboxes.into_iter().map(|id| end(id, cri.clone())).collect(),
    )?;
    for pod in &pods {
        for directory in mark::directories(&run.context.layout, &stage.path_of(&pod.cgroup_parent)) {
            remove_tree(&directory, std::time::Instant::now() + limit(run))?;
        }
    }
    let ended = mark::now()?;
    Ok((milliseconds(last - begun) / 1e3, milliseconds(ended - ending) / 1e3))
}

fn by_the_agent(run: &Run<'_>, bench: &mut Measured<'_>, pods: usize) -> Result<(f64, f64), Failure> {
    let names: Vec<String> = (0..pods).map(|i| format!("many{i}")).collect();
    let manifests: Vec<_> = names.iter().map(|name| bench.manifest(name)).collect();
    let begun = mark::now()?;
    for manifest in manifests {
        bench.stage.put([manifest])?;
    }
    let mut last = begun;
    for name in &names {
        last = last.max(mark::take(&bench.folder.join(name), limit(run))?);
    }
    let mut directories = Vec::new();
    for name in &names {
        let seen = bench.stage.up(name)?;
        directories.extend(mark::directories(&run.context.layout, &bench.stage.cgroup(&seen)?));
    }
    let ending = mark::now()?;
    for name in &names {
        bench.stage.remove(name)?;
    }
    mark::gone(&directories, limit(run))?;
    let ended = mark::now()?;
    bench.stage.gone(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok((milliseconds(last - begun) / 1e3, milliseconds(ended - ending) / 1e3))
}
