//! A log as a stream, which optionally follows new output.

use std::path::Path;
use std::time::Duration;

use nix::sys::inotify::AddWatchFlags;
use tokio::sync::mpsc;

use super::reader::Step;
use super::{LogError, LogPath, Piece, Reader, Request};
use nodewarden_machine::inotify::Watch;
use nodewarden_tasks::blocking;

/// The file is read again after this time even without a notification: `logForceCheckPeriod` of the kubelet.
const CHECK: Duration = Duration::from_secs(1);
/// The same where no notification is possible, because the kernel gives the agent no more watches.
const CHECK_ALONE: Duration = Duration::from_millis(250);
/// Time to continue after a container's end, because the runtime may write its last output after the end is
/// known.
const LINGER: Duration = Duration::from_millis(200);

/// Sends a log's pieces until its end; with `alive`, follows it while `alive` is true and the receiver
/// exists.
///
/// # Errors
/// A call failed.
pub async fn send(
    path: &LogPath,
    request: &Request,
    alive: Option<impl Fn() -> bool>,
    out: mpsc::Sender<Piece>,
) -> Result<(), LogError> {
    let (owned, request) = (path.clone(), *request);
    let full = &path.full();
    // The watch is created before reading, so that no change is missed.
    let changes = match &alive {
        Some(_) => {
            let path = path.clone();
            Some(blocking(full, move || Ok(watch(&path))).await?)
        }
        None => None,
    };
    let mut reader = blocking(full, move || Reader::open(&owned, &request)).await?;
    let mut ending = false;
    loop {
        let (back, pieces, step) = blocking(full, move || {
            let mut pieces = Vec::new();
            let step = reader.read(&mut pieces)?;
            Ok((reader, pieces, step))
        })
        .await?;
        reader = back;
        if !deliver(pieces, &out).await {
            return Ok(());
        }
        let (changes, alive) = match (step, &changes, &alive) {
            (Step::More, ..) => continue,
            (Step::End, Some(changes), Some(alive)) if !ending => (changes, alive),
            _ => break,
        };
        let check = if changes.is_some() { CHECK } else { CHECK_ALONE };
        let limit = if alive() { check } else { LINGER };
        let changed = async {
            match changes {
                Some(changes) => changes.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = tokio::time::timeout(limit, changed) => match changed {
                Ok(changed) => changed.map_err(LogError::at("read", full))?,
                // No change after the container's end: read once more, then end.
                Err(_) => ending = limit == LINGER,
            },
            () = out.closed() => return Ok(()),
        }
    }
    let mut pieces = Vec::new();
    reader.finish(&mut pieces);
    deliver(pieces, &out).await;
    Ok(())
}

/// Sends pieces; `false` if the receiver was dropped.
async fn deliver(pieces: Vec<Piece>, out: &mpsc::Sender<Piece>) -> bool {
    for piece in pieces {
        if out.send(piece).await.is_err() {
            return false;
        }
    }
    true
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    // Fails only while the program is shutting down.
    blocking::LOG_READING.run(work).await.map_err(LogError::at("read", path))?
}

/// Watches for files that are written, created, renamed or removed in the log's directory. `None` if that is
/// not possible, such as because there are as many watches as the kernel allows. Must be called inside a
/// tokio runtime.
fn watch(path: &LogPath) -> Option<Watch> {
    let watch = watched(path);
    watch
        .inspect_err(|error| tracing::debug!(%error, "a log is followed by looking at it again and again"))
        .ok()
}

fn watched(path: &LogPath) -> Result<Watch, LogError> {
    let directory = path.directory()?;
    let full = path.full();
    let watch = Watch::new().map_err(LogError::at("inotify_init1", &full))?;
    let kinds = AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE;
    watch.add(&directory.held(), kinds).map_err(LogError::at("inotify_add_watch", &full))?;
    Ok(watch)
}
