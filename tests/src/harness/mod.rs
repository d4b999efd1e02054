//! The test harness: one process a test, so that a time-out, a panic or a crash of one test costs the others
//! nothing and what it left behind is found by name.

mod capability;
mod context;
mod failure;
mod interrupt;
mod leftovers;
mod process;
mod runner;

pub use capability::{Capability, GOLDEN, OWN_MACHINE, golden, lower_own_oom_score, tool};
pub use context::{Context, Problems};
pub use failure::Failure;
pub use interrupt::clean_up_when_interrupted;
pub use leftovers::{Leftover, Sweep};
pub use process::command_line_contains;
pub use runner::{Options, REPORTED, run};

/// One end-to-end test.
#[derive(Clone, Copy)]
pub struct Test {
    /// Unique name; `--list` shows it and filters match parts of it.
    pub name: &'static str,
    /// What the machine must offer; a missing one skips the test with the reason.
    pub needs: &'static [Capability],
    /// The test is killed and failed after so many seconds (times `--patience`).
    pub timeout_seconds: u64,
    /// False for tests of the workloads alone.
    pub needs_agent: bool,
    pub run: fn(&Context) -> Result<(), Failure>,
}

impl Test {
    /// A test of the agent that ends within a minute and needs root.
    pub const fn new(name: &'static str, run: fn(&Context) -> Result<(), Failure>) -> Self {
        Self { name, needs: &[Capability::Root], timeout_seconds: 60, needs_agent: true, run }
    }

    pub const fn needs(self, needs: &'static [Capability]) -> Self {
        Self { needs, ..self }
    }

    pub const fn timeout(self, timeout_seconds: u64) -> Self {
        Self { timeout_seconds, ..self }
    }

    pub const fn without_agent(self) -> Self {
        Self { needs_agent: false, ..self }
    }
}

/// Every name of ours (cgroup, directory) begins with this, then the runner's pid.
pub const NAME_PREFIX: &str = "nodewarden-test-";

/// The agent's binary: as given, else beside this one.
pub fn agent_path(given: Option<std::path::PathBuf>) -> std::path::PathBuf {
    given.unwrap_or_else(|| std::env::current_exe().unwrap_or_default().with_file_name("nodewarden"))
}
