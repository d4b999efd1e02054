//! The agent on this machine's kernel, by the program `nodewarden-e2e`.

use std::process::Command;
use std::thread;

use super::TestError;
use super::clock::Clock;
use crate::build::{self, Programs};
use xtask_common::layout::{self, GOLDEN_VARIABLE, Layout, Profile};
use xtask_common::process;
use xtask_common::tally::{Counts, Tally};

/// Tests at a time of those that do not disturb each other. One of them uses 10 to 110 % of a CPU and waits
/// otherwise: with four, two CPUs were measured to be 70 % busy.
const JOBS: usize = 4;

/// How many tests that fail are run a second time, in each of the two parts of a whole run.
pub const SECOND_ATTEMPTS: &str = "3";

/// Builds the agent and its end-to-end tests and runs them; quick ones test an agent that is not optimised,
/// which is too slow for some of the times that the tests bound. `before` is called before the first test.
///
/// # Errors
/// When they can't be built or started.
pub fn run(
    layout: &Layout,
    filter: Option<&str>,
    quick: bool,
    clock: &mut Clock,
    tally: &mut Tally,
    before: &mut dyn FnMut(),
) -> Result<(), TestError> {
    if !layout::is_root() {
        tally.skip("end-to-end tests", "they load kernel programs, which needs root");
        return Ok(());
    }
    build::host_programs(layout, Programs::tested(quick), false)?;
    before();
    clock.ended("programs");
    let mut command = command(layout);
    command.args(filter).args(["--jobs", &JOBS.to_string()]);
    if filter.is_none() {
        // The others run in `cluster::run_second_part`.
        command.args(["--part", "first", "--second-attempts", SECOND_ATTEMPTS]);
    }
    count(&mut command, filter.is_some(), tally)
}

/// Begins to build what [`run`] tests while other tests wait. Its end is not waited for: cargo makes
/// [`run`]'s own build wait for this one, and that one shows the errors.
pub fn build_ahead(layout: &Layout) {
    let layout = layout.clone();
    thread::spawn(move || {
        // Refused: then the tests that run meanwhile share the CPUs with it.
        drop(process::take_idle_time());
        drop(build::host_programs(&layout, Programs::Tested, true));
    });
}

/// The program with its agent.
pub fn command(layout: &Layout) -> Command {
    let mut command = layout.command(layout.program(Profile::Dev, "nodewarden-e2e"));
    command.arg("--agent").arg(layout.program(Profile::Dev, "nodewarden"));
    command.env("PATH", layout.path_with_tools());
    if let Some(golden) = layout.golden() {
        command.env(GOLDEN_VARIABLE, golden);
    }
    command
}

/// Runs the program and counts its tests. With `filtered` it may have none to run.
///
/// # Errors
/// When it can't be started.
pub fn count(command: &mut Command, filtered: bool, tally: &mut Tally) -> Result<(), TestError> {
    println!("running {}", process::line(command));

    let mut ours = Tally::default();
    let status = process::each_output_line(command, |line| {
        println!("{line}");
        ours.line(line);
    })?;
    // A filter that is meant for unit tests leaves none to run, which the program finds wrong.
    let none_chosen = filtered && ours.endings == 1 && ours.counts == Counts::default();
    if ours.endings == 0 || (!status.success() && ours.counts.failed == 0 && !none_chosen) {
        ours.fail(format!("the end-to-end tests, which did not come to their end ({status})"));
    }
    tally.add(ours);
    Ok(())
}
