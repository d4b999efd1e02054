//! The threads that take records from the ring buffer as soon as the kernel puts them there.
//!
//! There are two, on different CPUs, and whichever runs first reads. The kernel reports each OOM kill on the
//! console right after the tracepoint, on the CPU of the kill and without being preempted: on a serial
//! console that takes milliseconds, and a reader woken on that CPU would have to wait for it.

use parking_lot::Mutex;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aya::maps::{MapData, RingBuf};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::eventfd::EventFd;
use nix::unistd::Pid;
use nodewarden_ebpf_abi::Record;
use nodewarden_tasks::parts;
use tracing::{error, warn};

use super::error::KernelError;
use super::priority::raise_priority;

/// How long the events of one wake-up may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Reads the ring until dropped.
pub struct RingReader {
    stop: Arc<EventFd>,
    threads: Vec<JoinHandle<()>>,
}

/// The ring and what is done with its records; one thread at a time.
struct Shared<F> {
    ring: RingBuf<MapData>,
    on_record: F,
}

impl<F: FnMut(Record)> Shared<F> {
    fn drain(&mut self) {
        while let Some(item) = self.ring.next() {
            match Record::decode(&item) {
                Some(record) => (self.on_record)(record),
                None => warn!(bytes = item.len(), "unknown record in the ring buffer"),
            }
        }
    }
}

impl RingReader {
    /// Starts the threads; `on_record` is called on one of them for every record, in the ring's order.
    ///
    /// # Errors
    /// A thread or the stop signal cannot be created.
    pub fn start(
        ring: RingBuf<MapData>,
        on_record: impl FnMut(Record) + Send + 'static,
    ) -> Result<Self, KernelError> {
        let stop = Arc::new(EventFd::new().map_err(KernelError::Poll)?);
        let ring_fd = Arc::new(clone_fd(&ring)?);
        let shared = Arc::new(Mutex::new(Shared { ring, on_record }));
        let mut reader = Self { stop, threads: Vec::new() };
        for cpus in halves() {
            let (shared, ring_fd, stop) = (shared.clone(), ring_fd.clone(), reader.stop.clone());
            let part = parts::register("events", LIMIT);
            let run = move || {
                settle(cpus.as_ref());
                loop {
                    part.progress();
                    shared.lock().drain();
                    part.waits();
                    match wait(ring_fd.as_fd(), &stop) {
                        Ok(true) => {}
                        Ok(false) => return part.end(),
                        Err(cause) => {
                            // The end of the part, and with that of the agent.
                            error!(%cause, "cannot wait for kernel events: no more will be seen");
                            return;
                        }
                    }
                }
            };
            let thread = thread::Builder::new().name("events".into()).spawn(run);
            reader.threads.push(thread.map_err(KernelError::Thread)?);
        }
        Ok(reader)
    }
}

fn clone_fd(ring: &RingBuf<MapData>) -> Result<std::os::fd::OwnedFd, KernelError> {
    // SAFETY: the ring owns its descriptor for longer than the borrow.
    let fd = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    fd.try_clone_to_owned().map_err(KernelError::Thread)
}

/// The CPUs of each thread: those that this process may use, divided between two. Where it may use only one,
/// there is one thread, which is not bound to a CPU.
fn halves() -> Vec<Option<CpuSet>> {
    let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else { return vec![None] };
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false)).collect();
    if cpus.len() < 2 {
        return vec![None];
    }
    (0..2)
        .map(|half| {
            let mut set = CpuSet::new();
            let taken = cpus.iter().skip(half).step_by(2).all(|cpu| set.set(*cpu).is_ok());
            taken.then_some(set)
        })
        .collect()
}

/// Binds the calling thread to its CPUs and raises its priority.
fn settle(cpus: Option<&CpuSet>) {
    if let Some(error) = cpus.and_then(|cpus| sched_setaffinity(Pid::from_raw(0), cpus).err()) {
        warn!(%error, "cannot place an event reader: some events may come milliseconds late");
    }
    if let Err(error) = raise_priority() {
        warn!(%error, "cannot raise an event reader's priority: events may come late under full load");
    }
}

/// Sleeps until there is a record (true) or the reader is to stop (false).
fn wait(ring: BorrowedFd<'_>, stop: &EventFd) -> Result<bool, KernelError> {
    let mut fds = [PollFd::new(ring, PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) => return Ok(!fds[1].any().unwrap_or(false)),
            Err(nix::Error::EINTR) => {}
            Err(cause) => return Err(KernelError::Poll(cause)),
        }
    }
}

impl Drop for RingReader {
    fn drop(&mut self) {
        let _ = self.stop.write(1);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
