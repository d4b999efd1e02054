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

use crate::e2e::hierarchy::pods::Dice;
use crate::ensure;
use crate::fixture::ClusterPrograms;
use crate::harness::{Context, Failure};
use crate::soak::seeded::{Counts, Rounds, SeededRounds};
use baseline::Baseline;
use kinds::KINDS;
use node::Node;
use plan::RoundPlan;

/// What was done.
#[derive(Debug, Default, Clone)]
pub struct AugmentSummary {
    pub rounds: usize,
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
    plan: &SeededRounds,
    progress: impl Fn(&str),
) -> Result<AugmentSummary, Failure> {
    ClusterPrograms::find_kubelet()?;
    progress("starting a control plane and the kubelet");
    let mut node = Node::new(context)?;
    for kind in 0..KINDS {
        node.create_app(kind, 1)?;
    }
    progress("reading the settings of its pods without nodewarden");
    let baseline = Baseline::read(context, &mut node)?;
    node.start_agent()?;
    let mut rounds = AugmentRounds { context, node, baseline };
    let done = plan.run(&mut rounds, progress)?;
    let node = rounds.node;
    let summary = AugmentSummary {
        rounds: done.len(),
        counts: done.into_iter().sum(),
        pods: node.pods_seen.len(),
        agents: node.agents,
        written: node.written.len(),
        reloads: node.reloads(),
    };
    ensure!(summary.written > 0, "the record of writes has none of the agent");
    node.finish()?;
    Ok(summary)
}

struct AugmentRounds<'c> {
    context: &'c Context,
    node: Node<'c>,
    baseline: Baseline,
}

impl Rounds for AugmentRounds<'_> {
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
        round::run(self.context, &mut self.node, plan, &self.baseline)
    }
}
