//! Work on paths that pods name (`hostPath`): they may be on a file system that never answers, such as NFS or
//! FUSE without its server. Such a file system occupies a few threads of its own, and its callers get an
//! error in time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nodewarden_machine::mountinfo;
use nodewarden_manifest::Pod;
use nodewarden_manifest::volume_source::Source;
use nodewarden_tasks::blocking::{self, NotAnswering, Places};

use super::{VolumeError, host_path};

/// How long a caller waits for a path of a pod. The pod is tried again later.
const LIMIT: Duration = Duration::from_secs(10);
/// How many threads one file system can occupy.
const EACH: usize = 8;

static PLACES: LazyLock<Places> = LazyLock::new(|| Places::new(&blocking::HOST_PATHS, EACH));

/// The paths of the pod's `hostPath` volumes.
pub fn host_paths(pod: &Pod) -> Vec<PathBuf> {
    let spec = pod.spec();
    let sources = spec.volumes.iter().flatten().filter_map(Source::of);
    let path = |source| match source {
        Source::HostPath(asked) => Some(PathBuf::from(&asked.path)),
        _ => None,
    };
    sources.filter_map(path).collect()
}

/// Checks the pod's `hostPath` volumes against their types and creates those with `…OrCreate`.
///
/// # Errors
/// A volume does not match the manifest, or its file system does not answer; the error names the volume in
/// the first case, the file system in the second.
pub async fn check_host_paths(pod: &Pod) -> Result<(), VolumeError> {
    check_within(pod, LIMIT).await
}

pub(super) async fn check_within(pod: &Pod, limit: Duration) -> Result<(), VolumeError> {
    for volume in pod.spec().volumes.iter().flatten() {
        let Some(Source::HostPath(asked)) = Source::of(volume) else { continue };
        let kind = asked.type_.clone().unwrap_or_default();
        // Nothing is looked at then.
        if kind.is_empty() {
            continue;
        }
        let path = PathBuf::from(&asked.path);
        let work = {
            let path = path.clone();
            move || host_path::check(&path, &kind)
        };
        // A panic is a fault of the agent; the pod is tried again.
        let checked = within(vec![path], limit, work).await.map(|checked| checked.unwrap_or(Ok(())));
        checked.and_then(|checked| checked).map_err(|error| error.of(&volume.name))?;
    }
    Ok(())
}

/// Runs `work`, which touches `paths` of pods, on a thread for such work. `None` if it panicked. Without any
/// path it runs on a thread for pods' own files, for as long as it takes.
///
/// # Errors
/// There is no result within 10 s. The work may still be done later.
pub async fn on_host_paths<T: Send + 'static>(
    paths: Vec<PathBuf>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, VolumeError> {
    within(paths, LIMIT, work).await
}

/// How far work on many files is, and whether it is still wanted.
#[derive(Debug, Default)]
pub(super) struct Moves {
    steps: AtomicU64,
    is_stopped: AtomicBool,
}

impl Moves {
    /// Called by the work before each file. False: it should end.
    pub(super) fn step(&self) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        !self.is_stopped.load(Ordering::Relaxed)
    }

    /// The work should end.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Ends the work when its caller no longer waits.
struct StopsWhenDropped(Arc<Moves>);

impl Drop for StopsWhenDropped {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// As [`on_host_paths`], for work on so many files that it takes longer: it may take as long as it goes on.
/// It ends soon when the caller stops waiting.
///
/// # Errors
/// Nothing was done for 10 s.
pub(super) async fn on_many_files<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Moves) -> T + Send + 'static,
) -> Result<Option<T>, VolumeError> {
    many_within(path, LIMIT, work).await
}

async fn many_within<T: Send + 'static>(
    path: PathBuf,
    limit: Duration,
    work: impl FnOnce(&Moves) -> T + Send + 'static,
) -> Result<Option<T>, VolumeError> {
    let stops = StopsWhenDropped(Arc::default());
    let moves = stops.0.clone();
    let mut done = pin!(within(vec![path.clone()], Duration::MAX, move || work(&moves)));
    let mut before = 0;
    loop {
        if let Ok(done) = tokio::time::timeout(limit, &mut done).await {
            return done;
        }
        let steps = stops.0.steps.load(Ordering::Relaxed);
        if steps == before {
            return Err(NotAnswering { place: path.display().to_string(), limit }.into());
        }
        before = steps;
    }
}

async fn within<T: Send + 'static>(
    paths: Vec<PathBuf>,
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, VolumeError> {
    if paths.is_empty() {
        return Ok(blocking::POD_FILES.run(work).await.ok());
    }
    let places = blocking::POD_FILES
        .run(move || places(&fs::read("/proc/self/mountinfo").unwrap_or_default(), &paths));
    let places = places.await.unwrap_or_default();
    Ok(PLACES.run(places, limit, work).await?)
}

/// What may hang with each path, by names alone (a look at it could hang): the mount point above it; on the
/// root file system, which holds links to everywhere, the path itself.
fn places(table: &[u8], paths: &[PathBuf]) -> BTreeSet<String> {
    let mounts: Vec<PathBuf> = mountinfo::parse(table).map(|mount| mount.mount_point).collect();
    let place = |path: &PathBuf| {
        let above = mounts.iter().filter(|mount| path.starts_with(mount));
        let nearest = above.max_by_key(|mount| mount.components().count());
        let nearest = nearest.filter(|mount| *mount != Path::new("/")).unwrap_or(path);
        nearest.display().to_string()
    };
    paths.iter().map(place).collect()
}

/// Held by tests that occupy threads for such work, since one of them counts these.
#[cfg(test)]
pub(super) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[cfg(test)]
mod tests;
