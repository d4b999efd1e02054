//! What is made while something else runs: parts of the setup that are needed later.

use std::thread::{self, JoinHandle};

use crate::setup::{self, Part, Purpose, SetupError};
use xtask_common::layout::Layout;
use xtask_common::process;

/// A setup under way.
#[derive(Debug)]
pub struct Setup(JoinHandle<Result<(), SetupError>>);

impl Setup {
    /// Begins with what is missing for the tests and compiles for minutes. It runs when nothing else wants a
    /// CPU, so that tests that measure times find it idle.
    pub fn begin_compiling(layout: &Layout) -> Self {
        let layout = layout.clone();
        Self(thread::spawn(move || {
            // Refused: then the tests that run meanwhile share the CPUs with it.
            drop(process::take_idle_time());
            setup::ensure(&layout, Purpose::Test)
        }))
    }

    /// Begins with what is missing for the tests and is only downloaded.
    pub fn begin_downloading(layout: &Layout) -> Self {
        let layout = layout.clone();
        Self(thread::spawn(move || setup::ensure_part(&layout, Purpose::Test, Part::First)))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When a step that can't be done without fails.
    pub fn wait(self) -> Result<(), SetupError> {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
