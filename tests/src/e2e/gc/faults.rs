//! Collections that are cut off, refused or never answered: the next one completes, pods go on, and nothing in use goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::NEEDS;
use super::site::{Site, image, stays, words};
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
/// What the disk is filled to: two images and more must go.
const FULL: u64 = 88;
const PERIOD: &str = "gc: {periodSeconds: 1}";

/// Where in a removal the agent is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Asked for, and not carried out.
    Asked,
    /// Under way.
    UnderWay,
    /// Carried out, and not answered.
    Done,
}

fn killed(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, [HIGH, LOW], "", PERIOD)?;
    let mut next = site.import_to(0, 70.0)?;
    let pods = site.pods(&[1, 2])?;
    for moment in [Moment::Asked, Moment::UnderWay, Moment::Done] {
        let killed = arm(&site, moment)?;
        fill(&site)?;
        eventually(context.patiently(20), &format!("no removal to be cut off: {moment:?}"), || {
            Ok(killed.load(Ordering::SeqCst).then_some(()))
        })?;
        site.stage.kill_agent()?;
        site.ground.proxy.rule(|_, _| RemovalAction::Pass);
        site.ground.proxy.when_done(|_| {});
        let before = site.ground.proxy.removals().len();
        site.stage.start_agent()?;
        // The one that was cut off may have brought the use below the high threshold.
        fill(&site)?;
        site.rests_below(LOW, 30)?;
        ensure!(site.ground.proxy.removals().len() > before, "nothing was removed after {moment:?}");
        site.all_well(&pods)?;
        next = site.import_to(next, 76.0)?;
    }
    site.stage.finish()
}

/// Kills the agent at this moment of its next removal. Tells when it has.
fn arm(site: &Site<'_>, moment: Moment) -> Result<Arc<AtomicBool>, Failure> {
    let killed = Arc::new(AtomicBool::new(false));
    let (agent, told) = (Pid::from_raw(site.stage.agent()?.pid().cast_signed()), Arc::clone(&killed));
    // Not reaped before the next one is armed: the number is nobody else's.
    let strike = move || told.store(kill(agent, Signal::SIGKILL).is_ok(), Ordering::SeqCst);
    match moment {
        Moment::Asked => site.ground.proxy.rule(move |_, _| {
            strike();
            RemovalAction::Hang
        }),
        Moment::UnderWay => site.ground.proxy.rule(move |number, _| {
            if number == 0 {
                let strike = strike.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(5));
                    strike();
                });
            }
            RemovalAction::Pass
        }),
        Moment::Done => site.ground.proxy.when_done(move |_| strike()),
    }
    Ok(killed)
}

fn fill(site: &Site<'_>) -> Result<(), Failure> {
    let filled = site.ground.disk.fill_to("filler", FULL);
    filled.map(drop).map_err(Failure::file(site.ground.disk.path()))
}

fn every_third(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, [HIGH, LOW], "", "gc: {periodSeconds: 3600}")?;
    site.import_to(0, 76.0)?;
    let pods = site.pods(&[1, 2])?;
    // A start looks at the images; they are to be older than the minimum age.
    site.stage.kill_agent()?;
    site.stage.start_agent()?;
    std::thread::sleep(Duration::from_secs(2) * context.patience);
    let filled = site.ground.disk.fill_to("filler", 95);
    filled.map_err(Failure::file(site.ground.disk.path()))?;
    site.ground
        .proxy
        .rule(|number, _| if number % 3 == 2 { RemovalAction::Fail } else { RemovalAction::Pass });
    let output = site.stage.command(&["gc"])?;
    ensure!(!output.status.success(), "gc succeeded though removals failed: {}", words(&output));
    let removals = site.ground.proxy.removals();
    let failed = removals.iter().filter(|one| one.action == RemovalAction::Fail).count();
    ensure!(
        failed >= 1 && removals.last().is_some_and(|one| one.action == RemovalAction::Pass),
        "{removals:?}"
    );
    ensure!(site.ground.space()?.above(LOW) <= 0, "the use is {:?}: {}", site.ground.space(), words(&output));
    ensure!(words(&output).contains("the test says so"), "why it failed is not in: {}", words(&output));
    ensure_eq!(
        site.metric("kubelet_image_garbage_collected_total", ("reason", "space"))? as usize,
        removals.len() - failed,
        "images collected by the agent's word"
    );
    ensure!(site.metric("nodewarden_gc_failures_total", ("", ""))? > 0.0, "no failure was counted");
    site.all_well(&pods)?;
    site.stage.finish()
}

fn hangs(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, [HIGH, LOW], "runtimeRequestTimeout: 3s\n", PERIOD)?;
    let next = site.import_to(0, 76.0)?;
    let pods = site.pods(&[1, 2])?;
    for (number, deal) in [RemovalAction::Hang, RemovalAction::NoAnswer].into_iter().enumerate() {
        site.ground.proxy.rule(move |number, _| if number == 0 { deal } else { RemovalAction::Pass });
        let before = site.ground.proxy.removals().len();
        fill(&site)?;
        eventually(context.patiently(20), "nothing was to be removed", || {
            Ok((site.ground.proxy.removals().len() > before).then_some(()))
        })?;
        // Nobody else waits for it.
        let name = format!("meanwhile{number}");
        site.stage.put([stays(&name, &image(next - 1))])?;
        site.stage.up(&name)?;
        site.rests_below(LOW, 60)?;
        let removals = site.ground.proxy.removals();
        ensure!(removals.len() > before + 1, "nothing was removed after {deal:?}");
        let first = &removals[before];
        if deal == RemovalAction::NoAnswer {
            ensure!(first.after.is_some(), "it was not carried out");
        }
        site.all_well(&pods)?;
    }
    site.stage.finish()
}
