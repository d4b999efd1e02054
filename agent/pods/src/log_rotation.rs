//! Rotation of container logs, so that none grows without bound.

mod watched;

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::paths::PodPaths;
use crate::status::PodStatusCache;
use nodewarden_config::{Endpoint, LogRotation as Policy, PodSettings};
use nodewarden_cri::logs::{LogError, LogPath, rotation};
use nodewarden_cri::{Client, RuntimeError};
use nodewarden_model::{ContainerState, ContainerView, PodView};
use nodewarden_tasks::blocking;
use nodewarden_tasks::parts::{self, Pulse};
use nodewarden_tasks::pause::pause;
use watched::{Look, Watched, look};

/// How long a round may take: logs are compressed in it.
const LIMIT: Duration = Duration::from_secs(3600);

/// The task that rotates logs; ended when this is dropped.
#[derive(Debug)]
pub struct LogRotation(tokio::task::JoinHandle<()>);

impl Drop for LogRotation {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LogRotation {
    /// Starts the task for the logs of `pods`, whose directories are in `pods_dir`; `None` where logs are not
    /// to be rotated.
    pub fn start(
        runtime: &Handle,
        endpoint: &Endpoint,
        settings: &PodSettings,
        pods: PodStatusCache,
        pods_dir: PathBuf,
    ) -> Option<Self> {
        let rotator = Rotator {
            max_size: settings.rotation.max_size?,
            policy: settings.rotation,
            // A connection of its own: the runtime's other calls do not wait for this one.
            client: Client::new(endpoint).with_request_limit(settings.runtime_request_timeout),
            pods,
            pods_dir,
            logs_dir: settings.logs_dir.clone(),
            failing: BTreeSet::new(),
        };
        let part = parts::register("log rotation", LIMIT);
        Some(Self(runtime.spawn(part.task_with(|pulse| rotator.run(pulse)))))
    }
}

/// Why a log was not rotated.
#[derive(Debug, thiserror::Error)]
enum RotateError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The runtime's error, and then that of undoing the move.
    #[error("{0}; {1}")]
    Both(RuntimeError, LogError),
}

/// A container's id, its log, and how its rotation ended.
type Rotated = (String, LogPath, Result<(), RotateError>);

struct Rotator {
    /// Bytes from which on a log is rotated.
    max_size: u64,
    policy: Policy,
    client: Client,
    pods: PodStatusCache,
    pods_dir: PathBuf,
    logs_dir: PathBuf,
    /// Ids of containers whose last rotation failed: the log says so once.
    failing: BTreeSet<String>,
}

impl Rotator {
    async fn run(mut self, pulse: Pulse) {
        let (mut watched, mut changes) = (Watched::new(), self.pods.any_change());
        loop {
            pulse.waits();
            watched.due(&mut changes).await;
            pause(self.policy.interval).await;
            pulse.progress();
            self.round(&mut watched, &mut changes).await;
        }
    }

    /// Looks at the logs that were written to, and rotates those that are due.
    async fn round(&mut self, watched: &mut Watched, changes: &mut watch::Receiver<()>) {
        changes.mark_unchanged();
        watched.begin_round();
        let pods = self.pods.pods();
        let ids: HashSet<&str> = running(&pods).map(|(_, own)| own.id.as_str()).collect();
        self.failing.retain(|id| ids.contains(id.as_str()));
        watched.retain(|id| ids.contains(id));
        let logs = self.logs(running(&pods).filter(|(_, own)| watched.is_due(&own.id)));
        if logs.is_empty() {
            return;
        }
        let (files, max_size) = (watched.files(), self.max_size);
        // All in one job: one for each log costs more than its look at the file.
        let looked = blocking::LOG_ROTATION.run(move || {
            let one = |(id, log): (String, LogPath)| {
                let found = look(files.as_deref(), &log, max_size);
                (id, log, found)
            };
            logs.into_iter().map(one).collect::<Vec<_>>()
        });
        // After a panic, which the log has, the next round is another try.
        let Ok(looked) = looked.await else { return watched.again() };
        let mut due = Vec::new();
        for (id, log, Look { watch, due: is_due }) in looked {
            if is_due {
                watched.again();
                watched.forget(watch);
                due.push((id, log));
            } else {
                watched.seen(id, watch);
            }
        }
        self.rotate_all(due).await;
    }

