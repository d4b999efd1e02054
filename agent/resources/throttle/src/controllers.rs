//! One period: read, decide, compose the overrides, and describe what changed.

use std::time::Duration;

use super::ThrottleError;
use super::cpu::{self, Control};
use super::gather::{self, Most, Waited, Waits};
use super::memory::{self, Change, Level};
use nodewarden_config::ThrottleSettings;
use nodewarden_hierarchy::{ThrottleOverride, ThrottleOverrides, ThrottleTargets};
use nodewarden_machine::cgroup::control::{Bound, CpuQuota};

/// Period of the CPU quotas: short, so that BestEffort's part of each period is over soon (10 ms for half of
/// a CPU).
const PERIOD_US: u64 = 20_000;

/// What the steps of throttling are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// CPUs, in thousandths.
    pub cpu_milli: u64,
    /// The greatest threshold of `memory.available`, in bytes.
    pub threshold: u64,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Path of the level.
    pub path: String,
    pub level: &'static str,
    pub resource: &'static str,
    pub squeezed: bool,
    /// Whether the resource is still throttled.
    pub held: bool,
    pub message: String,
}

/// The CPU part.
pub struct Cpu {
    pub control: Control,
    /// Longest wait, in nanoseconds per second.
    pub bound: u64,
    pub waits: Waits,
    /// When BestEffort's CPU time was last read, and its value in nanoseconds.
    pub before: Option<(Duration, u64)>,
}

/// The memory part: BestEffort and Burstable.
pub struct Memory {
    pub levels: [Level; 2],
}

/// Both controllers.
pub struct Controllers {
    pub cpu: Option<Cpu>,
    pub memory: Option<Memory>,
}

impl Controllers {
    /// Reads and decides. Returns the steps taken and the errors; a controller whose input cannot be read
    /// stays as it is.
    pub fn update(
        &mut self,
        at: Duration,
        waits: &dyn Fn() -> Vec<Waited>,
        targets: &ThrottleTargets,
    ) -> (Vec<Step>, Vec<ThrottleError>) {
        let (mut steps, mut errors) = (Vec::new(), Vec::new());
        if let Some(cpu) = &mut self.cpu {
            let waited = waits();
            match gather::cpu_ns(&targets.manager, &targets.best_effort) {
                Ok(used) => steps.extend(cpu.update(at, used, &waited, targets)),
                Err(error) => errors.push(error),
            }
        }
        if let Some(memory) = &mut self.memory {
            match memory.update(at, targets) {
                Ok(more) => steps.extend(more),
                Err(error) => errors.push(error),
            }
        }
        (steps, errors)
    }

    /// Goes by another capacity from now on. The steps in force stay as far as there are as many.
    pub fn adapt(&mut self, settings: &ThrottleSettings, idle: bool, machine: Machine) {
        if let Some(cpu) = &mut self.cpu {
            cpu.control.set_ladder(cpu::ladder(idle, machine.cpu_milli, settings.cpu.min_milli));
        }
        if let Some(memory) = &mut self.memory {
            let lines = memory::lines(machine.threshold, settings.memory.distance);
            memory.levels.iter_mut().zip(lines).for_each(|(level, line)| level.set_line(line));
        }
    }

    /// The overrides in force.
    pub fn overrides(&self) -> ThrottleOverrides {
        let (cpu_idle, milli) = self.cpu.as_ref().map(|cpu| cpu.control.in_force()).unwrap_or_default();
        let high = |level: usize| self.memory.as_ref().and_then(|memory| memory.levels[level].high());
        let best_effort = ThrottleOverride { cpu_idle, cpu_quota: milli.map(quota), memory_high: high(0) };
        ThrottleOverrides {
            best_effort,
            burstable: ThrottleOverride { memory_high: high(1), ..ThrottleOverride::default() },
        }
    }
}

impl Cpu {
    /// `used` is BestEffort's total CPU time, in nanoseconds.
    fn update(
        &mut self,
        at: Duration,
        used: u64,
        waited: &[Waited],
        levels: &ThrottleTargets,
    ) -> Option<Step> {
        let (before, used_before) = self.before.replace((at, used))?;
        let elapsed = at.saturating_sub(before);
        let throttled = |path: &str| gather::throttled(&levels.manager, path);
        let most = self.waits.update(waited, elapsed, self.bound, throttled);
        let nanoseconds = elapsed.as_nanos().max(1) as f64;
        let best_effort_milli = (used.saturating_sub(used_before) as f64 / nanoseconds * 1000.0) as u64;
        let from = self.control.step();
        let to = self.control.update(cpu::Reading { at, waited: most.waited, best_effort_milli })?;
        Some(Step {
            path: levels.best_effort.clone(),
            level: "BestEffort",
            resource: "cpu",
            squeezed: to > from,
            held: to > 0,
            message: self.describe(&most, best_effort_milli),
        })
    }

    fn describe(&self, most: &Most, best_effort_milli: u64) -> String {
        let held = match self.control.in_force() {
            (false, None) => "has its CPU back".to_owned(),
            (true, None) => "runs when nothing else does (cpu.idle)".to_owned(),
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
    fn update(&mut self, at: Duration, targets: &ThrottleTargets) -> Result<Vec<Step>, ThrottleError> {
        let available = gather::available()?;
        let mut steps = Vec::new();
        let levels = [("BestEffort", &targets.best_effort), ("Burstable", &targets.burstable)];
        for (level, (name, path)) in self.levels.iter_mut().zip(levels) {
            let used = gather::working_set(&targets.manager, path)?;
            let Some(change) = level.update(memory::Reading { at, available, used }) else { continue };
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

/// The quota for `milli` thousandths of a CPU.
fn quota(milli: u64) -> CpuQuota {
    CpuQuota { quota_us: Bound::At(milli.saturating_mul(PERIOD_US) / 1000), period_us: PERIOD_US }
}
