//! The test harness. Each test runs in a process of its own, so a time-out, a panic or a crash of one test
//! does not affect the others, and what it left behind is found by name.

mod attempts;
mod capability;
mod context;
mod failure;
mod interrupt;
mod kernel;
mod leftovers;
mod parallel;
mod process;
mod runner;

pub use capability::{
    Capability, GOLDEN, OWN_MACHINE, axe, golden, in_tools, lower_own_oom_score, rpm_folder, tool,
};
pub use context::{Context, Problems};
pub use failure::Failure;
pub use interrupt::clean_up_when_interrupted;
pub use kernel::{kernel_version, writers_are_seen_by};
pub use leftovers::{Leftover, Sweep};
pub use process::command_line_contains;
pub use runner::{Options, REPORTED, run};

/// One end-to-end test.
#[derive(Clone, Copy)]
pub struct Test {
    /// Unique name; `--list` shows it and filters match parts of it.
    pub name: &'static str,
    /// What the machine must have. If one of these is missing, the test is skipped with the reason.
    pub needs: &'static [Capability],
    /// The test is killed and fails after this many seconds (multiplied by `--patience`).
    pub timeout_seconds: u64,
    /// False for tests that only check the fixtures and workers.
    pub needs_agent: bool,
    /// Which other tests may run at the same time.
    pub beside: Beside,
    pub run: fn(&Context) -> Result<(), Failure>,
}

/// Which other tests may run at the same time as a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// No other: it looks at the whole machine, or its bounds are for a machine that does nothing else.
    None,
    /// A few: agent, runtime, cgroups and files are its own, it waits most of the time, and its bounds are
    /// not below a tenth of a second.
    Few,
    /// Several: as above, and nothing that it measures is below a second.
    Some,
}

impl Test {
    /// A test of the agent that needs root and ends within 60 seconds.
    pub const fn new(name: &'static str, run: fn(&Context) -> Result<(), Failure>) -> Self {
        Self {
            name,
            needs: &[Capability::Root],
            timeout_seconds: 60,
            needs_agent: true,
            beside: Beside::None,
            run,
        }
    }

    pub const fn needs(self, needs: &'static [Capability]) -> Self {
        Self { needs, ..self }
    }

    pub const fn timeout(self, timeout_seconds: u64) -> Self {
        Self { timeout_seconds, ..self }
    }

    /// May run while others run that may do so, see [`Beside::Some`].
    pub const fn in_parallel(self) -> Self {
        Self { beside: Beside::Some, ..self }
    }

    /// May run while a few others run that may do so, see [`Beside::Few`].
    pub const fn beside_few(self) -> Self {
        Self { beside: Beside::Few, ..self }
    }

    pub const fn without_agent(self) -> Self {
        Self { needs_agent: false, ..self }
    }
}

/// Every cgroup and directory of the tests has a name that begins with this prefix, followed by the runner's
/// pid.
pub const NAME_PREFIX: &str = "nodewarden-test-";

/// The agent's binary: `given`, or else `nodewarden` in the directory of this binary.
pub fn agent_path(given: Option<std::path::PathBuf>) -> std::path::PathBuf {
    given.unwrap_or_else(|| std::env::current_exe().unwrap_or_default().with_file_name("nodewarden"))
}
