//! The thread of mode augment: reads the node once a period, asks the features what they want, and writes it
//! through the ledger, or only says what it would write.

mod gather;
mod limit_files;
mod limit_text;
mod limits;
mod report;
mod round;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nodewarden_config::AugmentSettings;
use nodewarden_machine::cgroup::Layout;
use nodewarden_manifest::{Pod, QosClass};
use nodewarden_model::LimitWrite;
use nodewarden_tasks::parts::{self, Part};

use crate::ledger::Ledger;
use crate::ledger::units::UnitFiles;
pub use report::{Report, undone};
use round::Rounds;

/// A pod that the API server has bound to this node and whose cgroup is there. Static pods are none of these.
#[derive(Debug, Clone)]
pub struct SeenPod {
    /// As the API server has it.
    pub pod: Arc<Pod>,
    /// The QoS class by the cgroup that it is in.
    pub qos: QosClass,
    /// Its cgroup, below the mounts.
    pub cgroup: String,
    /// How long the cgroup has been known.
    pub age: Duration,
    /// Its containers.
    pub containers: Vec<SeenContainer>,
}

/// A container of such a pod.
#[derive(Debug, Clone)]
pub struct SeenContainer {
    /// Its name in the spec; empty if it is not known.
    pub name: String,
    /// The runtime's id.
    pub id: String,
    /// Its cgroup, below the mounts.
    pub cgroup: String,
    /// How long the cgroup has been known.
    pub age: Duration,
}

/// What the thread needs.
pub struct Deps {
    /// `nodewarden.augment`.
    pub settings: AugmentSettings,
    /// The machine's cgroups.
    pub layout: Layout,
    /// The pods that may be written.
    pub pods: Box<dyn Fn() -> Vec<SeenPod> + Send>,
    /// The greatest eviction threshold of `memory.available`, in bytes.
    pub threshold: u64,
    /// Takes what was done or would have been.
    pub report: Box<dyn Fn(Report) + Send>,
    /// Takes the writes to limits of cgroups since the last call, oldest first; `None` where they are not
    /// seen.
    pub limit_writes: Box<dyn Fn() -> Option<Vec<LimitWrite>> + Send>,
    /// `/proc`, or what stands for it.
    pub proc: PathBuf,
}

/// The running thread. Dropping it ends the thread, which puts everything back.
#[derive(Debug)]
pub struct Augment {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Augment {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How long a round may take.
const LIMIT: Duration = Duration::from_secs(120);

impl Augment {
    /// Starts the thread. The ledger has to be empty: what an earlier agent left is put back first.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(deps: Deps, ledger: Ledger<UnitFiles>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let part = parts::register("augment", LIMIT);
        let thread = thread::Builder::new().name("augment".into()).spawn(move || {
            run(deps, ledger, &stopped, &part);
            part.end();
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

fn run(deps: Deps, ledger: Ledger<UnitFiles>, stopped: &Receiver<()>, part: &Part) {
    let period = deps.settings.period;
    let begun = Instant::now();
    let mut rounds = Rounds::new(deps, ledger);
    loop {
        part.progress();
        rounds.round(begun.elapsed());
        part.waits();
        if stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    part.progress();
    rounds.end();
}
