//! The least that starting the pods takes: the same calls to a stand-in, without an agent.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::bench::Run;
use crate::bench::node::cpu_time;
use crate::bench::pods::{Bare, Keeps};
use crate::e2e::stand_in::fixture::manifests;
use crate::fixture::{RuntimeFaults, StandInRuntime};
use crate::harness::Failure;

/// Calls at a time: with as many bare calls are fastest on containerd and two CPUs (bench `pods`).
const AT_ONCE: usize = 8;

/// What the calls took.
pub struct Least {
    /// Seconds until every container ran. Cgroups of the pods, files and configurations are made before.
    pub start_s: f64,
    /// CPU seconds of who calls and of the stand-in.
    pub cpu_s: f64,
}

/// Starts so many pods by bare calls, and ends them.
///
/// # Errors
/// A call fails.
pub fn start(run: &Run<'_>, pods: usize) -> Result<Least, Failure> {
    let runtime = StandInRuntime::start(run.context, &format!("bare-{pods}"), RuntimeFaults::default())?;
    let bare = Bare::new(run.context, runtime.socket())?;
    let prepared = bare.prepare(&manifests(pods))?;
    let (cpu, begun) = (used(&runtime)?, Instant::now());
    let running = bare.start_all(prepared, AT_ONCE, Keeps::Nothing)?;
    let start_s = begun.elapsed().as_secs_f64();
    let cpu_s = (used(&runtime)?.saturating_sub(cpu)).as_secs_f64();
    bare.end_all(running, AT_ONCE, Keeps::Nothing)?;
    Ok(Least { start_s, cpu_s })
}

/// CPU time of this process and of the stand-in.
fn used(runtime: &StandInRuntime) -> Result<Duration, Failure> {
    let own = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID);
    let own = own.map_err(|error| Failure::file("CPU clock of this process")(error.into()))?;
    Ok(Duration::from(own) + cpu_time(runtime.pid())?)
}
