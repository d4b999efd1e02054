//! What happens in a round, by its seed alone.

use std::fmt;

use super::kinds::KINDS;
use crate::e2e::hierarchy::pods::Dice;
use crate::soak::seeded::{kind_of, seed_in_turn};

const STEPS: u64 = 8;
/// Largest number of replicas.
const REPLICAS: u64 = 3;

/// What happens in the middle of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9` of the agent, and another one.
    AgentKilled,
    /// SIGTERM to the agent, and another one.
    AgentRestarted,
    /// SIGTERM to the kubelet, and another one.
    KubeletRestarted,
    /// `kill -9` of the kubelet, and another one.
    KubeletKilled,
    /// Both with `kill -9`, and others.
    BothKilled,
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::AgentKilled,
        Self::KubeletRestarted,
        Self::AgentRestarted,
        Self::KubeletKilled,
        Self::BothKilled,
    ];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AgentKilled => "agent killed",
            Self::AgentRestarted => "agent restarted",
            Self::KubeletRestarted => "kubelet restarted",
            Self::KubeletKilled => "kubelet killed",
            Self::BothKilled => "agent and kubelet killed",
        })
    }
}

/// One change of the Deployment of this number.
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
    /// One of its pods, by its place in the list of them.
    DeletePod {
        app: usize,
        pod: u64,
    },
    EvictPod {
        app: usize,
        pod: u64,
    },
    /// A Job of one pod that ends by itself.
    Job {
        seconds: u64,
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
    pub steps: Vec<Step>,
    pub fault: Fault,
    /// Before which step it happens.
    pub fault_before: usize,
    /// How long what was killed is away.
    pub away_ms: u64,
    /// Whether the agent is killed at the end of the round, and its values put back by `undo`.
    pub ends_by_undo: bool,
}

impl RoundPlan {
    /// The seed of round `number`: with it the faults come in turn.
    pub fn seed(dice: &mut Dice, number: u64) -> u64 {
        seed_in_turn(dice, number, Fault::ALL.len())
    }

    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        Self {
            seed,
            fault: kind_of(seed, &Fault::ALL),
            steps: (0..STEPS).map(|_| step(&mut dice)).collect(),
            fault_before: 1 + dice.roll(STEPS - 2) as usize,
            away_ms: dice.roll(3000),
            ends_by_undo: dice.roll(2) == 0,
        }
    }
}

fn step(dice: &mut Dice) -> Step {
    let app = dice.roll(KINDS as u64) as usize;
    let pod = dice.roll(REPLICAS);
    let change = match dice.roll(9) {
        0..=2 => Change::Scale { app, replicas: dice.roll(REPLICAS + 1) },
        3 | 4 => Change::Roll { app },
        5 => Change::DeletePod { app, pod },
        6 | 7 => Change::EvictPod { app, pod },
        _ => Change::Job { seconds: dice.roll(5) },
    };
    Step { pause_ms: dice.roll(1200), change }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_round() {
        for seed in 0..20 {
            let round = RoundPlan::of(seed);
            assert_eq!(RoundPlan::of(seed), round);
            assert!((1..round.steps.len()).contains(&round.fault_before));
        }
    }
}
