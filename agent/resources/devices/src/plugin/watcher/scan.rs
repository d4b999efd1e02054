//! Scans the plugin watcher's directory with all directories below it, and waits for changes.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::sys::inotify::AddWatchFlags;
use nodewarden_machine::inotify::Watch;
use nodewarden_tasks::blocking;
use tracing::warn;

use super::known::SocketIdentity;

/// Number of sockets that are taken from the tree, and of directories that are looked into.
const MOST: usize = 1024;

/// The watched directory tree.
pub struct Tree {
    root: PathBuf,
    inotify: Option<Arc<Watch>>,
    /// Whether the root could be watched at the last scan.
    watched: bool,
    /// Whether it was reported that there is more than is taken.
    full: bool,
}

impl Tree {
    /// Must be called within a tokio runtime.
    pub fn new(root: PathBuf) -> Self {
        let inotify = Watch::new().inspect_err(|error| {
            warn!(%error, "cannot watch {} for changes: it is scanned every second", root.display());
        });
        Self { root, inotify: inotify.ok().map(Arc::new), watched: false, full: false }
    }

    /// Whether [`Self::changed`] notices changes.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Returns all sockets, and watches their directories from now on. Names that begin with a dot are left
    /// out (`handleCreateEvent`), and links are not followed. At most 1,024 sockets in as many directories.
    /// `None` if it panicked.
    pub async fn scan(&mut self) -> Option<BTreeMap<PathBuf, SocketIdentity>> {
        let scan = Scan { root: self.root.clone(), inotify: self.inotify.clone() };
        let Scanned { watched, full, found } = blocking::DEVICES.run(move || scan.run()).await.ok()?;
        self.watched = watched;
        if full && !self.full {
            warn!(
                "{} has more sockets or directories than {MOST}: the others are left out",
                self.root.display()
            );
        }
        self.full = full;
        Some(found)
    }

    /// Waits until something changes in a scanned directory; several changes wake once. Never returns without
    /// inotify.
    pub async fn changed(&self) {
        match &self.inotify {
            Some(watch) => {
                if let Err(error) = watch.changed().await {
                    warn!(%error, "cannot wait for changes in {}", self.root.display());
                    std::future::pending::<()>().await;
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// One scan, on a thread for blocking work.
struct Scan {
    root: PathBuf,
    inotify: Option<Arc<Watch>>,
}

/// What a scan found.
struct Scanned {
    /// The root is watched.
    watched: bool,
    /// There is more than is taken.
    full: bool,
    found: BTreeMap<PathBuf, SocketIdentity>,
}

impl Scan {
    fn run(&self) -> Scanned {
        let mut found = BTreeMap::new();
        let watched = self.watch(&self.root);
        let mut dirs = vec![self.root.clone()];
        let (mut looked, mut full) = (0, false);
        while let Some(dir) = dirs.pop() {
            looked += 1;
            // A directory that was removed or cannot be read has no sockets.
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten().filter(|e| !e.file_name().as_bytes().starts_with(b".")) {
                let Ok(kind) = entry.file_type() else { continue };
                if looked + dirs.len() >= MOST || found.len() >= MOST {
                    full = true;
                    break;
                }
                if kind.is_dir() {
                    // Watched before it is read, so that no change falls between the two.
                    self.watch(&entry.path());
                    dirs.push(entry.path());
                } else if kind.is_socket()
                    && let Some(identity) = identity(&entry)
                {
                    found.insert(entry.path(), identity);
                }
            }
        }
        Scanned { watched, full, found }
    }

    /// Watches a directory; one that is watched already stays so, because the kernel recognizes it.
    fn watch(&self, dir: &Path) -> bool {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        self.inotify.as_ref().is_some_and(|watch| watch.add(dir, flags).is_ok())
    }
}

fn identity(entry: &DirEntry) -> Option<SocketIdentity> {
    let metadata = entry.metadata().ok()?;
    let born = metadata.created().unwrap_or_else(|_| changed(&metadata));
    Some(SocketIdentity { device: metadata.dev(), inode: metadata.ino(), born })
}

fn changed(metadata: &Metadata) -> SystemTime {
    let since = |seconds, nanoseconds| {
        Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
    };
    SystemTime::UNIX_EPOCH + since(metadata.ctime(), metadata.ctime_nsec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use nodewarden_testing::HungFuse;

    use super::*;

    #[tokio::test]
    async fn a_tree_with_too_many_directories_or_sockets_is_looked_at_in_part() {
        let root = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(root.path().to_owned());
        drop(UnixListener::bind(root.path().join("a.sock")).unwrap());
        for n in 0..2 * MOST {
            fs::create_dir(root.path().join(format!("d{n}"))).unwrap();
        }
        assert!(tree.scan().await.unwrap().len() <= 1 && tree.full);
        (0..2 * MOST).for_each(|n| fs::remove_dir(root.path().join(format!("d{n}"))).unwrap());
        assert!(tree.scan().await.unwrap().len() == 1 && !tree.full);
        for n in 0..MOST {
            // The kernel keeps the file when the listener is dropped.
            drop(UnixListener::bind(root.path().join(format!("{n}.sock"))).unwrap());
        }
        assert_eq!(tree.scan().await.unwrap().len(), MOST);
        assert!(tree.full);
    }

    /// The test has one thread for everything asynchronous: if that thread scanned, it would hang until the
    /// file system ends by itself, and fail.
    #[tokio::test]
    async fn a_directory_that_hangs_holds_no_thread_of_the_async_runtime() {
        let root = tempfile::tempdir().unwrap();
        let Ok(fuse) = HungFuse::mount(root.path()) else {
            nodewarden_testing::skip("no FUSE file system can be mounted here");
            return;
        };
        let mut tree = Tree::new(root.path().to_owned());
        let scan = tokio::spawn(async move { tree.scan().await });
        let busy = || blocking::DEVICES.busy() > 0;
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if busy() {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(busy() && !scan.is_finished(), "the scan hangs on a thread for blocking work");
        drop(fuse);
        let found = tokio::time::timeout(Duration::from_secs(5), scan).await.unwrap().unwrap();
        assert_eq!(found.map(|found| found.len()), Some(0));
    }
}
