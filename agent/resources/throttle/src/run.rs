//! The thread: reads and decides once a period, records each step, and undoes everything when it ends.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{info, warn};

use super::ThrottleError;
use super::controllers::{Controllers, Cpu, Machine, Memory, Step};
use super::cpu::{Control, ladder};
use super::gather::{Waited, Waits};
use super::memory::{Level, lines};
use super::release_delay::ReleaseDelay;
use nodewarden_config::ThrottleSettings;
use nodewarden_hierarchy::{HierarchyHandle, ThrottleOverrides, ThrottleTargets};
use nodewarden_metrics::Own;
use nodewarden_model::Detail;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts::{self, Part};

/// Configuration and dependencies.
pub struct Deps {
    /// Returns how long the cgroups of Guaranteed and Burstable pods have waited for a CPU so far.
    pub waits: Box<dyn Fn() -> Vec<Waited> + Send>,
    /// Why that is not counted, if it is not.
    pub no_waits: Option<String>,
    /// The levels that can be throttled.
    pub targets: ThrottleTargets,
    /// Sets the overrides.
    pub sink: HierarchyHandle,
    /// Where steps are recorded.
    pub journal: Journal,
    /// Returns what the machine has now.
    pub machine: Box<dyn Fn() -> Machine + Send>,
}

/// The running thread. Dropping it ends the thread, which undoes all overrides.
#[derive(Debug)]
pub struct Throttle {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the controllers that are enabled and possible on this machine; one that is not possible is
/// reported. `None` if none is left.
///
/// # Errors
/// A thread cannot be started.
pub fn start(settings: &ThrottleSettings, deps: Deps) -> Result<Option<Throttle>, ThrottleError> {
    if !settings.enabled() {
        return Ok(None);
    }
    let mut off = Vec::new();
    let machine = (deps.machine)();
    let controllers = controllers(settings, &deps, machine, &mut off);
    for reason in off {
        let message = format!("throttling: {reason}");
        warn!("{message}");
        let detail = Detail::Agent { reason: "FeatureOff".into(), message };
        deps.journal.append(Timestamp::now(), "", None, detail);
    }
    if controllers.cpu.is_none() && controllers.memory.is_none() {
        return Ok(None);
    }
    let (stop, stopped) = channel();
    let settings = settings.clone();
    let part = parts::register("throttling", LIMIT);
    let thread = thread::Builder::new()
        .name("throttle".into())
        .spawn(move || {
            run(controllers, &deps, machine, &settings, &stopped, &part);
            part.end();
        })
        .map_err(|source| ThrottleError::Thread { source })?;
    Ok(Some(Throttle { stop: Some(stop), thread: Some(thread) }))
}

/// The controllers that work here. Why an enabled one does not is added to `off`.
fn controllers(
    settings: &ThrottleSettings,
    deps: &Deps,
    machine: Machine,
    off: &mut Vec<ThrottleError>,
) -> Controllers {
    let targets = &deps.targets;
    let hold = || ReleaseDelay::new(settings.hold, settings.max_hold);
    let mut possible = |enabled: bool, missing: Option<ThrottleError>| {
        let missing = if targets.levels { missing } else { Some(ThrottleError::NoLevels) };
        let on = enabled && missing.is_none();
        off.extend(missing.filter(|_| enabled));
        on
    };
    let no_waits = deps.no_waits.clone().map(|reason| ThrottleError::NoWaits { reason });
    let cpu = possible(settings.cpu.enabled, no_waits).then(|| {
        let ladder = ladder(targets.idle, machine.cpu_milli, settings.cpu.min_milli);
        Cpu {
            control: Control::new(ladder, settings.cpu.wait, settings.cpu.min_milli, hold()),
            bound: u64::try_from(settings.cpu.wait.as_nanos()).unwrap_or(u64::MAX),
            waits: Waits::default(),
            before: None,
        }
    });
    let no_high = (!targets.memory_high).then_some(ThrottleError::NoMemoryHigh);
    let memory = possible(settings.memory.enabled, no_high).then(|| {
        let distance = settings.memory.distance;
        let [best_effort, burstable] = lines(machine.threshold, distance);
        let level = |line, least| Level::new(line, distance, least, hold());
        Memory { levels: [level(best_effort, settings.memory.min), level(burstable, 0)] }
    });
    Controllers { cpu, memory }
}

/// How long a round may take.
const LIMIT: Duration = Duration::from_secs(120);

fn run(
    mut controllers: Controllers,
    deps: &Deps,
    mut machine: Machine,
    settings: &ThrottleSettings,
    stopped: &Receiver<()>,
    part: &Part,
) {
    let begun = Instant::now();
    let mut reported = BTreeSet::new();
    loop {
        part.progress();
        let now = (deps.machine)();
        if now != machine {
            machine = now;
            controllers.adapt(settings, deps.targets.idle, machine);
            // The same step may be another quota now.
            deps.sink.throttle(controllers.overrides());
        }
        let (steps, errors) = controllers.update(begun.elapsed(), &*deps.waits, &deps.targets);
        if !steps.is_empty() {
            deps.sink.throttle(controllers.overrides());
        }
        steps.iter().for_each(|step| record(deps, step));
        let errors: BTreeSet<String> = errors.iter().map(ToString::to_string).collect();
        errors.difference(&reported).for_each(|error| warn!("throttling: {error}"));
        reported = errors;
        part.waits();
        if stopped.recv_timeout(settings.period) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    let overrides = controllers.overrides();
    if overrides == ThrottleOverrides::default() {
        return;
    }
    deps.sink.throttle(ThrottleOverrides::default());
    let ThrottleOverrides { best_effort, burstable } = overrides;
    let held = [
        (
            "BestEffort",
            "cpu",
            &deps.targets.best_effort,
            best_effort.cpu_idle || best_effort.cpu_quota.is_some(),
        ),
        ("BestEffort", "memory", &deps.targets.best_effort, best_effort.memory_high.is_some()),
        ("Burstable", "memory", &deps.targets.burstable, burstable.memory_high.is_some()),
    ];
    for (level, resource, path, _) in held.into_iter().filter(|(.., held)| *held) {
        let message = format!("{level} has its {resource} back: throttling ends");
        record(deps, &Step { path: path.clone(), level, resource, squeezed: false, held: false, message });
    }
}

/// Writes a step to the journal, the log and the metrics.
fn record(deps: &Deps, step: &Step) {
    let (reason, direction) = if step.squeezed { ("Squeezed", "squeeze") } else { ("Released", "release") };
    info!("{reason}: {}", step.message);
    let detail = Detail::Hierarchy { reason: reason.into(), message: step.message.clone() };
    deps.journal.append(Timestamp::now(), &*step.path, None, detail);
    let (level, resource) = (step.level, step.resource);
    ::metrics::counter!(Own::ThrottleSteps.name(), "direction" => direction, "level" => level, "resource" => resource)
        .increment(1);
    ::metrics::gauge!(Own::ThrottleHeld.name(), "level" => level, "resource" => resource)
        .set(f64::from(u8::from(step.held)));
}