    /// Id and log of these containers.
    fn logs<'a>(
        &self,
        containers: impl Iterator<Item = (&'a PodView, &'a ContainerView)>,
    ) -> Vec<(String, LogPath)> {
        let log = |(pod, own): (&PodView, &ContainerView)| {
            let paths = PodPaths::new(&self.pods_dir, &self.logs_dir, &pod.pod);
            let name = PodPaths::log_name(&own.name, own.restarts);
            (own.id.clone(), LogPath::new(&paths.logs, name))
        };
        containers.map(log).collect()
    }

    /// Rotates the logs that are due, `containerLogMaxWorkers` at a time.
    async fn rotate_all(&mut self, logs: Vec<(String, LogPath)>) {
        let mut under_way = JoinSet::new();
        for (id, log) in logs {
            while under_way.len() >= self.policy.workers as usize {
                self.next_done(&mut under_way).await;
            }
            let (client, max_size, policy) = (self.client.clone(), self.max_size, self.policy);
            under_way.spawn(async move {
                let outcome = rotate(&client, &id, log.clone(), max_size, policy).await;
                (id, log, outcome)
            });
        }
        while self.next_done(&mut under_way).await {}
    }

    /// Waits until one is done; false if none is under way.
    async fn next_done(&mut self, under_way: &mut JoinSet<Rotated>) -> bool {
        match under_way.join_next().await {
            None => return false,
            Some(Ok((id, log, outcome))) => self.note(id, &log, outcome),
            Some(Err(error)) => warn!("a rotation ended early: {error}"),
        }
        true
    }

    /// Logs the first failure of a container's rotations.
    fn note(&mut self, id: String, log: &LogPath, outcome: Result<(), RotateError>) {
        match outcome {
            Ok(()) => drop(self.failing.remove(&id)),
            Err(error) if self.failing.insert(id) => {
                warn!(log = %log.full().display(), "cannot rotate: {error}");
            }
            Err(error) => debug!(log = %log.full().display(), "cannot rotate: {error}"),
        }
    }
}

/// Every container that runs, with its pod.
fn running(pods: &[Arc<PodView>]) -> impl Iterator<Item = (&PodView, &ContainerView)> {
    let runs = |own: &&ContainerView| matches!(own.state, ContainerState::Running { .. });
    pods.iter().flat_map(move |pod| pod.containers.iter().filter(runs).map(move |own| (&**pod, own)))
}

/// What was done with a log's files before the runtime is asked to reopen it.
enum Moved {
    /// It is smaller than its greatest size.
    NotDue,
    /// There is no file: an agent that ended in the middle of a rotation has moved it away without having the
    /// runtime reopen it.
    Missing,
    /// Moved away to this place; with the error of removing or compressing older ones.
    Away(LogPath, Result<(), LogError>),
}

/// If the log has reached `max_size`, moves it away and has the runtime reopen it; moves it back if the
/// runtime refuses.
async fn rotate(
    client: &Client,
    id: &str,
    log: LogPath,
    max_size: u64,
    policy: Policy,
) -> Result<(), RotateError> {
    let own = log.clone();
    let moved = blocking::LOG_ROTATION.run(move || move_away(&own, max_size, policy));
    let Ok(moved) = moved.await else { return Ok(()) };
    match moved? {
        Moved::NotDue => Ok(()),
        Moved::Missing => Ok(client.reopen_log(id).await?),
        Moved::Away(moved, tidied) => {
            if let Err(error) = client.reopen_log(id).await {
                let back = blocking::LOG_ROTATION.run(move || rotation::move_back(&moved, &log)).await;
                return Err(match back {
                    Ok(Err(other)) => RotateError::Both(error, other),
                    Ok(Ok(())) | Err(_) => error.into(),
                });
            }
            Ok(tidied?)
        }
    }
}

