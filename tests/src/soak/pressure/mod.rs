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
use std::time::Duration;

use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::support::MIB;
use crate::harness::{Context, Failure, OWN_MACHINE};
use crate::soak::seeded::{Rounds, SeededRounds};
use node::{MEMORY_MIB, Node};
use plan::RoundPlan;
use round::Done;

/// What was done.
#[derive(Debug, Default, Clone)]
pub struct PressureSummary {
    pub rounds: usize,
    /// Rounds in which the kernel's figures did not name one pod alone; that it was one of them is still
    /// checked.
    pub ambiguous: usize,
    /// Rounds without an eviction, because no pod's growth had a certain victim.
    pub skipped: usize,
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
    plan: &SeededRounds,
    progress: impl Fn(&str),
) -> Result<PressureSummary, Failure> {
    let own_clock = std::env::var_os(OWN_MACHINE).is_some();
    if !own_clock {
        progress("the clock is not set: this machine is not the soak's own");
    }
    let node = Node::new(context)?;
    progress(&node.disks());
    let mut rounds = PressureRounds { context, node, own_clock };
    let done = plan.run(&mut rounds, progress)?;
    let node = rounds.node;
    let seen = node.watch.seen();
    let evicted = done.iter().filter(|done| done.took.is_some()).count();
    let summary = PressureSummary {
        rounds: evicted,
        ambiguous: done.iter().filter(|done| done.expected.len() > 1).count(),
        skipped: done.len() - evicted,
        answers: seen.answers,
        slowest: seen.slowest,
        overloaded: seen.overloaded,
        slowest_eviction: done.iter().filter_map(|done| done.took).max().unwrap_or_default(),
        peak: node.peak,
        agents: node.agents,
    };
    node.finish()?;
    Ok(summary)
}

struct PressureRounds<'c> {
    context: &'c Context,
    node: Node<'c>,
    /// Whether the clock may be set.
    own_clock: bool,
}

impl Rounds for PressureRounds<'_> {
    type Plan = RoundPlan;
    type Done = Done;

    fn seed(dice: &mut Dice, _number: u64) -> u64 {
        dice.roll(1 << 30)
    }

    fn plan(&self, seed: u64) -> (RoundPlan, String) {
        let plan = RoundPlan::of(seed, self.own_clock);
        let title = format!("{:13} {:17}", plan.pressure.to_string(), plan.disturbance.to_string());
        (plan, title)
    }

    fn run(&mut self, plan: &RoundPlan) -> Result<Done, Failure> {
        round::run(self.context, &mut self.node, plan)
    }
}
