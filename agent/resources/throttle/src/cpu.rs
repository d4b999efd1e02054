//! How far BestEffort's CPU is held back: pure.
//!
//! The level has the least weight of all already (kubelet `qosContainerManagerImpl`: 2 shares), and still its tasks hold a
//! CPU that somebody else has just woken for until their slice is over. So the first rung is `cpu.idle` (its tasks give
//! way at once, `SCHED_IDLE`), the others are quotas, each half of the one before.

use std::time::Duration;

use super::hold::Hold;

/// Periods in which pods wait too long before anything is done, and that a step is given to show an effect.
const PATIENCE: u32 = 2;
/// Calm is this part of the bound: between the two nothing changes.
const CALM: u64 = 2;
/// Once a release has begun, its steps come faster than the first by this.
const FASTER: u32 = 3;

/// One step of the ladder; those below it stay in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rung {
    /// `cpu.idle`.
    Idle,
    /// So many thousandths of a CPU for the whole level.
    Quota { milli: u64 },
}

/// What there is to step on: from the machine's CPU time to the least that the level keeps, both in thousandths.
pub fn ladder(idle: bool, machine_milli: u64, least_milli: u64) -> Vec<Rung> {
    let least = least_milli.max(1);
    let mut rungs: Vec<_> = idle.then_some(Rung::Idle).into_iter().collect();
    let mut milli = machine_milli / 2;
    while milli > least {
        rungs.push(Rung::Quota { milli });
        milli /= 2;
    }
    rungs.push(Rung::Quota { milli: least });
    rungs
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Of a clock that never goes back.
    pub at: Duration,
    /// Nanoseconds a second that the pod of the upper levels waited that waited most.
    pub waited: u64,
    /// What BestEffort used, in thousandths of a CPU.
    pub best_effort_milli: u64,
}

/// The controller.
#[derive(Debug, Clone)]
pub struct Control {
    ladder: Vec<Rung>,
    /// Nanoseconds a second.
    bound: u64,
    /// Less than this of BestEffort's is no load, in thousandths of a CPU.
    least_milli: u64,
    hold: Hold,
    /// How many rungs are in force.
    step: usize,
    /// Periods in a row above the bound, since the last change.
    above: u32,
    calm: Option<Duration>,
    releasing: bool,
}

impl Control {
    /// `bound` is how long a pod may wait in a second.
    pub fn new(ladder: Vec<Rung>, bound: Duration, least_milli: u64, hold: Hold) -> Self {
        let bound = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        Self { ladder, bound, least_milli, hold, step: 0, above: 0, calm: None, releasing: false }
    }

    pub fn ladder(&self) -> &[Rung] {
        &self.ladder
    }

    pub fn step(&self) -> usize {
        self.step
    }

    /// What is in force: whether idle, and the quota in thousandths of a CPU.
    pub fn in_force(&self) -> (bool, Option<u64>) {
        let rungs = self.ladder.get(..self.step).unwrap_or_default();
        let quota = rungs.iter().rev().find_map(|rung| match rung {
            Rung::Quota { milli } => Some(*milli),
            Rung::Idle => None,
        });
        (rungs.contains(&Rung::Idle), quota)
    }

    /// Takes a reading in; the step changed if the answer is `Some`, to that.
    pub fn turn(&mut self, seen: Seen) -> Option<usize> {
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
            // Who still waits when BestEffort does nothing any more waits for somebody else.
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

    /// The next step that takes anything away from what BestEffort uses.
    fn up(&self, seen: Seen) -> Option<usize> {
        if seen.best_effort_milli < self.least_milli {
            return None;
        }
        let binds = |rung: &Rung| match rung {
            Rung::Idle => true,
            Rung::Quota { milli } => *milli < seen.best_effort_milli,
        };
        let above = self.ladder.iter().enumerate().skip(self.step);
        above.into_iter().find(|(_, rung)| binds(rung)).map(|(at, _)| at + 1)
    }

    /// BestEffort uses so much less than it may that nothing holds it back.
    fn is_over(&self, seen: Seen) -> bool {
        let may = self.in_force().1.map_or(self.least_milli, |milli| milli / 2);
        seen.best_effort_milli < may
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
