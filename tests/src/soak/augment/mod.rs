//! Mode augment beside the real kubelet: Deployments and Jobs change at random by the API, the scheduler and
//! the controllers, while agent and kubelet are killed and restarted in turn.
//!
//! The settings of one pod of each kind are read before there is an agent. After each round no setting
//! differs from them but those that mode augment may write; after the agent's end, by SIGTERM or by kill -9
//! and `nodewarden undo`, none differs. The kernel reports who writes which file of a cgroup (fanotify): no
//! file is written by the agent and by another program. Where systemd is process 1 it is reloaded every
//! minute. No container is restarted, and no pod fails.

mod baseline;
mod broken;
mod kinds;
mod node;
mod plan;
mod reloads;
mod round;
mod values;

use std::fmt;
use std::time::{Duration, Instant};

use crate::e2e::hierarchy::pods::Dice;
use crate::ensure;
use crate::fixture::ClusterPrograms;
use crate::harness::{Context, Failure};
use baseline::Baseline;
use kinds::KINDS;
use node::Node;
use plan::RoundPlan;
pub use round::Counts;

/// How long to run, and the seed of the random choices.
#[derive(Debug, Clone, Copy)]
pub struct AugmentPlan {
    pub duration: Duration,
    pub seed: u64,
    /// Only the round with this seed.
    pub round: Option<u64>,
}

/// What was done.
#[derive(Debug, Default, Clone)]
pub struct AugmentSummary {
    pub rounds: u64,
    pub counts: Counts,
    pub pods: usize,
    pub agents: u64,
    /// Files that the agent has written.
    pub written: usize,
    pub reloads: u64,
}

impl fmt::Display for AugmentSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, counts, pods, agents, written, reloads } = self;
        write!(
            f,
            "{rounds} rounds: {counts}; systemd reloaded {reloads}; {pods} pods, no container of which was restarted; {agents} agents wrote \
             {written} files, none of which another program wrote; beside the agent no setting of the kubelet \
             differed from one without it, and after its end none at all"
        )
    }
}

/// Runs rounds until the time is over. `progress` is called with messages for the user.
///
/// # Errors
/// A requirement is violated, or a step fails; the text has the seed of the round.
pub fn augment(
    context: &Context,
    plan: &AugmentPlan,
    progress: impl Fn(&str),
) -> Result<AugmentSummary, Failure> {
    ClusterPrograms::find_kubelet()?;
    progress(&format!("{} s, --seed {}", plan.duration.as_secs(), plan.seed));
    progress("starting a control plane and the kubelet");
    let mut node = Node::new(context)?;
    for kind in 0..KINDS {
        node.create_app(kind, 1)?;
    }
    progress("reading the settings of its pods without nodewarden");
    let baseline = Baseline::read(context, &mut node)?;
    node.start_agent()?;
    let begun = Instant::now();
    let mut dice = Dice::new(plan.seed);
    let mut summary = AugmentSummary::default();
    while summary.rounds == 0 || plan.round.is_none() && begun.elapsed() < plan.duration {
        let own = RoundPlan::seed(&mut dice, summary.rounds);
        let round = RoundPlan::of(plan.round.unwrap_or(own));
        summary.rounds += 1;
        let before = begun.elapsed();
        let done = round::run(context, &mut node, &round, &baseline);
        let heading = format!(
            "{:4} s round {:3} (--round {:9}) {:24}",
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
    (summary.pods, summary.agents) = (node.pods_seen.len(), node.agents);
    (summary.written, summary.reloads) = (node.written.len(), node.reloads());
    ensure!(summary.written > 0, "the record of writes has none of the agent");
    node.finish()?;
    Ok(summary)
}
