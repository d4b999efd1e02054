//! The agent as a process: who may run it, its directory, its threads and its signals.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{self, SignalKind};
use tracing::{error, info, warn};

use super::error::DaemonError;
use nodewarden_tasks::{blocking, pause};

/// Threads that run what is asynchronous. With a second one each of them wakes the other whenever two tasks
/// are ready: nine wake-ups a minute instead of three while ten pods are idle.
const SERVERS: usize = 1;
/// Bytes of stack for it and for each thread that does blocking work: a debug build needs more than
/// 1 MiB for a pod's sync. Only pages that are touched use memory.
const STACK: usize = 4 << 20;

/// # Errors
/// The agent does not run as root.
pub fn require_root() -> Result<(), DaemonError> {
    let uid = nix::unistd::geteuid();
    if uid.is_root() { Ok(()) } else { Err(DaemonError::NotRoot { uid: uid.as_raw() }) }
}

/// Sets the limit of open files of this process (`maxOpenFiles`; kubelet: `rlimit.SetNumFiles`), or as near
/// to it as the system allows: above the hard limit without CAP_SYS_RESOURCE, or above fs.nr_open, the hard
/// limit stays.
pub fn limit_open_files(most: u64) {
    let Err(errno) = setrlimit(Resource::RLIMIT_NOFILE, most, most) else { return };
    let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let lower = hard.min(most);
    match setrlimit(Resource::RLIMIT_NOFILE, lower, lower) {
        Ok(()) => info!("maxOpenFiles: {lower} files may be open, since {most} are not allowed: {errno}"),
        Err(errno) => warn!("maxOpenFiles: cannot set {lower}: {errno}"),
    }
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

/// The tokio runtime for everything that is asynchronous but HTTP.
///
/// # Errors
/// Its threads cannot be started.
pub fn server_threads() -> Result<Runtime, DaemonError> {
    pause::begin();
    threads("serve")
        .on_thread_start(raise_priority)
        .build()
        .map_err(|source| DaemonError::Start { what: "server threads", source })
}

/// The tokio runtime of the HTTP servers. A scrape reads the node on the thread that has received the request
/// and sends the text from there ([`blocking::Purpose::run_in_place`]), which no other task of the agent has
/// to wait for. Its threads have the priority that they were started with: text is nothing that a pod's
/// processes should wait for.
///
/// # Errors
/// Its threads cannot be started.
pub fn http_threads() -> Result<Runtime, DaemonError> {
    threads("http").build().map_err(|source| DaemonError::Start { what: "HTTP threads", source })
}

fn threads(name: &str) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(SERVERS)
        .max_blocking_threads(blocking::threads())
        // What is done each minute finds the thread of the last time; one that ended and a new one would be
        // two wake-ups more.
        .thread_keep_alive(Duration::from_secs(75))
        .thread_stack_size(STACK)
        .thread_name(name)
        .enable_all();
    builder
}

/// Lets the serving thread run before batch work: it sleeps nearly always, and an event should reach its
/// reader at once. It is the first thread that the runtime starts; those for blocking work come later and
/// keep their priority.
fn raise_priority() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    if STARTED.fetch_add(1, Ordering::Relaxed) >= SERVERS {
        return;
    }
    if let Err(error) = nodewarden_machine::ebpf::raise_priority() {
        warn!(%error, "cannot raise the serving thread's priority: events may come late under full load");
    }
}

/// No core file of this process is written, unless the limit is raised again: it would contain secrets of
/// pods. systemd's watchdog ends a process with SIGABRT, which writes one.
pub fn write_no_core_files() {
    let hard = getrlimit(Resource::RLIMIT_CORE).map_or(0, |(_, hard)| hard);
    // Lowering the soft limit needs no privilege.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, hard);
}

/// Ends the process after `longest` with `message`, unless it has ended by then.
pub fn end_at_last(longest: Duration, message: String) {
    let end = move || {
        std::thread::sleep(longest);
        error!("{message}; some parts do not end");
        std::process::exit(1);
    };
    // Without a thread it is systemd that ends the process.
    let _ = std::thread::Builder::new().name("last".into()).spawn(end);
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use nodewarden_storage::write_behind::WriteBehind;

    use super::*;

    /// The review's scenario: what cleans volumes, waits for hung file systems, looks names up and serves
    /// scrapes occupies every thread that it may have, and records are still written at once.
    #[test]
    fn records_are_written_while_all_other_blocking_work_hangs() {
        let runtime = server_threads().unwrap();
        let _in_runtime = runtime.enter();
        let mut held = Vec::new();
        for purpose in blocking::ALL.into_iter().filter(|own| own.name() != blocking::STATE_FILES.name()) {
            for _ in 0..=purpose.bound() {
                let (release, until) = std::sync::mpsc::channel::<()>();
                held.push(release);
                purpose.start(runtime.handle(), move || _ = until.recv());
            }
        }
        let begun = Instant::now();
        let record = WriteBehind::on_blocking_thread("a test", |_: u32| Ok::<_, io::Error>(()));
        record.save(1);
        let settled = async { tokio::time::timeout(Duration::from_secs(10), record.settled()).await };
        runtime.block_on(settled).expect("it is written").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        drop(held);
    }
}