/// Moves the log away if it has reached `max_size`, after older ones were removed and compressed. Blocks.
fn move_away(log: &LogPath, max_size: u64, policy: Policy) -> Result<Moved, LogError> {
    match log.size()? {
        None => Ok(Moved::Missing),
        Some(size) if size < max_size => Ok(Moved::NotDue),
        Some(_) => {
            // If older logs cannot be removed or compressed, this one is rotated all the same.
            let tidied = rotation::tidy(log, policy.max_files);
            Ok(Moved::Away(rotation::move_away(log, Timestamp::now())?, tidied))
        }
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_testing::HungFuse;

    use super::*;
    use crate::status::fixture;

    /// Each log's outcome is noted, however many are rotated at a time.
    #[tokio::test]
    async fn every_log_gets_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        for workers in [1, 3, 100] {
            let mut rotator = Rotator {
                max_size: 1,
                policy: Policy { workers, ..Policy::default() },
                client: Client::new(&Endpoint::parse("unix:///nonexistent/runtime.sock").unwrap()),
                pods: PodStatusCache::default(),
                pods_dir: dir.path().join("pods"),
                logs_dir: dir.path().join("logs"),
                failing: BTreeSet::new(),
            };
            let log = |n: u32| (format!("c{n}"), LogPath::new(&dir.path().join(format!("p{n}")), "c/0.log"));
            rotator.rotate_all((0..7).map(log).collect()).await;
            // There is no runtime that could reopen them.
            assert_eq!(rotator.failing.len(), 7, "{workers} at a time");
        }
    }

    #[test]
    fn logs_that_are_small_are_not_due() {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes, due) in [
            ("small", Some(9), false),
            ("full", Some(10), true),
            ("large", Some(11), true),
            ("none", None, true),
        ] {
            let log = LogPath::new(dir.path(), format!("{name}/0.log"));
            if let Some(bytes) = bytes {
                std::fs::create_dir(dir.path().join(name)).unwrap();
                std::fs::write(log.full(), vec![b'x'; bytes]).unwrap();
            }
            let found = look(None, &log, 10);
            assert_eq!((found.due, found.watch), (due, None), "{name}");
        }
    }

    /// A round looks at a log that is not watched, and at one that was written to since it is.
    #[tokio::test]
    async fn a_log_that_nothing_writes_to_is_not_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        let pods = PodStatusCache::default();
        let view = fixture::running_pod("p", "c1");
        let mut rotator = Rotator {
            max_size: 1000,
            policy: Policy::default(),
            client: Client::new(&Endpoint::parse("unix:///nonexistent/runtime.sock").unwrap()),
            pods: pods.clone(),
            pods_dir: dir.path().join("pods"),
            logs_dir: dir.path().join("logs"),
            failing: BTreeSet::new(),
        };
        let log = rotator.logs(running(&[Arc::new(view.clone())])).pop().unwrap().1.full();
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, "line\n").unwrap();
        pods.set(view.clone());
        let (mut watched, mut changes) = (Watched::new(), pods.any_change());
        let quiet = Duration::from_millis(50);
        assert!(tokio::time::timeout(quiet, watched.due(&mut changes)).await.is_ok(), "none is watched yet");
        rotator.round(&mut watched, &mut changes).await;
        assert!(!watched.is_due("c1"));
        assert!(tokio::time::timeout(quiet, watched.due(&mut changes)).await.is_err(), "nothing happened");

        pods.set(view);
        tokio::time::timeout(quiet, watched.due(&mut changes)).await.expect("a pod has changed");
        rotator.round(&mut watched, &mut changes).await;
        assert!(!watched.is_due("c1"));

        // Full: there is no runtime that could reopen it, so it is tried again in each round.
        std::fs::write(&log, vec![b'x'; 2000]).unwrap();
        tokio::time::timeout(Duration::from_secs(5), watched.due(&mut changes))
            .await
            .expect("it was written");
        assert!(watched.is_due("c1"));
        for _ in 0..2 {
            rotator.round(&mut watched, &mut changes).await;
            assert!(watched.is_due("c1") && rotator.failing.contains("c1"));
            tokio::time::timeout(quiet, watched.due(&mut changes)).await.expect("it is not watched");
        }

        // Removed by something else: the runtime is asked to reopen it.
        std::fs::write(&log, "line\n").unwrap();
        rotator.round(&mut watched, &mut changes).await;
        assert!(!watched.is_due("c1"));
        std::fs::remove_file(&log).unwrap();
        tokio::time::timeout(Duration::from_secs(5), watched.due(&mut changes))
            .await
            .expect("it was removed");

        pods.remove(&fixture::running_pod("p", "c1").pod.uid);
        rotator.round(&mut watched, &mut changes).await;
        assert!(rotator.failing.is_empty());
        assert!(tokio::time::timeout(quiet, watched.due(&mut changes)).await.is_err(), "no container runs");
    }

    /// The test has one thread for everything asynchronous: if that thread looked at the log, it would hang
    /// until the file system ends by itself, and fail.
    #[tokio::test]
    async fn a_log_directory_that_hangs_holds_no_thread_of_the_async_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let Ok(fuse) = HungFuse::mount(dir.path()) else {
            nodewarden_testing::skip("no FUSE file system can be mounted here");
            return;
        };
        let endpoint = Endpoint::parse("unix:///nonexistent/runtime.sock").unwrap();
        let log = LogPath::new(&dir.path().join("shop_p_u"), "c/0.log");
        let rotating =
            tokio::spawn(
                async move { rotate(&Client::new(&endpoint), "c", log, 1, Policy::default()).await },
            );
        let busy = || blocking::LOG_ROTATION.busy() > 0;
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if busy() {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(busy() && !rotating.is_finished(), "it hangs on a thread for blocking work");
        drop(fuse);
        let ended = tokio::time::timeout(Duration::from_secs(5), rotating).await.unwrap().unwrap();
        assert!(ended.is_err(), "the directory is gone");
    }
}
