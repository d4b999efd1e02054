//! Files whose next change is reported, once: what is written all the time costs one event, and what is never
//! written costs nothing.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags as Mask, WatchDescriptor};
use tokio::io::unix::AsyncFd;

use super::EventQueue;

/// Written, removed, moved, or with another link count or owner; the path itself, not what a link leads to.
const CHANGE: Mask =
    Mask::IN_MODIFY.union(Mask::IN_ATTRIB).union(Mask::IN_DELETE_SELF).union(Mask::IN_MOVE_SELF);
const ONCE: Mask = Mask::IN_ONESHOT.union(Mask::IN_DONT_FOLLOW);

/// Watched files; each watch ends with the first change.
#[derive(Debug)]
pub struct NextChange {
    queue: EventQueue,
    /// The same descriptor, for the runtime to wait for.
    readable: AsyncFd<OwnedFd>,
}

/// Files that changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Watches that have ended, some of them twice.
    pub watches: Vec<WatchDescriptor>,
    /// The kernel had no room for more events: any other file may have changed.
    pub lost: bool,
}

impl NextChange {
    /// Watches nothing yet. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// As of inotify_init1(2) and epoll_ctl(2).
    pub fn new() -> io::Result<Self> {
        let queue = EventQueue::new()?;
        let readable = queue.readable()?;
        Ok(Self { queue, readable })
    }

    /// Watches a file until its next change. Blocks while the path is looked up.
    ///
    /// # Errors
    /// As of inotify_add_watch(2): the file is missing, or there are as many watches as a user may have.
    pub fn watch(&self, path: &Path) -> io::Result<WatchDescriptor> {
        self.queue.add(path, CHANGE | ONCE)
    }

    /// Ends a watch; one that has ended by itself is ignored.
    pub fn forget(&self, watch: WatchDescriptor) {
        self.queue.remove(watch);
    }

    /// What has changed since the last call. Never blocks.
    pub fn take(&self) -> Changed {
        let mut changed = Changed::default();
        loop {
            let events = self.queue.read();
            if events.is_empty() {
                return changed;
            }
            changed.lost |= events.iter().any(|event| event.mask.contains(Mask::IN_Q_OVERFLOW));
            changed.watches.extend(events.into_iter().map(|event| event.wd));
        }
    }

    /// Waits until something has changed since the last call of this or of [`Self::take`], and returns it.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// As of epoll_wait(2).
    pub async fn changed(&self) -> io::Result<Changed> {
        loop {
            let mut ready = self.readable.readable().await?;
            let changed = self.take();
            // After the queue was found empty: what comes from now on makes it ready again.
            ready.clear_ready();
            if changed != Changed::default() {
                return Ok(changed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    async fn within(watched: &NextChange, millis: u64) -> Option<Changed> {
        tokio::time::timeout(Duration::from_millis(millis), watched.changed()).await.ok().map(Result::unwrap)
    }

    #[tokio::test]
    async fn a_file_is_reported_once_until_it_is_watched_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut file = fs::File::create(&path).unwrap();
        let watched = NextChange::new().unwrap();
        assert!(watched.watch(&dir.path().join("missing")).is_err());
        for _ in 0..2 {
            let watch = watched.watch(&path).unwrap();
            assert_eq!(within(&watched, 20).await, None, "nothing was written");
            file.write_all(b"line").unwrap();
            let changed = within(&watched, 5000).await.unwrap();
            assert!(changed.watches.contains(&watch) && !changed.lost, "{changed:?}");
            file.write_all(b"line").unwrap();
            assert_eq!(within(&watched, 20).await, None, "it is not watched any more");
        }
        let watch = watched.watch(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(watched.take().watches.contains(&watch), "a removed file is reported while it is open");
        drop(file);
        let other = dir.path().join("other");
        fs::write(&other, "").unwrap();
        watched.forget(watched.watch(&other).unwrap());
        let _ended = watched.take();
        fs::write(&other, "line").unwrap();
        assert_eq!(watched.take(), Changed::default());
    }
}
