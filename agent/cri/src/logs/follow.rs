//! A log as a stream, which follows what is written if so asked.

use std::path::Path;
use std::time::Duration;

use nix::sys::inotify::AddWatchFlags;
use tokio::sync::mpsc;

use super::reader::Step;
use super::{LogError, Piece, Reader, Request};
use nodewarden_machine::inotify::Watch;

/// Looked again after this long also when nothing was told: `logForceCheckPeriod` of the kubelet.
const CHECK: Duration = Duration::from_secs(1);
/// The kernel tells of a container's end before the runtime has written the last of its output.
const LINGER: Duration = Duration::from_millis(200);

/// Sends a log's pieces until its end; with `alive`, follows it as long as that is true and the receiver is there.
///
/// # Errors
/// A call failed.
pub async fn send(
    path: &Path,
    request: &Request,
    alive: Option<impl Fn() -> bool>,
    out: mpsc::Sender<Piece>,
) -> Result<(), LogError> {
    let (owned, request) = (path.to_owned(), *request);
    // Watched before it is read, so that nothing is missed.
    let changes = match &alive {
        Some(_) => Some(watch(path.parent().unwrap_or(Path::new("/")))?),
        None => None,
    };
    let mut reader = blocking(path, move || Reader::open(&owned, &request)).await?;
    let mut ending = false;
    loop {
        let (back, pieces, step) = blocking(path, move || {
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
        let limit = if alive() { CHECK } else { LINGER };
        tokio::select! {
            changed = tokio::time::timeout(limit, changes.changed()) => match changed {
                Ok(changed) => changed.map_err(LogError::at("read", path))?,
                // Quiet after the end: read once more, and that is all.
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

/// `false` when nobody listens any more.
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
    // It fails only where the program is being ended.
    tokio::task::spawn_blocking(work).await.map_err(LogError::at("read", path))?
}

/// Watches for what is written, made, renamed or removed in a directory.
fn watch(directory: &Path) -> Result<Watch, LogError> {
    let watch = Watch::new().map_err(LogError::at("inotify_init1", directory))?;
    let kinds = AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE;
    watch.add(directory, kinds).map_err(LogError::at("inotify_add_watch", directory))?;
    Ok(watch)
}
