//! The directory of the plugin watcher with all below it: what is in it, and when that changes.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::sys::inotify::AddWatchFlags;
use tracing::warn;

use super::seen::Identity;
use nodewarden_machine::inotify::Watch;

pub struct Tree {
    root: PathBuf,
    inotify: Option<Watch>,
    /// Of the root, at the last scan.
    watched: bool,
}

impl Tree {
    /// Must be called within a tokio runtime.
    pub fn new(root: PathBuf) -> Self {
        let inotify = Watch::new().inspect_err(|error| {
            warn!(%error, "cannot be woken by changes in {}: it is looked at every second", root.display());
        });
        Self { root, inotify: inotify.ok(), watched: false }
    }

    /// Whether [`Self::changed`] tells changes.
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// All sockets; from now on what changes in their directories wakes. Names that begin with a dot are left out
    /// (`handleCreateEvent`), and links are not followed.
    pub fn scan(&mut self) -> BTreeMap<PathBuf, Identity> {
        let mut found = BTreeMap::new();
        self.watched = self.watch(&self.root);
        let mut dirs = vec![self.root.clone()];
        while let Some(dir) = dirs.pop() {
            // A directory that is gone, or not to be read, has no sockets.
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten().filter(|e| !e.file_name().as_bytes().starts_with(b".")) {
                let Ok(kind) = entry.file_type() else { continue };
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
        found
    }

    /// Adds a directory, or keeps it: the kernel knows which one it is.
    fn watch(&self, dir: &Path) -> bool {
        let flags = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        self.inotify.as_ref().is_some_and(|watch| watch.add(dir, flags).is_ok())
    }

    /// Until something changed in a directory that was scanned; what was told so far is told once. Never without inotify.
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

fn identity(entry: &DirEntry) -> Option<Identity> {
    let metadata = entry.metadata().ok()?;
    let born = metadata.created().unwrap_or_else(|_| changed(&metadata));
    Some(Identity { device: metadata.dev(), inode: metadata.ino(), born })
}

fn changed(metadata: &Metadata) -> SystemTime {
    let since = |seconds, nanoseconds| {
        Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
    };
    SystemTime::UNIX_EPOCH + since(metadata.ctime(), metadata.ctime_nsec()).unwrap_or_default()
}
