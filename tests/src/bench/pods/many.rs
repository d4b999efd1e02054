//! Measures starting and ending N pods, by the agent and by bare calls with the best number of parallel
//! calls.

use std::time::Duration;

use super::bare::{Bare, Keeps};
use super::evidence::{Evidence, now};
use super::fixture::{PodsFixture, name};
use super::manifest::{Program, manifest};
use crate::bench::Run;
use crate::harness::Failure;
use serde_json::Value;

/// The numbers of parallel calls to try.
const AT_ONCE: [usize; 5] = [1, 2, 4, 8, 16];

/// How long starting and ending the pods took, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    pub up: f64,
    pub down: f64,
}

/// Pause after a burst, so that no work of it remains.
pub const REST: Duration = Duration::from_millis(750);

/// The number of parallel calls with which the bare calls are fastest.
#[derive(Debug, Clone, Copy)]
pub struct Best {
    pub up: usize,
    pub down: usize,
}

/// The manifests of `pods` pods.
pub fn series(prefix: &str, pods: usize, evidence: &Evidence) -> Vec<Value> {
    (0..pods).map(|n| manifest(&format!("{prefix}-{n:03}"), Program::Shell, evidence.folder())).collect()
}

/// The names of manifests.
pub fn names(manifests: &[Value]) -> Vec<String> {
    manifests.iter().map(|manifest| name(manifest).to_owned()).collect()
}

/// Measures the agent. `between` is called while all pods run, and its result is returned.
///
/// # Errors
/// A pod does not start or end.
pub fn by_agent<T>(
    fixture: &PodsFixture<'_>,
    evidence: &Evidence,
    pods: usize,
    between: impl FnOnce() -> Result<T, Failure>,
) -> Result<(Took, T), Failure> {
    let manifests = series("many", pods, evidence);
    let names = names(&manifests);
    let begun = fixture.put(&manifests)?;
    evidence.all_started(&names)?;
    let up = (now()? - begun).as_secs_f64();
    let result = between()?;
    let down = fixture.remove(&names, evidence)?.as_secs_f64();
    Ok((Took { up, down }, result))
}

/// Starts the agent again so many times while these pods run. Returns the seconds from each start until the
/// agent is ready.
///
/// # Errors
/// Pods do not start or end, or an agent does not become ready.
pub fn starts(
    fixture: &mut PodsFixture<'_>,
    evidence: &Evidence,
    pods: usize,
    times: usize,
) -> Result<Vec<f64>, Failure> {
    let manifests = series("start", pods, evidence);
    let names = names(&manifests);
    fixture.put(&manifests)?;
    evidence.all_started(&names)?;
    let seconds = (0..times).map(|_| Ok(fixture.restart()?.as_secs_f64())).collect();
    fixture.remove(&names, evidence)?;
    seconds
}

/// Measures the bare calls. `prefix` is a part of the pods' names.
///
/// # Errors
/// A call fails.
pub fn by_calls(
    bare: &Bare,
    evidence: &Evidence,
    prefix: &str,
    pods: usize,
    at_once: Best,
    keeps: Keeps,
) -> Result<Took, Failure> {
    let manifests = series(prefix, pods, evidence);
    let before = now()?;
    let prepared = bare.prepare(&manifests)?;
    let begun = if keeps == Keeps::Nothing { now()? } else { before };
    let running = bare.start_all(prepared, at_once.up, keeps)?;
    evidence.all_started(&names(&manifests))?;
    let up = (now()? - begun).as_secs_f64();
    std::thread::sleep(REST);
    let down = bare.end_all(running, at_once.down, keeps)?.as_secs_f64();
    Ok(Took { up, down })
}

/// Finds the best numbers of parallel calls.
///
/// # Errors
/// A call fails.
pub fn best(run: &Run<'_>, bare: &Bare, evidence: &Evidence, pods: usize) -> Result<Best, Failure> {
    let mut tried = Vec::new();
    for at_once in AT_ONCE {
        let both = Best { up: at_once, down: at_once };
        let took = by_calls(bare, evidence, &format!("best-{at_once}"), pods, both, Keeps::Nothing)?;
        run.progress(&format!(
            "{pods} pods by bare calls, {at_once} at a time: {:.2} s up, {:.2} s down",
            took.up, took.down
        ));
        tried.push((at_once, took));
    }
    let least = |of: fn(&Took) -> f64| {
        let best = tried.iter().min_by(|(_, a), (_, b)| of(a).total_cmp(&of(b)));
        best.map_or(1, |(at_once, _)| *at_once)
    };
    Ok(Best { up: least(|took| took.up), down: least(|took| took.down) })
}
