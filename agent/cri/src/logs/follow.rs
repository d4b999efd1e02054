//! A log as a stream, which follows what is written if so asked.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

use super::reader::Step;
use super::{LogError, Piece, Reader, Request};

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
    let watch = match &alive {
        Some(_) => Some(Watch::new(path.parent().unwrap_or(Path::new("/")))?),
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
        let (watch, alive) = match (step, &watch, &alive) {
            (Step::More, ..) => continue,
            (Step::End, Some(watch), Some(alive)) if !ending => (watch, alive),
            _ => break,
        };
        let limit = if alive() { CHECK } else { LINGER };
        tokio::select! {
            changed = tokio::time::timeout(limit, watch.changed()) => match changed {
                Ok(told) => told.map_err(LogError::at("read", path))?,
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

/// The kernel's word that something in a directory changed.
struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    fn new(directory: &Path) -> Result<Self, LogError> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .map_err(LogError::at("inotify_init1", directory))?;
        let kinds = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE;
        inotify.add_watch(directory, kinds).map_err(LogError::at("inotify_add_watch", directory))?;
        // SAFETY: an OwnedFd is the same open descriptor as long as it lives.
        let registered = unsafe { AsyncFd::register(OwnedFd::from(inotify)) };
        registered.map(Self).map_err(LogError::at("epoll_ctl", directory))
    }

    /// Waits until something was written, made, renamed or removed; what was told so far is told once.
    async fn changed(&self) -> std::io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let (mut told, mut events) = (false, [0; 4096]);
            loop {
                // Which events they are does not matter.
                match nix::unistd::read(self.0.get_ref(), &mut events) {
                    Ok(_) => told = true,
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::EINTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            ready.clear_ready();
            if told {
                return Ok(());
            }
        }
    }
}
