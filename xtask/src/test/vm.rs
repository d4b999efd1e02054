//! The agent on other kernels, in virtual machines.

use std::io::{IsTerminal, stderr};
use std::thread::{self, JoinHandle};

use super::TestError;
use super::clock::Clock;
use crate::build::Programs;
use crate::vm;
use xtask_common::layout::Layout;
use xtask_common::tally::Tally;

/// Getting what guests need while other things are built.
#[derive(Debug)]
pub struct Fetching(Option<JoinHandle<()>>);

impl Fetching {
    /// Begins, unless standard error is a terminal, where its progress would be mixed with that of the
    /// builds: what is missing is then got when the guests' turn comes.
    pub fn begin(layout: &Layout) -> Self {
        if stderr().is_terminal() {
            return Self(None);
        }
        let layout = layout.clone();
        // An error comes again, and is reported, when the guests' turn comes.
        Self(Some(thread::spawn(move || drop(nodewarden_vm::fetch(&layout)))))
    }

    /// Waits for the end, so that tests that measure times run undisturbed.
    pub fn wait(&mut self) {
        if let Some(thread) = self.0.take() {
            // A panic has been printed, and the guests' turn repeats what it left.
            let _ended = thread.join();
        }
    }
}

/// Runs the end-to-end tests in every guest, and the tests of the harness itself. A machine that can't boot
/// guests has them counted as skipped. No other test runs meanwhile: emulated machines that get only what
/// others leave of two CPUs miss time-outs.
///
/// # Errors
/// When the programs can't be built, or guests not be booted for a fault of ours.
pub fn run(layout: &Layout, filter: Option<&str>, clock: &mut Clock) -> Result<Tally, TestError> {
    vm::build(layout, Programs::Tested)?;
    clock.ended("programs of the virtual machines");
    println!("running the end-to-end tests in virtual machines");
    Ok(nodewarden_vm::everything(layout, filter)?)
}
