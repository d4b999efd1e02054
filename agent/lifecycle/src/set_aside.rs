//! Directories of pods that have ended although their volumes could not be removed: a file is immutable, the
//! disk has an error, a removal does not return. They are moved away, so that the end of the pod and the next
//! pod of its name wait no longer, and removing them is tried again in the background for as long as it
//! takes, by later agents too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_metrics::Own;
use nodewarden_model::Detail;
use nodewarden_model::backoff::Backoff;
use nodewarden_pods::volume;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::blocking::{self, Places};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tracing::info;

/// Name of the directory, beside that of the pods.
const NAME: &str = "orphaned";
/// How long the end of a pod waits for its volumes.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one try in the background may take before the next directory has its turn.
const TRY: Duration = Duration::from_secs(60);
/// The wait between two tries.
const AGAIN: Backoff = Backoff::doubling(Duration::from_secs(10), Duration::from_secs(600));
/// How long to wait after the directory of a pod could not be removed.
pub const CLEAN_AGAIN: Backoff = Backoff::doubling(Duration::from_millis(300), Duration::from_millis(9600));
/// How often it is checked whether a try is due, while anything is set aside.
const LOOK: Duration = Duration::from_secs(5);

/// Removals under way: one that does not return occupies one thread.
static CLEANING: LazyLock<Places> = LazyLock::new(|| Places::new(&blocking::VOLUME_CLEANING, 1));

/// Directories that were set aside. Clones share them.
#[derive(Debug, Clone)]
pub struct SetAside(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pods_dir: PathBuf,
    dir: PathBuf,
    patience: Duration,
    journal: Journal,
    /// Removals that have not returned, also those that are no longer waited for, by directory.
    under_way: Arc<watch::Sender<BTreeMap<PathBuf, u32>>>,
    /// Held while a directory is moved, or taken over by a pod that starts.
    moving: Mutex<()>,
    /// Never held across a call of the file system: asynchronous tasks take it.
    entries: Mutex<BTreeMap<PathBuf, Entry>>,
    /// Something was set aside.
    added: Notify,
}

/// A removal of a pod's directory has not returned.
#[derive(Debug, thiserror::Error)]
#[error("{} of an earlier pod with this uid is still being removed", path.display())]
pub struct StillRemoved {
    path: PathBuf,
}

/// A removal of a directory, until this is dropped: it moves to the thread that removes.
struct UnderWay {
    all: Arc<watch::Sender<BTreeMap<PathBuf, u32>>>,
    path: PathBuf,
}

impl UnderWay {
    fn new(all: &Arc<watch::Sender<BTreeMap<PathBuf, u32>>>, path: &Path) -> Self {
        all.send_modify(|paths| *paths.entry(path.to_owned()).or_default() += 1);
        Self { all: all.clone(), path: path.to_owned() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.all.send_modify(|paths| {
            if let Some(number) = paths.get_mut(&self.path) {
                *number -= 1;
            }
            paths.retain(|_, number| *number > 0);
        });
    }
}

#[derive(Debug)]
struct Entry {
    problem: String,
    tries: u32,
    next: Instant,
}

impl Entry {
    fn new(problem: String) -> Self {
        Self { problem, tries: 0, next: Instant::now() + AGAIN.nth(0) }
    }
}

impl SetAside {
    /// With what an earlier agent has set aside. Blocks.
    pub fn open(pods_dir: &Path, journal: &Journal) -> Self {
        Self::with_patience(pods_dir, journal, PATIENCE)
    }

    pub(crate) fn with_patience(pods_dir: &Path, journal: &Journal, patience: Duration) -> Self {
        let dir = pods_dir.with_file_name(NAME);
        let found = fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let entry = |path| (path, Entry::new("an earlier agent could not remove it".to_owned()));
        let entries = Mutex::new(found.map(entry).collect());
        let (pods_dir, journal) = (pods_dir.to_owned(), journal.clone());
        let (under_way, moving) = (Arc::default(), Mutex::new(()));
        let added = Notify::new();
        let this =
            Self(Arc::new(Inner { pods_dir, dir, patience, journal, under_way, moving, entries, added }));
        this.count();
        this
    }

    /// How long the end of a pod waits for its volumes.
    pub fn patience(&self) -> Duration {
        self.0.patience
    }

