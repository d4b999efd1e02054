//! Measures one pod at a time: from the manifest to the container's first instruction, and from its removal
//! to the end of the pod's cgroup, by the agent and by bare calls in turn.

use std::time::Duration;

use super::bare::Bare;
use super::evidence::Evidence;
use super::fixture::PodsFixture;
use super::manifest::{Program, manifest};
use crate::bench::Run;
use crate::harness::Failure;

/// Pause after a start and after an end, so that no work of it remains.
const REST: Duration = Duration::from_millis(150);

/// Times in milliseconds, one value per pod.
#[derive(Debug, Default)]
pub struct Series {
    pub up: Vec<f64>,
    pub down: Vec<f64>,
}

/// Measures `pairs` pods by the agent and as many by bare calls.
///
/// # Errors
/// A pod does not start or end.
pub fn pairs(
    run: &Run<'_>,
    fixture: &PodsFixture<'_>,
    bare: &Bare,
    evidence: &Evidence,
    pairs: usize,
) -> Result<[Series; 2], Failure> {
    let [mut by_agent, mut by_calls] = [Series::default(), Series::default()];
    // The first pair is a warm-up.
    for n in 0..=pairs {
        if n % 10 == 1 {
            run.progress(&format!("pair {n} of {pairs}"));
        }
        // The order within a pair alternates.
        for who in [n % 2, (n + 1) % 2] {
            let (series, (up, down)) = if who == 0 {
                (&mut by_agent, by_the_agent(fixture, evidence, &format!("one-{n:03}"))?)
            } else {
                (&mut by_calls, by_bare_calls(bare, evidence, &format!("bare-one-{n:03}"))?)
            };
            if n > 0 {
                series.up.push(milliseconds(up));
                series.down.push(milliseconds(down));
            }
            std::thread::sleep(REST);
        }
    }
    Ok([by_agent, by_calls])
}

fn by_the_agent(
    fixture: &PodsFixture<'_>,
    evidence: &Evidence,
    name: &str,
) -> Result<(Duration, Duration), Failure> {
    let begun = fixture.put(&[manifest(name, Program::Clock, evidence.folder())])?;
    let up = evidence.first_instruction(name)?.saturating_sub(begun);
    std::thread::sleep(REST);
    Ok((up, fixture.remove(&[name.to_owned()], evidence)?))
}

fn by_bare_calls(bare: &Bare, evidence: &Evidence, name: &str) -> Result<(Duration, Duration), Failure> {
    let prepared = bare.prepare(&[manifest(name, Program::Clock, evidence.folder())])?;
    let (mut begun, mut running) = (Duration::ZERO, None);
    for pod in prepared {
        let (pod, at) = bare.start(pod)?;
        (begun, running) = (at, Some(pod));
    }
    let Some(running) = running else { return Err(Failure::Unexpected(format!("no pod in {name}"))) };
    let up = evidence.first_instruction(name)?.saturating_sub(begun);
    std::thread::sleep(REST);
    Ok((up, bare.end(running)?))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
