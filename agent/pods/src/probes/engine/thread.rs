//! The thread of the engine, with a tokio runtime of its own that runs nothing else.

use std::io;
use std::thread;

use tokio::runtime::{Builder, EnterGuard, Handle};
use tokio::sync::oneshot;
use tracing::warn;

use nodewarden_tasks::blocking;

/// The thread ends when this is dropped, and with it what runs there.
#[derive(Debug)]
pub struct EngineThread {
    runtime: Handle,
    /// Dropped, it ends the thread.
    _end: oneshot::Sender<()>,
}

impl EngineThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(blocking::threads())
            .thread_name("probes")
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let run = move || {
            // Probes are to begin in time on a busy node, too.
            if let Err(error) = nodewarden_machine::ebpf::raise_priority() {
                warn!(%error, "cannot raise the priority of probes: they may begin late under full load");
            }
            // An error: the sender is dropped.
            drop(runtime.block_on(ended));
            // What never returns, as the look-up of a name, is not waited for.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("probes".into()).spawn(run)?;
        Ok(Self { runtime: handle, _end: end })
    }

    /// What is spawned as long as the result exists runs on the thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }
}
