//! Blocking work on threads that are bounded by purpose, so that work of one kind which takes long, or never
//! returns, delays no other kind.
//!
//! All threads are those of the tokio runtime: they are started when there is work and end after some idle
//! seconds. A semaphore for each [`Purpose`] bounds how many of them it can occupy; work beyond that waits,
//! in the order in which it was asked for. The runtime must allow [`threads`] blocking threads.
//!
//! File systems that are not the agent's own (`hostPath` volumes on NFS or FUSE) may never answer: [`Places`]
//! limits how long a caller waits for them, and how many threads one of them can occupy.

mod places;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinError;

pub use places::{NotAnswering, Places};

/// State files: pods' records, images' times.
pub static STATE_FILES: Purpose = Purpose::new("state files", 8);
/// Directories and files of pods on the agent's own file system.
pub static POD_FILES: Purpose = Purpose::new("pod files", 16);
/// Removal of pods' volumes, which takes minutes for millions of files.
pub static VOLUME_CLEANING: Purpose = Purpose::new("volume cleaning", 16);
/// Paths that pods name, on file systems that may never answer. Called through [`Places`] only.
pub static HOST_PATHS: Purpose = Purpose::new("host paths", 128);
/// Reading how much pods use of the disks.
pub static DISK_USE: Purpose = Purpose::new("disk use", 4);
/// Reading how full the node's file systems are.
pub static FILE_SYSTEMS: Purpose = Purpose::new("file systems", 16);
/// Looking for pods' directories and logs, and removing logs.
pub static TIDYING: Purpose = Purpose::new("tidying", 4);
/// Rotation and compression of container logs.
pub static LOG_ROTATION: Purpose = Purpose::new("log rotation", 8);
/// Reading container logs for clients.
pub static LOG_READING: Purpose = Purpose::new("log reading", 16);
/// Reading older events for subscribers; a slow one occupies its thread.
pub static HISTORY: Purpose = Purpose::new("journal history", 32);
/// Name look-ups of probes and hooks.
pub static LOOKUPS: Purpose = Purpose::new("name look-ups", 8);
/// Responses to HTTP scrapes; a slow client occupies its thread for some seconds.
pub static SCRAPES: Purpose = Purpose::new("scrapes", 4);
/// Readings of the node for gRPC.
pub static QUERIES: Purpose = Purpose::new("queries", 8);
/// Kills through cgroups, and reading who is to be killed.
pub static KILLS: Purpose = Purpose::new("kills", 8);
/// Reading what pods' cgroups use and are limited to.
pub static CGROUPS: Purpose = Purpose::new("cgroups", 4);
/// The kernel's device rules, as far as no pod's paths are involved.
pub static DEVICES: Purpose = Purpose::new("devices", 4);

/// Plugins with credentials for images, which may take a minute.
pub static PLUGINS: Purpose = Purpose::new("plugins", 4);

/// All purposes.
pub static ALL: [&Purpose; 17] = [
    &STATE_FILES,
    &POD_FILES,
    &VOLUME_CLEANING,
    &HOST_PATHS,
    &DISK_USE,
    &FILE_SYSTEMS,
    &TIDYING,
    &LOG_ROTATION,
    &LOG_READING,
    &HISTORY,
    &LOOKUPS,
    &SCRAPES,
    &QUERIES,
    &KILLS,
    &CGROUPS,
    &DEVICES,
    &PLUGINS,
];

/// Threads for what libraries do on blocking threads without a purpose (file and name look-ups of tokio,
/// workers that replace a blocked one).
const WITHOUT_PURPOSE: usize = 64;

/// How many blocking threads a runtime must allow so that no purpose waits for another.
pub fn threads() -> usize {
    ALL.iter().map(|purpose| purpose.threads).sum::<usize>() + WITHOUT_PURPOSE
}

/// Work in place panicked; the log has the panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it panicked")]
pub struct Panicked;

/// A kind of blocking work with a bound of its own.
#[derive(Debug)]
pub struct Purpose {
    name: &'static str,
    threads: usize,
    free: Semaphore,
}

impl Purpose {
    const fn new(name: &'static str, threads: usize) -> Self {
        Self { name, threads, free: Semaphore::const_new(threads) }
    }

    /// What it is called in metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many threads it occupies now.
    pub fn busy(&self) -> usize {
        self.threads - self.free.available_permits()
    }

    /// How many threads it can occupy.
    pub fn bound(&self) -> usize {
        self.threads
    }

    /// Runs `work` on a blocking thread once one of this purpose is free. The work is done to its end even if
    /// the caller stops waiting after it has begun; it is never begun if the caller stops waiting before
    /// that.
    ///
    /// # Errors
    /// The work panicked, or the runtime ends.
    pub fn run<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, JoinError>> + Send {
        self.run_boxed(Box::new(work))
    }

    /// Runs `work` on this thread once one of this purpose is free. Meanwhile the runtime's other tasks run
    /// on another thread, if it has several (`tokio::task::block_in_place`). For work that a client waits
    /// for: waking a thread on an idle CPU, and then this one, took 0.3 ms of a traced scrape on a virtual
    /// machine.
    ///
    /// # Errors
    /// The work panicked.
    pub async fn run_in_place<T>(&'static self, work: impl FnOnce() -> T) -> Result<T, Panicked> {
        let _permit = self.permit().await;
        let has_several = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let work = || if has_several { tokio::task::block_in_place(work) } else { work() };
        // A panic ends the work alone, as it does on a blocking thread.
        catch_unwind(AssertUnwindSafe(work)).map_err(|_| Panicked)
    }

    /// The same with one type for all work with this result: the async runtime has code for each type.
    async fn run_boxed<T: Send + 'static>(
        &'static self,
        work: Box<dyn FnOnce() -> T + Send>,
    ) -> Result<T, JoinError> {
        let permit = self.permit().await;
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        })
        .await
    }

    /// Starts `work` on a blocking thread of `runtime`, as soon as one of this purpose is free, and does not
    /// wait for it.
    pub fn start(&'static self, runtime: &Handle, work: impl FnOnce() + Send + 'static) {
        let work: Box<dyn FnOnce() + Send> = Box::new(work);
        match self.free.try_acquire() {
            Ok(permit) => begin(runtime, permit, work),
            Err(_) => {
                let own = runtime.clone();
                runtime.spawn(async move { begin(&own, self.permit().await, work) });
            }
        }
    }

    async fn permit(&'static self) -> Option<SemaphorePermit<'static>> {
        // An error only for a closed semaphore: these are never closed.
        self.free.acquire().await.ok()
    }
}

fn begin(runtime: &Handle, permit: impl Send + 'static, work: impl FnOnce() + Send + 'static) {
    runtime.spawn_blocking(move || {
        let _permit = permit;
        work();
    });
}

#[cfg(test)]
mod tests;
