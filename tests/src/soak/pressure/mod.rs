//! Pods that use up memory, disks, inodes and pids of a node while the agent, its runtime, a file system or
//! the clock fails. In every round one pod causes a pressure; the pod that the soak's own measurement names
//! has to be evicted, and no other.

mod foreign;
mod meter;
mod node;
mod plan;
mod round;
mod victim;
mod watch;

use std::fmt;
use std::time::{Duration, Instant};

use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::support::MIB;
use crate::harness::{Context, Failure, OWN_MACHINE};
use node::{MEMORY_MIB, Node};
use plan::RoundPlan;

/// How long to run, and the seed of the random choices.
#[derive(Debug, Clone, Copy)]
pub struct PressurePlan {
    pub duration: Duration,
    pub seed: u64,
    /// Only the round with this seed.
    pub round: Option<u64>,
}

/// What was done.
#[derive(Debug, Default, Clone)]
pub struct PressureSummary {
    pub rounds: u64,
    /// Rounds in which the kernel's figures did not name one pod alone; that it was one of them is still
    /// checked.
    pub ambiguous: u64,
    /// Rounds without an eviction, because no pod's growth had a certain victim.
    pub skipped: u64,
    /// Number of answers of the agent, and the slowest of `/healthz` and of the API.
    pub answers: u64,
    pub slowest: [Duration; 2],
    /// Answers after more than the limit, on a machine that was overloaded by others.
    pub overloaded: u64,
    /// The slowest eviction after the growth began.
    pub slowest_eviction: Duration,
    /// Largest memory of an agent in bytes.
    pub peak: u64,
    pub agents: u64,
}

impl fmt::Display for PressureSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [health, api] = self.slowest.map(|time| time.as_secs_f64());
        write!(
            f,
            "{} rounds: in each the expected pod was evicted and no other ({} with two that could be it, {} more \
             without an eviction); the slowest after {:.1} s; {} answers, the slowest of /healthz after {health:.3} s \
             and of the API after {api:.3} s ({} late ones while the machine was overloaded); {} agents, none of which ever had more than {} MiB (limit {MEMORY_MIB}); \
             foreign cgroups, processes and files are as they were",
            self.rounds,
            self.ambiguous,
            self.skipped,
            self.slowest_eviction.as_secs_f64(),
            self.answers,
            self.overloaded,
            self.agents,
            self.peak / MIB,
        )
    }
}

/// Runs rounds until the time is over. `progress` is called with messages for the user.
///
/// # Errors
/// A requirement is violated, or a step fails; the text has the seed of the round.
pub fn pressure(
    context: &Context,
    plan: &PressurePlan,
    progress: impl Fn(&str),
) -> Result<PressureSummary, Failure> {
    progress(&format!("{} s, --seed {}", plan.duration.as_secs(), plan.seed));
    let own_clock = std::env::var_os(OWN_MACHINE).is_some();
    if !own_clock {
        progress("the clock is not set: this machine is not the soak's own");
    }
    let mut node = Node::new(context)?;
    progress(&node.disks());
    let begun = Instant::now();
    let mut dice = Dice::new(plan.seed);
    let mut summary = PressureSummary::default();
    let mut number = 0;
    while number == 0 || plan.round.is_none() && begun.elapsed() < plan.duration {
        number += 1;
        let round = RoundPlan::of(plan.round.unwrap_or_else(|| dice.roll(1 << 30)), own_clock);
        let done = round::run(context, &mut node, &round);
        let seconds = begun.elapsed().as_secs();
        let heading = format!(
            "{seconds:4} s round {number:3} (--round {:10}) {:13} {:17}",
            round.seed,
            round.pressure.to_string(),
            round.disturbance.to_string()
        );
        match done {
            Ok(done) => {
                summary.rounds += u64::from(done.took.is_some());
                summary.skipped += u64::from(done.took.is_none());
                summary.ambiguous += u64::from(done.expected.len() > 1);
                summary.slowest_eviction = summary.slowest_eviction.max(done.took.unwrap_or_default());
                progress(&format!("{heading} {done}"));
            }
            Err(failure) => {
                progress(&format!("{heading} FAILED: {failure}"));
                return Err(Failure::Unexpected(format!(
                    "round {number} (--round {}): {failure}",
                    round.seed
                )));
            }
        }
    }
    let seen = node.watch.seen();
    (summary.answers, summary.slowest, summary.overloaded) = (seen.answers, seen.slowest, seen.overloaded);
    (summary.peak, summary.agents) = (node.peak, node.agents);
    node.finish()?;
    Ok(summary)
}
