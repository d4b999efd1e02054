//! The part of the setup that takes minutes and is needed late, made while end-to-end tests run.

use std::thread::{self, JoinHandle};

use crate::setup::{self, Purpose, SetupError};
use xtask_common::layout::Layout;
use xtask_common::process;

/// A setup under way.
#[derive(Debug)]
pub struct Setup(JoinHandle<Result<(), SetupError>>);

impl Setup {
    /// Begins with what is missing for the tests. It runs when nothing else wants a CPU, so that tests that
    /// measure times find it idle.
    pub fn begin(layout: &Layout) -> Self {
        let layout = layout.clone();
        Self(thread::spawn(move || {
            // Refused: then the tests that run meanwhile share the CPUs with it.
            drop(process::take_idle_time());
            setup::ensure(&layout, Purpose::Test)
        }))
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When a step that can't be done without fails.
    pub fn wait(self) -> Result<(), SetupError> {
        self.0.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
