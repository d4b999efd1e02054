//! The task that keeps containers' logs from growing without bound.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tracing::{debug, warn};

use nodewarden_config::{Config, LogRotation};
use nodewarden_cri::logs::{LogError, rotation};
use nodewarden_cri::{Client, RuntimeError};
use nodewarden_lifecycle as lifecycle;
use nodewarden_model::ContainerState;
use nodewarden_pods::paths::PodPaths;
use nodewarden_pods::status::Board;

/// Ends the task when dropped.
pub struct Rotating(tokio::task::JoinHandle<()>);

impl Drop for Rotating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a log was not moved away.
#[derive(Debug, thiserror::Error)]
enum RotateError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The runtime's, and then that of undoing it.
    #[error("{0}; {1}")]
    Both(RuntimeError, LogError),
}

/// Starts it; none where logs are not to be rotated. Must be called inside a tokio runtime.
pub fn start(config: &Config, board: Board, client: Client) -> Option<Rotating> {
    let policy = config.pods.rotation;
    let most = policy.max_size?;
    let (homes, logs_dir) = (lifecycle::homes(config), config.pods.logs_dir.clone());
    Some(Rotating(tokio::spawn(async move {
        // Whose last try failed: it is told once.
        let mut failing = BTreeSet::new();
        loop {
            tokio::time::sleep(policy.interval).await;
            let running = running(&board, &homes, &logs_dir);
            failing.retain(|id| running.iter().any(|(own, _)| own == id));
            for (id, path) in running {
                if !is_due(&path, most) {
                    continue;
                }
                match rotate(&client, &id, &path, policy).await {
                    Ok(()) => drop(failing.remove(&id)),
                    Err(error) if failing.insert(id.clone()) => {
                        warn!(log = %path.display(), "cannot rotate: {error}");
                    }
                    Err(error) => debug!(log = %path.display(), "cannot rotate: {error}"),
                }
            }
        }
    })))
}

/// Id and log of every container that runs.
fn running(board: &Board, homes: &Path, logs_dir: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for view in board.pods() {
        let paths = PodPaths::new(homes, logs_dir, &view.pod);
        let running =
            view.containers.iter().filter(|own| matches!(own.state, ContainerState::Running { .. }));
        found.extend(
            running.map(|own| (own.id.clone(), paths.logs.join(PodPaths::log_name(&own.name, own.restarts)))),
        );
    }
    found
}

/// It is as large as may be, or it is not there: an agent that ended in between has moved it and told nobody.
fn is_due(path: &Path, most: u64) -> bool {
    match std::fs::metadata(path) {
        Ok(found) => found.len() >= most,
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

async fn rotate(client: &Client, id: &str, path: &Path, policy: LogRotation) -> Result<(), RotateError> {
    if !path.exists() {
        return Ok(client.reopen_log(id).await?);
    }
    let own = path.to_owned();
    let moved = tokio::task::spawn_blocking(move || {
        // What could not be removed or compressed is no reason to let this one grow.
        let tidied = rotation::tidy(&own, policy.max_files);
        rotation::move_away(&own, Timestamp::now()).map(|moved| (moved, tidied))
    });
    let Ok(moved) = moved.await else { return Ok(()) };
    let (moved, tidied) = moved?;
    if let Err(error) = client.reopen_log(id).await {
        return Err(match rotation::move_back(&moved, path) {
            Ok(()) => error.into(),
            Err(other) => RotateError::Both(error, other),
        });
    }
    Ok(tidied?)
}
