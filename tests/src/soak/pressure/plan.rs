//! What happens in a round, by its seed alone.

use std::fmt;

use crate::e2e::hierarchy::pods::Dice;

/// Pods of a round, apart from the residents.
pub const PODS: usize = 3;

/// Where a pod writes files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Its writable layer, on the file system of the images.
    Layer,
    /// Its `emptyDir`, on the file system of the agent's state.
    Volume,
}

/// What becomes short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    Memory,
    Processes,
    Bytes(Place),
    Inodes(Place),
}

impl Pressure {
    const ALL: [Self; 6] = [
        Self::Memory,
        Self::Processes,
        Self::Bytes(Place::Layer),
        Self::Bytes(Place::Volume),
        Self::Inodes(Place::Layer),
        Self::Inodes(Place::Volume),
    ];

    /// The node's condition.
    pub fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Processes => "PIDPressure",
            Self::Bytes(_) | Self::Inodes(_) => "DiskPressure",
        }
    }

    /// The resource that pods can request of it.
    pub fn requested(self) -> Option<&'static str> {
        match self {
            Self::Memory => Some("memory"),
            Self::Bytes(_) => Some("ephemeral-storage"),
            Self::Processes | Self::Inodes(_) => None,
        }
    }

    /// Whether pods within their request are evicted last. Of inodes every pod is above its request of none.
    pub fn ranks_requests(self) -> bool {
        self != Self::Processes
    }
}

impl fmt::Display for Pressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
            Self::Bytes(Place::Layer) => "layer bytes",
            Self::Bytes(Place::Volume) => "volume bytes",
            Self::Inodes(Place::Layer) => "layer inodes",
            Self::Inodes(Place::Volume) => "volume inodes",
        })
    }
}

/// What disturbs the agent meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    Nothing,
    /// `kill -9`, and another agent.
    AgentKilled,
    RuntimeSlow,
    RuntimeRefuses,
    RuntimeHangs,
    RuntimeRestarts,
    /// A file system in the volume of a pod hangs.
    FileSystemHangs,
    /// The clock is set a day forward, and back at the end of the round.
    ClockForward,
    /// The clock is set a day back, and forward at the end of the round.
    ClockBack,
}

impl Disturbance {
    const EVERYWHERE: [Self; 7] = [
        Self::Nothing,
        Self::AgentKilled,
        Self::RuntimeSlow,
        Self::RuntimeRefuses,
        Self::RuntimeHangs,
        Self::RuntimeRestarts,
        Self::FileSystemHangs,
    ];
    const CLOCK: [Self; 2] = [Self::ClockForward, Self::ClockBack];

    /// By how many days the clock is set.
    pub fn days(self) -> i64 {
        match self {
            Self::ClockForward => 1,
            Self::ClockBack => -1,
            _ => 0,
        }
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Nothing => "undisturbed",
            Self::AgentKilled => "agent killed",
            Self::RuntimeSlow => "runtime slow",
            Self::RuntimeRefuses => "runtime refuses",
            Self::RuntimeHangs => "runtime hangs",
            Self::RuntimeRestarts => "runtime restarts",
            Self::FileSystemHangs => "file system hangs",
            Self::ClockForward => "clock +1 day",
            Self::ClockBack => "clock -1 day",
        })
    }
}

/// One pod. Shares are in percent of what is available above the threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlan {
    pub name: String,
    pub priority: i64,
    /// What it requests.
    pub request: u64,
    /// What it takes before the pressure.
    pub first: u64,
    /// Whether it writes many small files rather than a few large ones.
    pub small_files: bool,
}

/// One round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundPlan {
    pub seed: u64,
    pub pressure: Pressure,
    pub disturbance: Disturbance,
    pub pods: Vec<PodPlan>,
    /// Which pod causes the pressure: the first whose victim is certain.
    pub triggers: Vec<usize>,
    /// In whose volume a file system hangs.
    pub hung_pod: usize,
    /// When it is disturbed, after the beginning of the growth.
    pub after_ms: u64,
    /// Whether an agent that gets another configuration is killed rather than ended.
    pub kills_before: bool,
}

/// Least and most share of a pod before the pressure.
const LEAST: u64 = 18;
const MOST: u64 = 28;

impl RoundPlan {
    /// The round of this seed. `own_clock`: whether the clock may be set.
    pub fn of(seed: u64, own_clock: bool) -> Self {
        let mut dice = Dice::new(seed);
        // The first numbers of seeds that follow each other are similar.
        for _ in 0..4 {
            dice.roll(1);
        }
        let clock = if own_clock { &Disturbance::CLOCK[..] } else { &[] };
        let disturbances = [&Disturbance::EVERYWHERE[..], clock].concat();
        let pressure = one_of(&mut dice, &Pressure::ALL);
        let disturbance = one_of(&mut dice, &disturbances);
        let requests = dice.roll(2 * PODS as u64);
        let pods = (0..PODS).map(|number| PodPlan {
            name: format!("pod{number}"),
            priority: one_of(&mut dice, &[0, 0, 0, -5, 100]),
            request: if number as u64 == requests { 40 } else { 0 },
            first: LEAST + dice.roll(MOST - LEAST + 1),
            small_files: dice.roll(2) == 0,
        });
        let pods = pods.collect();
        let first = usize::try_from(dice.roll(PODS as u64)).unwrap_or(0);
        Self {
            seed,
            pressure,
            disturbance,
            pods,
            triggers: (0..PODS).map(|number| (first + number) % PODS).collect(),
            hung_pod: usize::try_from(dice.roll(PODS as u64)).unwrap_or(0),
            after_ms: dice.roll(1500),
            kills_before: dice.roll(3) == 0,
        }
    }
}

fn one_of<T: Copy>(dice: &mut Dice, all: &[T]) -> T {
    all[usize::try_from(dice.roll(all.len() as u64)).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_always_means_the_same_round() {
        assert_eq!(RoundPlan::of(7, true), RoundPlan::of(7, true));
        assert_ne!(RoundPlan::of(7, true), RoundPlan::of(8, true));
        // The end-to-end test of a hung file system relies on this one.
        let round = RoundPlan::of(782_780_504, false);
        let is = (round.pressure, round.disturbance);
        assert_eq!(is, (Pressure::Bytes(Place::Volume), Disturbance::FileSystemHangs));
    }

    #[test]
    fn every_pressure_meets_every_disturbance_and_leaves_room_for_the_growth() {
        let rounds: Vec<_> = (0..4000).map(|seed| RoundPlan::of(seed, true)).collect();
        let pairs: BTreeSet<_> =
            rounds.iter().map(|round| format!("{} {}", round.pressure, round.disturbance)).collect();
        assert_eq!(pairs.len(), 6 * 9);
        for round in &rounds {
            let sum: u64 = round.pods.iter().map(|pod| pod.first).sum();
            assert!(sum < 90, "{round:?}");
            assert!(round.pods.iter().filter(|pod| pod.request > 0).count() <= 1, "{round:?}");
        }
        assert!((0..1000).all(|seed| RoundPlan::of(seed, false).disturbance.days() == 0));
    }
}
