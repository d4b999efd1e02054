//! The thread that takes records from the ring buffer the moment the kernel puts them there.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use aya::maps::{MapData, RingBuf};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use tracing::{error, warn};

use super::decode::{Record, decode};
use super::error::KernelError;

const NICE: i32 = -20;

/// Reads the ring until dropped.
pub struct RingReader {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl RingReader {
    /// Starts the thread; `on_record` is called on it for every record.
    ///
    /// # Errors
    /// When the thread or its stop signal cannot be made.
    pub fn start(
        mut ring: RingBuf<MapData>,
        mut on_record: impl FnMut(Record) + Send + 'static,
    ) -> Result<Self, KernelError> {
        let stop = Arc::new(EventFd::new().map_err(KernelError::Poll)?);
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("events".into())
            .spawn(move || {
                if let Err(error) = raise_priority() {
                    warn!(%error, "cannot raise the event reader's priority: events may come late under full load");
                }
                loop {
                    while let Some(item) = ring.next() {
                        match decode(&item) {
                            Some(record) => on_record(record),
                            None => warn!(bytes = item.len(), "unknown record in the ring buffer"),
                        }
                    }
                    match wait(&ring, &stopped) {
                        Ok(true) => {}
                        Ok(false) => return,
                        Err(cause) => {
                            error!(%cause, "cannot wait for kernel events: no more will be seen");
                            return;
                        }
                    }
                }
            })
            .map_err(KernelError::Thread)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Raises the calling thread's priority to nice −20, for threads that sleep nearly always and must be on a CPU at
/// once when something dies.
///
/// # Errors
/// Without CAP_SYS_NICE; harmless but for latency under full load.
pub fn raise_priority() -> io::Result<()> {
    // SAFETY: plain system call on the calling thread (who 0).
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sleeps until there is a record (true) or the reader is to stop (false).
fn wait(ring: &RingBuf<MapData>, stop: &EventFd) -> Result<bool, KernelError> {
    // SAFETY: the ring owns its descriptor for longer than the borrow.
    let ring_fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(ring.as_raw_fd()) };
    let mut fds =
        [PollFd::new(ring_fd, PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
