//! The agent as a process: who may run it, its directory, its threads and its signals.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::signal::{SigSet, Signal};
use tokio::runtime::Runtime;
use tokio::signal::unix::{self, SignalKind};
use tracing::{info, warn};

use super::error::DaemonError;

/// Threads that serve requests. More would only add to the agent's footprint.
const SERVERS: usize = 2;
/// Threads for blocking work, such as readings of the node.
const BLOCKING: usize = 4;
/// Bytes of stack for each of them: a debug build needs more than 1 MiB for a pod's sync. Only pages that are
/// touched use memory.
const STACK: usize = 4 << 20;

/// # Errors
/// The agent does not run as root.
pub fn require_root() -> Result<(), DaemonError> {
    let uid = nix::unistd::geteuid();
    if uid.is_root() { Ok(()) } else { Err(DaemonError::NotRoot { uid: uid.as_raw() }) }
}

/// Creates the state directory, readable by root only, and those above it.
///
/// # Errors
/// It cannot be created.
pub fn create_state_dir(path: &Path) -> Result<(), DaemonError> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(path);
    created.map_err(|source| DaemonError::StateDir { path: path.to_owned(), source })
}

/// Unblocks the signals that end the agent: the process that started it may have blocked them, and threads
/// inherit that.
///
/// # Errors
/// As of pthread_sigmask(3).
pub fn unblock_signals() -> Result<(), DaemonError> {
    let ends = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    ends.thread_unblock().map_err(|errno| signals_failed(errno.into()))
}

/// The tokio runtime for everything that is asynchronous.
///
/// # Errors
/// Its threads cannot be started.
pub fn server_threads() -> Result<Runtime, DaemonError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(SERVERS)
        .max_blocking_threads(BLOCKING)
        .thread_stack_size(STACK)
        .thread_name("serve")
        .on_thread_start(raise_priority)
        .enable_all()
        .build()
        .map_err(|source| DaemonError::Start { what: "server threads", source })
}

/// Lets the serving threads run before batch work: they sleep nearly always, and an event should reach its
/// reader at once. They are the first threads that the runtime starts; those for blocking work come later and
/// keep their priority.
fn raise_priority() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    if STARTED.fetch_add(1, Ordering::Relaxed) >= SERVERS {
        return;
    }
    if let Err(error) = nodewarden_machine::ebpf::raise_priority() {
        warn!(%error, "cannot raise the serving threads' priority: events may come late under full load");
    }
}

/// SIGINT and SIGTERM.
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Signals {
    /// From now on these signals do not kill the process. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn listen() -> Result<Self, DaemonError> {
        let listen = |kind| unix::signal(kind).map_err(signals_failed);
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for one of them, and logs which.
    pub async fn received(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => info!("interrupted"),
            _ = self.terminate.recv() => info!("terminated"),
        }
    }
}

fn signals_failed(source: io::Error) -> DaemonError {
    DaemonError::Start { what: "signal handler", source }
}
