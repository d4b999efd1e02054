//! A node in a real cluster: Deployments, Jobs and config maps change at random by the API, the scheduler and
//! the controllers, while agent, runtime and API server are killed in turn. After each round the API, the
//! runtime and the cgroups have to show the same pods, and no pod's status may have gone backwards.

mod check;
mod history;
mod node;
mod objects;
mod plan;
mod round;

use std::fmt;

use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::support::MIB;
use crate::harness::{Context, Failure};
use crate::soak::seeded::{Counts, Rounds, SeededRounds};
use node::{MEMORY_MIB, Node};
use plan::RoundPlan;

/// What was done.
#[derive(Debug, Default, Clone)]
pub struct ClusterSummary {
    pub rounds: usize,
    pub counts: Counts,
    /// Pods that there ever were, and changes of them that were read.
    pub pods: usize,
    pub changes: u64,
    /// Largest memory of an agent in bytes, and how many agents there were.
    pub peak: u64,
    pub agents: u64,
}

impl fmt::Display for ClusterSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds: {}; {} pods, {} changes of them, none of which went backwards; after each round API, runtime \
             and cgroups had the same pods, and no container had started again without a cause; {} agents, none of \
             which ever had more than {} MiB (limit {MEMORY_MIB})",
            self.rounds,
            self.counts,
            self.pods,
            self.changes,
            self.agents,
            self.peak / MIB,
        )
    }
}

/// Runs rounds until the time is over. `progress` is called with messages for the user.
///
/// # Errors
/// A requirement is violated, or a step fails; the text has the seed of the round.
pub fn cluster(
    context: &Context,
    plan: &SeededRounds,
    progress: impl Fn(&str),
) -> Result<ClusterSummary, Failure> {
    progress("starting a control plane and a node");
    let mut rounds = ClusterRounds { context, node: Node::new(context)? };
    let done = plan.run(&mut rounds, progress)?;
    let node = rounds.node;
    let summary = ClusterSummary {
        rounds: done.len(),
        counts: done.into_iter().sum(),
        pods: node.history.pods(),
        changes: node.history.changes,
        peak: node.peak,
        agents: node.agents,
    };
    node.finish()?;
    Ok(summary)
}

struct ClusterRounds<'c> {
    context: &'c Context,
    node: Node<'c>,
}

impl Rounds for ClusterRounds<'_> {
    type Plan = RoundPlan;
    type Done = Counts;

    fn seed(dice: &mut Dice, number: u64) -> u64 {
        RoundPlan::seed(dice, number)
    }

    fn plan(&self, seed: u64) -> (RoundPlan, String) {
        let plan = RoundPlan::of(seed);
        let title = plan.fault.to_string();
        (plan, title)
    }

    fn run(&mut self, plan: &RoundPlan) -> Result<Counts, Failure> {
        round::run(self.context, &mut self.node, plan)
    }
}
