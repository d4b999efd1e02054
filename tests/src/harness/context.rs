//! What a test is given: where the binaries are, what to call its things, and where its files go.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::NAME_PREFIX;
use crate::fixture::{Layout, TempDir};

/// One test's (or bench's) surroundings.
pub struct Context {
    /// The `nodewarden` binary.
    pub agent: PathBuf,
    /// This binary, which also plays the workers.
    pub own: PathBuf,
    /// Name of the test or bench.
    pub name: String,
    /// The machine's cgroup hierarchies.
    pub layout: Arc<Layout>,
    /// A directory of this test's own, removed when it ends.
    pub temp: TempDir,
    /// Factor on every time-out (emulated machines are slow). Figures under test are not stretched.
    pub patience: u32,
    runner: u32,
    problems: Arc<Mutex<Vec<String>>>,
}

impl Context {
    /// `runner` is the pid of the process that will look for leftovers.
    pub fn new(
        agent: PathBuf,
        own: PathBuf,
        name: &str,
        runner: u32,
        patience: u32,
        layout: Layout,
    ) -> std::io::Result<Self> {
        let temp = TempDir::new(&format!("{NAME_PREFIX}{runner}-{name}"))?;
        Ok(Self {
            agent,
            own,
            name: name.to_owned(),
            layout: Arc::new(layout),
            temp,
            patience: patience.max(1),
            runner,
            problems: Arc::default(),
        })
    }

    /// `nodewarden-test-<runner>-<test>`: the name of every cgroup root and directory of this test.
    pub fn prefix(&self) -> String {
        format!("{NAME_PREFIX}{}-{}", self.runner, self.name)
    }

    /// The process that will look for leftovers.
    pub fn runner(&self) -> u32 {
        self.runner
    }

    /// A time-out of `seconds` on an ordinary machine.
    pub fn patiently(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds) * self.patience
    }

    /// How often to do something: the first number on an ordinary machine, the second on an emulated one (where
    /// time-outs are stretched).
    pub fn scaled<N: Copy>(&self, [full, few]: [N; 2]) -> N {
        if self.patience > 1 { few } else { full }
    }

    /// Where fixtures put what goes wrong while they are dropped: it fails the test in the end.
    pub fn problems(&self) -> Problems {
        Problems(Arc::clone(&self.problems))
    }
}

/// Faults found where no `Result` can be returned (in `Drop`).
#[derive(Clone, Default)]
pub struct Problems(Arc<Mutex<Vec<String>>>);

impl Problems {
    pub fn add(&self, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
