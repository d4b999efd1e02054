//! The thread: a turn each period, told and counted; everything given back at its end.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tracing::{info, warn};

use super::FeedbackError;
use super::cpu::{Control, ladder};
use super::gather::{Waited, Waits};
use super::hold::Hold;
use super::memory::{Level, lines};
use super::turn::{Controllers, Cpu, Memory, Step};
use nodewarden_config::ThrottleSettings;
use nodewarden_hierarchy::{Overlay, PodSink, Squeezable};
use nodewarden_metrics::Own;
use nodewarden_model::Detail;
use nodewarden_storage::journal::Journal;

/// What it works with.
pub struct Needs {
    /// What the cgroups of Guaranteed and Burstable pods have waited for a CPU so far.
    pub waits: Box<dyn Fn() -> Vec<Waited> + Send>,
    /// Why nobody counts that, if so.
    pub no_waits: Option<String>,
    pub squeezable: Squeezable,
    pub sink: PodSink,
    pub journal: Journal,
    /// CPU time of the machine, in thousandths.
    pub machine_milli: u64,
    /// The greatest threshold of `memory.available`, in bytes.
    pub threshold: u64,
}

/// Runs until it is dropped, which gives everything back.
#[derive(Debug)]
pub struct Feedback {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Feedback {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts what is enabled and possible here; what is not possible is told. Nothing runs where nothing is left of it.
///
/// # Errors
/// A thread cannot be had.
pub fn start(settings: &ThrottleSettings, needs: Needs) -> Result<Option<Feedback>, FeedbackError> {
    if !settings.enabled() {
        return Ok(None);
    }
    let mut off = Vec::new();
    let controllers = controllers(settings, &needs, &mut off);
    for reason in off {
        let message = format!("feedback: {reason}");
        warn!("{message}");
        let detail = Detail::Agent { reason: "FeatureOff".into(), message };
        needs.journal.append(Timestamp::now(), "", None, detail);
    }
    if controllers.cpu.is_none() && controllers.memory.is_none() {
        return Ok(None);
    }
    let (stop, stopped) = channel();
    let period = settings.period;
    let thread = thread::Builder::new()
        .name("feedback".into())
        .spawn(move || run(controllers, &needs, period, &stopped))
        .map_err(|source| FeedbackError::Thread { source })?;
    Ok(Some(Feedback { stop: Some(stop), thread: Some(thread) }))
}

/// What of the settings works here; why the rest does not is added to `off`.
fn controllers(settings: &ThrottleSettings, needs: &Needs, off: &mut Vec<FeedbackError>) -> Controllers {
    let Needs { squeezable, machine_milli, threshold, .. } = needs;
    let hold = || Hold::new(settings.hold, settings.max_hold);
    let mut possible = |enabled: bool, missing: Option<FeedbackError>| {
        let missing = if squeezable.levels { missing } else { Some(FeedbackError::NoLevels) };
        let on = enabled && missing.is_none();
        off.extend(missing.filter(|_| enabled));
        on
    };
    let no_waits = needs.no_waits.clone().map(|reason| FeedbackError::NoWaits { reason });
    let cpu = possible(settings.cpu.enabled, no_waits).then(|| {
        let ladder = ladder(squeezable.idle, *machine_milli, settings.cpu.min_milli);
        Cpu {
            control: Control::new(ladder, settings.cpu.wait, settings.cpu.min_milli, hold()),
            bound: u64::try_from(settings.cpu.wait.as_nanos()).unwrap_or(u64::MAX),
            waits: Waits::default(),
            before: None,
        }
    });
    let no_high = (!squeezable.memory_high).then_some(FeedbackError::NoMemoryHigh);
    let memory = possible(settings.memory.enabled, no_high).then(|| {
        let distance = settings.memory.distance;
        let [best_effort, burstable] = lines(*threshold, distance);
        let level = |line, least| Level::new(line, distance, least, hold());
        Memory { levels: [level(best_effort, settings.memory.min), level(burstable, 0)] }
    });
    Controllers { cpu, memory }
}

fn run(mut controllers: Controllers, needs: &Needs, period: Duration, stopped: &Receiver<()>) {
    let begun = Instant::now();
    let mut ails = BTreeSet::new();
    loop {
        let (steps, errors) = controllers.turn(begun.elapsed(), needs);
        if !steps.is_empty() {
            needs.sink.overlay(controllers.overlay());
        }
        steps.iter().for_each(|step| tell(needs, step));
        let errors: BTreeSet<String> = errors.iter().map(ToString::to_string).collect();
        errors.difference(&ails).for_each(|error| warn!("feedback: {error}"));
        ails = errors;
        if stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    let overlay = controllers.overlay();
    if overlay == Overlay::default() {
        return;
    }
    needs.sink.overlay(Overlay::default());
    let Overlay { best_effort, burstable } = overlay;
    let held = [
        (
            "BestEffort",
            "cpu",
            &needs.squeezable.best_effort,
            best_effort.cpu_idle || best_effort.cpu_quota.is_some(),
        ),
        ("BestEffort", "memory", &needs.squeezable.best_effort, best_effort.memory_high.is_some()),
        ("Burstable", "memory", &needs.squeezable.burstable, burstable.memory_high.is_some()),
    ];
    for (level, resource, path, _) in held.into_iter().filter(|(.., held)| *held) {
        let message = format!("{level} has its {resource} back: feedback ends");
        tell(needs, &Step { path: path.clone(), level, resource, squeezed: false, held: false, message });
    }
}

/// Into the journal, the log and the figures.
fn tell(needs: &Needs, step: &Step) {
    let (reason, direction) = if step.squeezed { ("Squeezed", "squeeze") } else { ("Released", "release") };
    info!("{reason}: {}", step.message);
    let detail = Detail::Hierarchy { reason: reason.into(), message: step.message.clone() };
    needs.journal.append(Timestamp::now(), &*step.path, None, detail);
    let (level, resource) = (step.level, step.resource);
    ::metrics::counter!(Own::FeedbackSteps.name(), "direction" => direction, "level" => level, "resource" => resource)
        .increment(1);
    ::metrics::gauge!(Own::FeedbackHeld.name(), "level" => level, "resource" => resource)
        .set(f64::from(u8::from(step.held)));
}
