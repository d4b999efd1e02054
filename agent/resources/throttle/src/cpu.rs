//! How far BestEffort's CPU is throttled: pure.
//!
//! The level already has the lowest weight (kubelet `qosContainerManagerImpl`: 2 shares), but its tasks still
//! keep a CPU until their slice ends when a task of another level wakes. So the first step is `cpu.idle` (its
//! tasks yield at once, `SCHED_IDLE`), the others are quotas, each half of the one before.

use std::time::Duration;

use super::release_delay::ReleaseDelay;

/// Periods in which pods wait too long before a step is taken, and that each step gets to show an effect.
const PATIENCE: u32 = 2;
/// Waits below 1/`CALM` of the bound are calm; between the two nothing changes.
const CALM: u64 = 2;
/// Further steps of a release come this many times faster than the first.
const FASTER: u32 = 3;

/// One step of the ladder; lower steps stay in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LadderStep {
    /// `cpu.idle`.
    Idle,
    /// A quota for the whole level, in thousandths of a CPU.
    Quota { milli: u64 },
}

/// The steps from the machine's CPUs down to the least that the level keeps, both in thousandths.
pub fn ladder(idle: bool, machine_milli: u64, least_milli: u64) -> Vec<LadderStep> {
    let least = least_milli.max(1);
    let mut steps: Vec<_> = idle.then_some(LadderStep::Idle).into_iter().collect();
    let mut milli = machine_milli / 2;
    while milli > least {
        steps.push(LadderStep::Quota { milli });
        milli /= 2;
    }
    steps.push(LadderStep::Quota { milli: least });
    steps
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic time.
    pub at: Duration,
    /// The longest wait of a pod of the upper levels, in nanoseconds per second.
    pub waited: u64,
    /// What BestEffort used, in thousandths of a CPU.
    pub best_effort_milli: u64,
}

/// The controller.
#[derive(Debug, Clone)]
pub struct Control {
    ladder: Vec<LadderStep>,
    /// In nanoseconds per second.
    bound: u64,
    /// BestEffort use below this counts as no load, in thousandths of a CPU.
    least_milli: u64,
    hold: ReleaseDelay,
    /// Number of steps in force.
    step: usize,
    /// Consecutive periods above the bound, since the last change.
    above: u32,
    calm: Option<Duration>,
    releasing: bool,
}

impl Control {
    /// `bound` is how long a pod may wait per second.
    pub fn new(ladder: Vec<LadderStep>, bound: Duration, least_milli: u64, hold: ReleaseDelay) -> Self {
        let bound = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Self { ladder, bound, least_milli, hold, step: 0, above: 0, calm: None, releasing: false }
    }

    /// Goes by other steps from now on, for a machine with other CPUs.
    pub fn set_ladder(&mut self, ladder: Vec<LadderStep>) {
        self.step = self.step.min(ladder.len());
        self.ladder = ladder;
    }

    pub fn ladder(&self) -> &[LadderStep] {
        &self.ladder
    }

    pub fn step(&self) -> usize {
        self.step
    }

    /// What is in force: whether the level is idle, and the quota in thousandths of a CPU.
    pub fn in_force(&self) -> (bool, Option<u64>) {
        let steps = self.ladder.get(..self.step).unwrap_or_default();
        let quota = steps.iter().rev().find_map(|step| match step {
            LadderStep::Quota { milli } => Some(*milli),
            LadderStep::Idle => None,
        });
        (steps.contains(&LadderStep::Idle), quota)
    }

    /// Takes a reading and returns the new step if it changed.
    pub fn update(&mut self, seen: Reading) -> Option<usize> {
        let (waits, over) = (seen.waited > self.bound, self.is_over(seen));
        let to = if waits && !over {
            self.calm = None;
            self.above += 1;
            let up = self.up(seen).filter(|_| self.above >= PATIENCE)?;
            self.hold.squeezed(seen.at);
            self.releasing = false;
            up
        } else {
            self.above = 0;
            // If BestEffort no longer runs, pods that still wait do so for another reason.
            let calm = over || seen.waited <= self.bound / CALM;
            if !calm || self.step == 0 {
                self.calm = None;
                return None;
            }
            let since = *self.calm.get_or_insert(seen.at);
            let needed = match (over && !waits, self.releasing && !waits) {
                (true, _) => self.hold.base(),
                (false, true) => self.hold.base() / FASTER,
                (false, false) => self.hold.needed(),
            };
            if seen.at.saturating_sub(since) < needed {
                return None;
            }
            self.hold.released(seen.at);
            self.releasing = true;
            if over { 0 } else { self.step - 1 }
        };
        (self.step, self.above, self.calm) = (to, 0, None);
        Some(to)
    }

    /// The next step that reduces what BestEffort uses.
    fn up(&self, seen: Reading) -> Option<usize> {
        if seen.best_effort_milli < self.least_milli {
            return None;
        }
        let binds = |step: &LadderStep| match step {
            LadderStep::Idle => true,
            LadderStep::Quota { milli } => *milli < seen.best_effort_milli,
        };
        let above = self.ladder.iter().enumerate().skip(self.step);
        above.into_iter().find(|(_, step)| binds(step)).map(|(at, _)| at + 1)
    }

    /// Whether BestEffort uses so much less than it may that throttling has no effect.
    fn is_over(&self, seen: Reading) -> bool {
        let may = self.in_force().1.map_or(self.least_milli, |milli| milli / 2);
        seen.best_effort_milli < may
    }
}

#[cfg(test)]
mod tests;