    /// Removes the directory of a pod.
    ///
    /// # Errors
    /// It cannot be removed, or not within `limit`; it may still be removed later.
    pub async fn clean(&self, path: PathBuf, limit: Duration) -> Result<(), String> {
        let place = BTreeSet::from([path.display().to_string()]);
        let under_way = UnderWay::new(&self.0.under_way, &path);
        let clean = move || {
            let _under_way = under_way;
            volume::clean(&path)
        };
        match CLEANING.run(place, limit, clean).await {
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err(error))) => Err(error.to_string()),
            Ok(None) => Err("a fault in the agent".to_owned()),
            Err(error) => Err(format!("{} is not removed within {} s", error.place, limit.as_secs())),
        }
    }

    /// Removes the directory of a pod that has no worker, or sets it aside after a while without success.
    ///
    /// # Errors
    /// It was set aside: where it is, and why.
    pub async fn clean_or_put(&self, uid: &str) -> Result<(), (PathBuf, String)> {
        let path = self.0.pods_dir.join(uid);
        let (end, mut failures) = (Instant::now() + self.0.patience, 0);
        loop {
            let Err(problem) = self.clean(path.clone(), end - Instant::now()).await else { return Ok(()) };
            let again = CLEAN_AGAIN.nth(failures);
            if Instant::now() + again >= end {
                return Err((self.put(uid, problem.clone()).await, problem));
            }
            tokio::time::sleep(again).await;
            failures += 1;
        }
    }

    /// Sets the directory of a pod aside, which could not be removed because of `problem`. Returns where it
    /// is now: still at its place if it cannot be moved either.
    pub async fn put(&self, uid: &str, problem: String) -> PathBuf {
        let (this, uid) = (self.clone(), uid.to_owned());
        let put = move || {
            let from = this.0.pods_dir.join(&uid);
            let moving = this.0.moving.lock();
            let to = this.move_away(&uid, &from).unwrap_or(from);
            this.0.entries.lock().insert(to.clone(), Entry::new(problem));
            drop(moving);
            this.0.added.notify_one();
            this.count();
            to
        };
        let whole = self.0.pods_dir.clone();
        blocking::POD_FILES.run(put).await.unwrap_or(whole)
    }

    fn move_away(&self, uid: &str, from: &Path) -> io::Result<PathBuf> {
        let to = self.0.dir.join(format!("{uid}.{}", Timestamp::now().as_millisecond()));
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0.dir)?;
        fs::rename(from, &to).map(|()| to)
    }

    /// Waits until no removal of this pod's directory is under way. A removal goes by the path: one that is
    /// no longer waited for would unmount and remove what the next pod of this uid has there.
    ///
    /// # Errors
    /// One has not returned within `limit`.
    pub async fn unused(&self, uid: &str, limit: Duration) -> Result<(), StillRemoved> {
        let path = self.0.pods_dir.join(uid);
        let mut under_way = self.0.under_way.subscribe();
        let over = under_way.wait_for(|paths| !paths.contains_key(&path));
        match tokio::time::timeout(limit, over).await {
            // Not closed: the sender is here.
            Ok(_) => Ok(()),
            Err(_) => Err(StillRemoved { path }),
        }
    }

    /// A pod of this uid starts: a directory that could not be moved is its own. Blocks.
    pub fn reuse(&self, uid: &str) {
        if !self.holds(uid) {
            return;
        }
        let _moving = self.0.moving.lock();
        let used = self.0.entries.lock().remove(&self.0.pods_dir.join(uid)).is_some();
        if used {
            self.count();
        }
    }

    /// Whether the directory of this pod could be neither removed nor moved.
    pub fn holds(&self, uid: &str) -> bool {
        self.0.entries.lock().contains_key(&self.0.pods_dir.join(uid))
    }

    /// Whether a directory of this pod is set aside.
    pub fn has(&self, uid: &str) -> bool {
        let moved = format!("{uid}.");
        let is_own = |path: &PathBuf| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&moved))
        };
        self.holds(uid) || self.0.entries.lock().keys().any(is_own)
    }

    /// The directories and why they cannot be removed.
    pub fn shown(&self) -> Vec<(PathBuf, String)> {
        let entries = self.0.entries.lock();
        entries.iter().map(|(path, entry)| (path.clone(), entry.problem.clone())).collect()
    }

    /// Tries again until the task is aborted.
    pub async fn run(self) {
        loop {
            while !self.0.entries.lock().is_empty() {
                tokio::time::sleep(LOOK).await;
                self.try_due(Instant::now()).await;
            }
            self.0.added.notified().await;
        }
    }

    /// Tries those that are due.
    async fn try_due(&self, now: Instant) {
        let due: Vec<PathBuf> = {
            let entries = self.0.entries.lock();
            entries.iter().filter(|(_, entry)| entry.next <= now).map(|(path, _)| path.clone()).collect()
        };
        for path in due {
            match path.strip_prefix(&self.0.pods_dir).map(|uid| uid.display().to_string()) {
                Ok(uid) => self.move_again(uid, path).await,
                Err(_) => self.clean_again(path).await,
            }
        }
        self.count();
    }

    /// Moves a directory that could not be moved before, unless a pod uses it by now.
    async fn move_again(&self, uid: String, path: PathBuf) {
        let this = self.clone();
        let moved = move || {
            // Under the lock, so that no pod begins to use it meanwhile.
            let _moving = this.0.moving.lock();
            if !this.holds(&uid) {
                return;
            }
            let moved = this.move_away(&uid, &path);
            let not_found = moved.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let is_gone = not_found && !path.exists();
            let mut entries = this.0.entries.lock();
            let Some(mut entry) = entries.remove(&path) else { return };
            match moved {
                Ok(to) => drop(entries.insert(to, Entry { next: Instant::now(), ..entry })),
                // What is gone is no longer set aside.
                Err(_) if is_gone => {}
                Err(_) => {
                    entry.tries += 1;
                    entry.next = Instant::now() + AGAIN.nth(entry.tries);
                    entries.insert(path, entry);
                }
            }
        };
        // After a panic, which the log has, the directory is found by the next agent.
        let _ = blocking::POD_FILES.run(moved).await;
    }

    async fn clean_again(&self, path: PathBuf) {
        match self.clean(path.clone(), TRY).await {
            Ok(()) => {
                self.0.entries.lock().remove(&path);
                let message = format!("{} is removed", path.display());
                info!("{message}");
                let detail = Detail::Agent { reason: "VolumesRemoved".into(), message };
                self.0.journal.append(Timestamp::now(), "", None, detail);
            }
            Err(problem) => {
                if let Some(entry) = self.0.entries.lock().get_mut(&path) {
                    entry.tries += 1;
                    entry.next = Instant::now() + AGAIN.nth(entry.tries);
                    entry.problem = problem;
                }
            }
        }
    }

    fn count(&self) {
        let number = self.0.entries.lock().len();
        ::metrics::gauge!(Own::VolumesSetAside.name()).set(number as f64);
    }
}

#[cfg(test)]
pub(crate) mod tests;
