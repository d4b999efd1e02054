//! What a test is given: paths of the binaries, the prefix for its names, and a directory for its files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::NAME_PREFIX;
use crate::fixture::{Layout, TempDir};
use parking_lot::Mutex;

/// The environment of one test or bench.
pub struct Context {
    /// The `nodewarden` binary.
    pub agent: PathBuf,
    /// This binary, which also runs as the workers.
    pub own: PathBuf,
    /// Name of the test or bench.
    pub name: String,
    /// The machine's cgroup hierarchies.
    pub layout: Arc<Layout>,
    /// A directory of this test alone, removed when the test ends.
    pub temp: TempDir,
    /// Factor for every time-out, because emulated machines are slow. Values under test are not multiplied.
    pub patience: u32,
    runner: u32,
    problems: Arc<Mutex<Vec<String>>>,
}

impl Context {
    /// Creates the test's directory. `runner` is the pid of the process that will look for leftovers.
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

    /// The pid of the process that will look for leftovers.
    pub fn runner(&self) -> u32 {
        self.runner
    }

    /// A time-out of `seconds`, multiplied by the patience factor.
    pub fn patiently(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds) * self.patience
    }

    /// How often to repeat something: `full` on an ordinary machine, `few` on an emulated one (where the
    /// patience factor is above 1).
    pub fn scaled<N: Copy>(&self, [full, few]: [N; 2]) -> N {
        if self.patience > 1 { few } else { full }
    }

    /// Where fixtures report errors that occur while they are dropped. Any of them fails the test.
    pub fn problems(&self) -> Problems {
        Problems(Arc::clone(&self.problems))
    }
}

/// Collects errors found where no `Result` can be returned (in `Drop`).
#[derive(Clone, Default)]
pub struct Problems(Arc<Mutex<Vec<String>>>);

impl Problems {
    pub fn add(&self, text: String) {
        self.0.lock().push(text);
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}
