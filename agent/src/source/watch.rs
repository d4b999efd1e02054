//! Watching a manifest directory: inotify wakes a scan, and a slow relist stands behind it.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tracing::{info, warn};

use super::{Desired, Manifests};

/// Writers often touch a directory several times in a row.
const SETTLE: Duration = Duration::from_millis(20);
/// A directory that is not there is looked for more often.
const MISSING: Duration = Duration::from_secs(1);

/// Ends the watching when dropped.
#[derive(Debug)]
pub struct Watching {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // An eventfd refuses only when its counter is full, and then the thread is woken already.
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Scans whenever something changes in the directory and every `relist`; `tell` gets what is not as it was `before`, on
/// a thread of its own.
///
/// # Errors
/// The thread or its descriptors cannot be had.
pub fn watch(
    mut manifests: Manifests,
    before: Desired,
    relist: Duration,
    mut tell: impl FnMut(Desired) + Send + 'static,
) -> io::Result<Watching> {
    let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    let stopping = stop.clone();
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    let thread = thread::Builder::new().name("manifests".into()).spawn(move || {
        let mut last = before;
        loop {
            let watched = add(&inotify, manifests.dir());
            let desired = manifests.scan();
            if last != desired {
                report(Some(&last), &desired);
                last = desired.clone();
                tell(desired);
            }
            if !wait(&inotify, &stopping, if watched { relist } else { relist.min(MISSING) }) {
                return;
            }
        }
    })?;
    Ok(Watching { stop, thread: Some(thread) })
}

/// (Again) watches the directory: the same one is watched once, a new one of that name anew.
fn add(inotify: &Inotify, dir: &Path) -> bool {
    let flags = AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    inotify.add_watch(dir, flags).is_ok()
}

/// False when it is time to end.
fn wait(inotify: &Inotify, stop: &EventFd, longest: Duration) -> bool {
    let mut fds =
        [PollFd::new(inotify.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::MAX);
    match poll(&mut fds, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => {
            warn!(%error, "cannot wait for changes of the manifest directory: listing it every second");
            thread::sleep(MISSING);
        }
    }
    if fds[1].any().unwrap_or(false) {
        return false;
    }
    if fds[0].any().unwrap_or(false) {
        thread::sleep(SETTLE);
        // What happened is seen by the scan.
        while inotify.read_events().is_ok_and(|events| !events.is_empty()) {}
    }
    true
}

/// Tells the log what is new.
pub fn report(before: Option<&Desired>, now: &Desired) {
    let known = |problem: &String| before.is_some_and(|b| b.problems.contains(problem));
    for problem in now.problems.iter().filter(|p| !known(p)) {
        warn!("manifest: {problem}");
    }
    if before.is_none_or(|b| b.pods != now.pods) {
        info!(pods = now.pods.len(), "manifests read");
    }
}
