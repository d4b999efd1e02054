//! What happens in a round, by its seed alone.

use std::fmt;

use crate::e2e::hierarchy::pods::Dice;
use crate::soak::seeded::{kind_of, seed_in_turn};

/// Deployments of a round.
pub const APPS: usize = 4;
/// Largest number of replicas.
const REPLICAS: u64 = 4;
const STEPS: u64 = 14;
const JOBS: u64 = 3;

/// What is killed in the middle of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`, and another agent.
    Agent,
    /// `kill -9` of containerd, and another one.
    Runtime,
    /// `kill -9` of kube-apiserver, and another one.
    ApiServer,
    /// The agent while the API server is away: the next agent starts without it.
    AgentWithoutApiServer,
    /// The agent while containerd is away.
    AgentWithoutRuntime,
}

impl Fault {
    const ALL: [Self; 5] =
        [Self::Agent, Self::Runtime, Self::ApiServer, Self::AgentWithoutApiServer, Self::AgentWithoutRuntime];

    /// Whether the API server is away for a while.
    pub fn stops_api_server(self) -> bool {
        matches!(self, Self::ApiServer | Self::AgentWithoutApiServer)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Agent => "agent killed",
            Self::Runtime => "runtime killed",
            Self::ApiServer => "API server killed",
            Self::AgentWithoutApiServer => "agent and API server killed",
            Self::AgentWithoutRuntime => "agent and runtime killed",
        })
    }
}

/// A Deployment. Its number is its place in [`RoundPlan::apps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct App {
    pub replicas: u64,
    /// Whether its readiness and liveness probes fail at random.
    pub is_probed: bool,
}

/// A Job of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    pub seconds: u64,
    pub exit_code: u64,
}

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Scale {
        app: usize,
        replicas: u64,
    },
    /// A new version of its pods.
    Roll {
        app: usize,
    },
    /// Deleted, and made again with the same name.
    Replace {
        app: usize,
    },
    /// One of its pods, by its place in the list of them.
    DeletePod {
        app: usize,
        pod: u64,
    },
    EvictPod {
        app: usize,
        pod: u64,
    },
    SetConfig {
        value: u64,
    },
}

/// A change after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub pause_ms: u64,
    pub change: Change,
}

/// A whole round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPlan {
    pub seed: u64,
    pub apps: Vec<App>,
    pub jobs: Vec<Job>,
    pub steps: Vec<Step>,
    pub fault: Fault,
    /// Before which step something is killed.
    pub fault_before: usize,
    /// How long it is away.
    pub away_ms: u64,
}

impl RoundPlan {
    /// The seed of round `number`: with it the faults come in turn.
    pub fn seed(dice: &mut Dice, number: u64) -> u64 {
        seed_in_turn(dice, number, Fault::ALL.len())
    }

    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let fault = kind_of(seed, &Fault::ALL);
        let apps =
            (0..APPS).map(|number| App { replicas: 1 + dice.roll(REPLICAS), is_probed: number % 2 == 1 });
        let apps = apps.collect();
        let jobs =
            (0..JOBS).map(|_| Job { seconds: 1 + dice.roll(10), exit_code: 3 * dice.roll(2) }).collect();
        let steps: Vec<_> = (0..STEPS).map(|_| step(&mut dice)).collect();
        let fault_before = 2 + dice.roll(STEPS - 4) as usize;
        Self { seed, apps, jobs, steps, fault, fault_before, away_ms: 500 + dice.roll(6000) }
    }
}

fn step(dice: &mut Dice) -> Step {
    let app = dice.roll(APPS as u64) as usize;
    let pod = dice.roll(REPLICAS);
    let change = match dice.roll(10) {
        0..=2 => Change::Scale { app, replicas: dice.roll(REPLICAS + 1) },
        3 | 4 => Change::Roll { app },
        5 => Change::Replace { app },
        6 => Change::DeletePod { app, pod },
        7 | 8 => Change::EvictPod { app, pod },
        _ => Change::SetConfig { value: dice.roll(1 << 30) },
    };
    Step { pause_ms: dice.roll(1500), change }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_round() {
        for seed in 0..20 {
            let round = RoundPlan::of(seed);
            assert_eq!(RoundPlan::of(seed), round);
            assert!((2..round.steps.len()).contains(&round.fault_before));
        }
    }
}
