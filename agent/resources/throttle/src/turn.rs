//! One turn: read, decide, compose what the levels are held to, and say what changed.

use std::time::Duration;

use super::cpu::{self, Control};
use super::gather::{self, Most, Waited, Waits};
use super::memory::{self, Change, Level};
use super::{FeedbackError, Needs};
use nodewarden_hierarchy::{Overlay, Squeezable, Squeeze};
use nodewarden_machine::cgroup::control::{Bound, CpuQuota};

/// Of the quotas: short, so that BestEffort's part of each period is over soon (10 ms for half of a CPU).
const PERIOD_US: u64 = 20_000;

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Path of the level.
    pub path: String,
    pub level: &'static str,
    pub resource: &'static str,
    pub squeezed: bool,
    /// Whether anything is still held back.
    pub held: bool,
    pub message: String,
}

/// The CPU part.
pub struct Cpu {
    pub control: Control,
    /// Nanoseconds a second.
    pub bound: u64,
    pub waits: Waits,
    /// When BestEffort's CPU time was read last, and what it was in nanoseconds.
    pub before: Option<(Duration, u64)>,
}

/// The memory part: BestEffort and Burstable.
pub struct Memory {
    pub levels: [Level; 2],
}

/// All of it.
pub struct Controllers {
    pub cpu: Option<Cpu>,
    pub memory: Option<Memory>,
}

impl Controllers {
    /// Reads and decides: the steps, and what could not be read. A part that cannot be read stays as it is.
    pub fn turn(&mut self, at: Duration, needs: &Needs) -> (Vec<Step>, Vec<FeedbackError>) {
        let (mut steps, mut errors) = (Vec::new(), Vec::new());
        if let Some(cpu) = &mut self.cpu {
            let waited = (needs.waits)();
            match gather::cpu_ns(&needs.squeezable.manager, &needs.squeezable.best_effort) {
                Ok(used) => steps.extend(cpu.turn(at, used, &waited, &needs.squeezable)),
                Err(error) => errors.push(error),
            }
        }
        if let Some(memory) = &mut self.memory {
            match memory.turn(at, &needs.squeezable) {
                Ok(more) => steps.extend(more),
                Err(error) => errors.push(error),
            }
        }
        (steps, errors)
    }

    /// What the levels are held to now.
    pub fn overlay(&self) -> Overlay {
        let (cpu_idle, milli) = self.cpu.as_ref().map(|cpu| cpu.control.in_force()).unwrap_or_default();
        let high = |level: usize| self.memory.as_ref().and_then(|memory| memory.levels[level].high());
        let best_effort = Squeeze { cpu_idle, cpu_quota: milli.map(quota), memory_high: high(0) };
        Overlay { best_effort, burstable: Squeeze { memory_high: high(1), ..Squeeze::default() } }
    }
}

impl Cpu {
    /// `used` is BestEffort's CPU time so far.
    fn turn(&mut self, at: Duration, used: u64, waited: &[Waited], levels: &Squeezable) -> Option<Step> {
        let (before, used_before) = self.before.replace((at, used))?;
        let elapsed = at.saturating_sub(before);
        let throttled = |path: &str| gather::throttled(&levels.manager, path);
        let most = self.waits.turn(waited, elapsed, self.bound, throttled);
        let nanoseconds = elapsed.as_nanos().max(1) as f64;
        let best_effort_milli = (used.saturating_sub(used_before) as f64 / nanoseconds * 1000.0) as u64;
        let from = self.control.step();
        let to = self.control.turn(cpu::Seen { at, waited: most.waited, best_effort_milli })?;
        Some(Step {
            path: levels.best_effort.clone(),
            level: "BestEffort",
            resource: "cpu",
            squeezed: to > from,
            held: to > 0,
            message: self.say(&most, best_effort_milli),
        })
    }

    fn say(&self, most: &Most, best_effort_milli: u64) -> String {
        let held = match self.control.in_force() {
            (false, None) => "has its CPU back".to_owned(),
            (true, None) => "runs where nobody else wants to (cpu.idle)".to_owned(),
            (_, Some(milli)) => format!("may use {milli}m of CPU"),
        };
        let (step, steps) = (self.control.step(), self.control.ladder().len());
        let [waited, bound] = [most.waited, self.bound].map(|nanoseconds| nanoseconds as f64 / 1e6);
        let pod = match most.pod.as_str() {
            "" => "no pod waited".to_owned(),
            pod => format!("pod {pod} waited {waited:.1} ms a second for a CPU"),
        };
        format!(
            "BestEffort {held}, step {step} of {steps}: {pod}, the bound is {bound} ms; BestEffort used \
             {best_effort_milli}m"
        )
    }
}

impl Memory {
    fn turn(&mut self, at: Duration, squeezable: &Squeezable) -> Result<Vec<Step>, FeedbackError> {
        let available = gather::available()?;
        let mut steps = Vec::new();
        let places = [("BestEffort", &squeezable.best_effort), ("Burstable", &squeezable.burstable)];
        for (level, (name, path)) in self.levels.iter_mut().zip(places) {
            let used = gather::working_set(&squeezable.manager, path)?;
            let Some(change) = level.turn(memory::Seen { at, available, used }) else { continue };
            let held = match (change, name) {
                (Change::Released(None), _) => "has its memory back".to_owned(),
                (Change::Squeezed(high) | Change::Released(Some(high)), "Burstable") => {
                    format!("is held to {high} bytes of memory, or what its pods request if that is more")
                }
                (Change::Squeezed(high) | Change::Released(Some(high)), _) => {
                    format!("is held to {high} bytes of memory")
                }
            };
            steps.push(Step {
                path: path.clone(),
                level: name,
                resource: "memory",
                squeezed: matches!(change, Change::Squeezed(_)),
                held: level.high().is_some(),
                message: format!("{name} {held}: it used {used}, and {available} bytes are available"),
            });
        }
        Ok(steps)
    }
}

/// The quota of so many thousandths of a CPU.
fn quota(milli: u64) -> CpuQuota {
    CpuQuota { quota_us: Bound::At(milli.saturating_mul(PERIOD_US) / 1000), period_us: PERIOD_US }
}
