//! Changes in directories (inotify(7)): the events one by one for a thread that polls, or only a wake-up for
//! async code; `next_change`: files whose next change is reported.

mod next_change;

pub use next_change::{Changed, NextChange};

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::unix::AsyncFd;

/// Watched files and directories, and the events of their changes. Never blocks: the descriptor is readable
/// when there are events.
#[derive(Debug)]
pub struct EventQueue(Inotify);

impl EventQueue {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// As of inotify_init1(2).
    pub fn new() -> io::Result<Self> {
        Ok(Self(Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?))
    }

    /// Watches another file or directory. If it is watched already, it keeps its descriptor, and these flags
    /// replace the earlier ones.
    ///
    /// # Errors
    /// As of inotify_add_watch(2).
    pub fn add(&self, path: &Path, flags: AddWatchFlags) -> io::Result<WatchDescriptor> {
        Ok(self.0.add_watch(path, flags)?)
    }

    /// Ends a watch. It is no error if the kernel has ended it because the file or directory was removed.
    pub fn remove(&self, watched: WatchDescriptor) {
        let _ = self.0.rm_watch(watched);
    }

    /// The next events, as many as one read(2) gives; empty when there are none.
    pub fn read(&self) -> Vec<InotifyEvent> {
        self.0.read_events().unwrap_or_default()
    }
}

impl EventQueue {
    /// The same descriptor, for the runtime to wait for. Must be called inside a tokio runtime.
    fn readable(&self) -> io::Result<AsyncFd<OwnedFd>> {
        let same = self.as_fd().try_clone_to_owned()?;
        // SAFETY: an OwnedFd is the same open descriptor as long as it lives.
        Ok(unsafe { AsyncFd::register(same) }?)
    }
}

impl AsFd for EventQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Watched directories whose changes wake async code. Events are not distinguished: the users read everything
/// again after any of them.
#[derive(Debug)]
pub struct Watch {
    queue: EventQueue,
    /// The same descriptor, for the runtime to wait for.
    readable: AsyncFd<OwnedFd>,
}

impl Watch {
    /// Watches nothing yet. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// As of inotify_init1(2) and epoll_ctl(2).
    pub fn new() -> io::Result<Self> {
        let queue = EventQueue::new()?;
        let readable = queue.readable()?;
        Ok(Self { queue, readable })
    }

    /// Watches another file or directory. If it is watched already, these flags replace the earlier ones.
    ///
    /// # Errors
    /// As of inotify_add_watch(2).
    pub fn add(&self, path: &Path, flags: AddWatchFlags) -> io::Result<()> {
        self.queue.add(path, flags).map(drop)
    }

    /// Waits for the next event; all pending events count as one.
    ///
    /// # Errors
    /// As of read(2).
    pub async fn changed(&self) -> io::Result<()> {
        loop {
            let mut ready = self.readable.readable().await?;
            let (mut any, mut events) = (false, [0; 4096]);
            loop {
                match nix::unistd::read(self.readable.get_ref(), &mut events) {
                    Ok(_) => any = true,
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::EINTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            ready.clear_ready();
            if any {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn several_events_wake_once() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::new().unwrap();
        watch.add(dir.path(), AddWatchFlags::IN_CREATE).unwrap();
        for name in ["a", "b"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        watch.changed().await.unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(20), watch.changed()).await.is_err());
        assert!(watch.add(&dir.path().join("missing"), AddWatchFlags::IN_CREATE).is_err());
    }
}
