//! The agent on other kernels, in virtual machines.

use std::io::{IsTerminal, stderr};
use std::thread::{self, JoinHandle};

use super::TestError;
use super::clock::Clock;
use crate::vm;
use nodewarden_vm::VmError;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::tally::Tally;

/// Getting what guests need while other things are built.
#[derive(Debug)]
pub struct Fetching(Option<JoinHandle<()>>);

impl Fetching {
    /// Begins, unless standard error is a terminal, where its progress would be mixed with that of the builds: what is
    /// missing is then got when the guests' turn comes.
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

/// The end-to-end tests in every guest, and the tests of the harness itself. A machine that can't boot guests has them
/// counted as skipped.
pub struct Guests {
    layout: Layout,
    filter: Option<String>,
    running: Option<JoinHandle<Result<Tally, VmError>>>,
}

impl Guests {
    /// Begins nothing yet.
    pub fn new(layout: &Layout, filter: Option<&str>) -> Self {
        Self { layout: layout.clone(), filter: filter.map(str::to_owned), running: None }
    }

    /// Begins, beside tests that wait more than they work: the guests take what these leave of the CPUs. The programs
    /// for the guests are built.
    pub fn begin(&mut self) {
        let (layout, filter) = (self.layout.clone(), self.filter.clone());
        self.running.get_or_insert_with(|| {
            thread::spawn(move || {
                if let Err(error) = process::take_idle_time() {
                    println!("the virtual machines run with the priority of all others: {error}");
                }
                everything(&layout, filter.as_deref())
            })
        });
    }

    /// Waits for the guests, of which those that have not begun do now.
    ///
    /// # Errors
    /// When the programs can't be built, or guests not be booted for a fault of ours.
    pub fn finish(self, clock: &mut Clock) -> Result<Tally, TestError> {
        match self.running {
            Some(running) => Ok(running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?),
            None => {
                vm::build(&self.layout)?;
                clock.ended("programs of the virtual machines");
                Ok(everything(&self.layout, self.filter.as_deref())?)
            }
        }
    }
}

fn everything(layout: &Layout, filter: Option<&str>) -> Result<Tally, VmError> {
    println!("running the end-to-end tests in virtual machines");
    nodewarden_vm::everything(layout, filter)
}
