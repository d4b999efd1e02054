//! Garbage collection with an agent that is killed, and with a runtime that fails or never answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::NEEDS;
use super::fixture::{GcFixture, image, output_text, running_pod};
use crate::e2e::support::eventually;
use crate::fixture::RemovalAction;
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("gc_killed_during_removal", killed).timeout(150).needs(NEEDS),
    Test::new("gc_every_third_removal_fails", every_third).timeout(120).needs(NEEDS),
    Test::new("gc_runtime_hangs", hangs).timeout(150).needs(NEEDS),
];

const HIGH: u64 = 85;
const LOW: u64 = 80;
/// Use of the disk in percent after it was filled: more than two images must be removed.
const FULL: u64 = 88;
const PERIOD: &str = "gc: {periodSeconds: 1}";

/// Where in a removal the agent is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Requested, and not carried out.
    Requested,
    /// In progress.
    InProgress,
    /// Carried out, and not answered.
    Done,
}

/// After a kill at any moment of a removal the next agent finishes the collection, and pods and their images
/// are unharmed.
fn killed(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, [HIGH, LOW], "", PERIOD)?;
    let mut next = fixture.import_to(0, 70.0)?;
    let pods = fixture.start_pods(&[1, 2])?;
    for moment in [Moment::Requested, Moment::InProgress, Moment::Done] {
        let killed = kill_at(&fixture, moment)?;
        fill(&fixture)?;
        eventually(context.patiently(20), &format!("no removal to kill the agent in: {moment:?}"), || {
            Ok(killed.load(Ordering::SeqCst).then_some(()))
        })?;
        fixture.pods.kill_agent()?;
        fixture.runtime.proxy.rule(|_, _| RemovalAction::Pass);
        fixture.runtime.proxy.when_done(|_| {});
        let before = fixture.runtime.proxy.removals().len();
        fixture.pods.start_agent()?;
        // The interrupted removal may have brought the use below the high threshold.
        fill(&fixture)?;
        fixture.wait_settled_below(LOW, 30)?;
        ensure!(fixture.runtime.proxy.removals().len() > before, "nothing was removed after {moment:?}");
        fixture.check_unharmed(&pods)?;
        next = fixture.import_to(next, 76.0)?;
    }
    fixture.pods.finish()
}

/// Kills the agent at this moment of its next removal, and then sets the returned flag.
fn kill_at(fixture: &GcFixture<'_>, moment: Moment) -> Result<Arc<AtomicBool>, Failure> {
    let killed = Arc::new(AtomicBool::new(false));
    let (agent, flag) = (Pid::from_raw(fixture.pods.agent()?.pid().cast_signed()), Arc::clone(&killed));
    // The agent is not reaped before the next call, so its pid is not reused.
    let strike = move || flag.store(kill(agent, Signal::SIGKILL).is_ok(), Ordering::SeqCst);
    match moment {
        Moment::Requested => fixture.runtime.proxy.rule(move |_, _| {
            strike();
            RemovalAction::Hang
        }),
        Moment::InProgress => fixture.runtime.proxy.rule(move |number, _| {
            if number == 0 {
                let strike = strike.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(5));
                    strike();
                });
            }
            RemovalAction::Pass
        }),
        Moment::Done => fixture.runtime.proxy.when_done(move |_| strike()),
    }
    Ok(killed)
}

/// Fills the disk up to [`FULL`] percent.
fn fill(fixture: &GcFixture<'_>) -> Result<(), Failure> {
    let filled = fixture.runtime.disk.fill_to("filler", FULL);
    filled.map(drop).map_err(Failure::file(fixture.runtime.disk.path()))
}

/// When every third removal fails, `gc` continues with other images down to the low threshold, and reports
/// and
/// counts the failures.
fn every_third(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, [HIGH, LOW], "", "gc: {periodSeconds: 3600}")?;
    fixture.import_to(0, 76.0)?;
    let pods = fixture.start_pods(&[1, 2])?;
    // The agent detects the new images when it starts. They must be older than the minimum age.
    fixture.pods.kill_agent()?;
    fixture.pods.start_agent()?;
    std::thread::sleep(Duration::from_secs(2) * context.patience);
    let filled = fixture.runtime.disk.fill_to("filler", 95);
    filled.map_err(Failure::file(fixture.runtime.disk.path()))?;
    fixture
        .runtime
        .proxy
        .rule(|number, _| if number % 3 == 2 { RemovalAction::Fail } else { RemovalAction::Pass });
    let output = fixture.pods.command(&["gc"])?;
    ensure!(!output.status.success(), "gc succeeded though removals failed: {}", output_text(&output));
    let removals = fixture.runtime.proxy.removals();
    let failed = removals.iter().filter(|one| one.action == RemovalAction::Fail).count();
    ensure!(
        failed >= 1 && removals.last().is_some_and(|one| one.action == RemovalAction::Pass),
        "{removals:?}"
    );
    ensure!(
        fixture.runtime.space()?.above(LOW) <= 0,
        "the use is {:?}: {}",
        fixture.runtime.space(),
        output_text(&output)
    );
    ensure!(
        output_text(&output).contains("refused by the test"),
        "the reason of the failure is not in: {}",
        output_text(&output)
    );
    ensure_eq!(
        fixture.metric("kubelet_image_garbage_collected_total", ("reason", "space"))? as usize,
        removals.len() - failed,
        "images collected, by the agent's metric"
    );
    ensure!(fixture.metric("nodewarden_gc_failures_total", ("", ""))? > 0.0, "no failure was counted");
    fixture.check_unharmed(&pods)?;
    fixture.pods.finish()
}

/// A removal that the runtime never answers delays no pod, and the collection continues with other images.
fn hangs(context: &Context) -> Result<(), Failure> {
    let mut fixture = GcFixture::new(context, [HIGH, LOW], "runtimeRequestTimeout: 3s\n", PERIOD)?;
    let next = fixture.import_to(0, 76.0)?;
    let pods = fixture.start_pods(&[1, 2])?;
    for (number, action) in [RemovalAction::Hang, RemovalAction::NoAnswer].into_iter().enumerate() {
        fixture.runtime.proxy.rule(move |number, _| if number == 0 { action } else { RemovalAction::Pass });
        let before = fixture.runtime.proxy.removals().len();
        fill(&fixture)?;
        eventually(context.patiently(20), "no removal was requested", || {
            Ok((fixture.runtime.proxy.removals().len() > before).then_some(()))
        })?;
        // Pods start meanwhile.
        let name = format!("meanwhile{number}");
        fixture.pods.put([running_pod(&name, &image(next - 1))])?;
        fixture.pods.wait_up(&name)?;
        fixture.wait_settled_below(LOW, 60)?;
        let removals = fixture.runtime.proxy.removals();
        ensure!(removals.len() > before + 1, "nothing was removed after {action:?}");
        let first = &removals[before];
        if action == RemovalAction::NoAnswer {
            ensure!(first.after.is_some(), "the unanswered removal was not carried out");
        }
        fixture.check_unharmed(&pods)?;
    }
    fixture.pods.finish()
}
