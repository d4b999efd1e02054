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
use std::time::{Duration, Instant};

use crate::e2e::hierarchy::pods::Dice;
use crate::e2e::support::MIB;
use crate::harness::{Context, Failure};
use node::{MEMORY_MIB, Node};
use plan::RoundPlan;
pub use round::Counts;

/// How long to run, and the seed of the random choices.
#[derive(Debug, Clone, Copy)]
pub struct ClusterPlan {
    pub duration: Duration,
    pub seed: u64,
    /// Only the round with this seed.
    pub round: Option<u64>,
}

/// What was done.
#[derive(Debug, Default, Clone)]
pub struct ClusterSummary {
    pub rounds: u64,
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
    plan: &ClusterPlan,
    progress: impl Fn(&str),
) -> Result<ClusterSummary, Failure> {
    progress(&format!("{} s, --seed {}", plan.duration.as_secs(), plan.seed));
    progress("starting a control plane and a node");
    let mut node = Node::new(context)?;
    let begun = Instant::now();
    let mut dice = Dice::new(plan.seed);
    let mut summary = ClusterSummary::default();
    while summary.rounds == 0 || plan.round.is_none() && begun.elapsed() < plan.duration {
        let own = RoundPlan::seed(&mut dice, summary.rounds);
        let round = RoundPlan::of(plan.round.unwrap_or(own));
        summary.rounds += 1;
        let before = begun.elapsed();
        let done = round::run(context, &mut node, &round);
        let heading = format!(
            "{:4} s round {:3} (--round {:9}) {:27}",
            begun.elapsed().as_secs(),
            summary.rounds,
            round.seed,
            round.fault.to_string()
        );
        match done {
            Ok(counts) => {
                summary.counts += counts;
                let took = (begun.elapsed() - before).as_secs();
                progress(&format!("{heading} {took:3} s: {counts}"));
            }
            Err(failure) => {
                progress(&format!("{heading} FAILED: {failure}"));
                return Err(Failure::Unexpected(format!(
                    "round {} (--round {}): {failure}",
                    summary.rounds, round.seed
                )));
            }
        }
    }
    (summary.peak, summary.agents) = (node.peak, node.agents);
    (summary.pods, summary.changes) = (node.history.pods(), node.history.changes);
    node.finish()?;
    Ok(summary)
}
