//! Watches a manifest directory: inotify says which files to read, and once in a while every file is looked
//! at and read if it is another one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InotifyEvent, WatchDescriptor};
use nodewarden_tasks::parts::{self, Part};
use nodewarden_tasks::pause::every;
use tracing::{debug, warn};

use super::Manifests;
use super::changes::{Changes, Due};
use super::relist::{Listed, MINUTE, MISSING, Reports, is_local};
use crate::source::{Desired, DesiredSender, report};
use nodewarden_machine::inotify::EventQueue;

/// How long changes that follow each other are collected into one.
const BURST: Duration = Duration::from_millis(10);

/// The thread that watches a manifest directory; it ends when this is dropped.
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

/// Starts a thread that reads what changes in the directory, and looks at everything every `relist`; each
/// minute, if that is longer, where the kernel reports every change. `changes` is called on that thread with
/// each value that differs from the one before, which is `before` at first.
///
/// # Errors
/// The thread or its descriptors cannot be created.
pub fn watch(
    manifests: Manifests,
    before: Desired,
    relist: Duration,
    changes: DesiredSender,
) -> io::Result<Watching> {
    let stop = Arc::new(EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?);
    let stopping = stop.clone();
    let events = EventQueue::new()?;
    let watcher = Watcher {
        manifests,
        relist,
        events,
        watched: None,
        is_local: false,
        changes: Changes::default(),
        listed: None,
        last: before,
        send: changes,
    };
    let part = parts::register("manifests", LIMIT);
    let run = move || {
        watcher.run(&stopping, &part);
        part.end();
    };
    let thread = thread::Builder::new().name("manifests".into()).spawn(run)?;
    Ok(Watching { stop, thread: Some(thread) })
}

/// How long all manifests may take to be read.
const LIMIT: Duration = Duration::from_secs(300);

struct Watcher {
    manifests: Manifests,
    relist: Duration,
    events: EventQueue,
    watched: Option<WatchDescriptor>,
    /// Only this machine writes to the directory's file system.
    is_local: bool,
    changes: Changes,
    /// When everything was last read.
    listed: Option<Listed>,
    /// What was sent last.
    last: Desired,
    send: DesiredSender,
}

impl Watcher {
    fn run(mut self, stop: &EventFd, part: &Part) {
        loop {
            part.progress();
            if self.read() {
                self.send();
            }
            part.waits();
            if !self.wait(stop) {
                return;
            }
        }
    }

    /// Reads what changed, and what changes meanwhile. False when nothing did.
    fn read(&mut self) -> bool {
        let started = Instant::now();
        let mut any = false;
        loop {
            self.take_events();
            let now = Instant::now();
            let mut due = self.changes.take(now);
            due.all |= self.relist_at().is_none_or(|at| now >= at);
            if due.is_nothing() {
                return any;
            }
            any = true;
            self.read_due(due, now);
            if started.elapsed() >= BURST {
                return any;
            }
        }
    }

    fn read_due(&mut self, mut due: Due, now: Instant) {
        let written = due.names.clone();
        if due.all {
            // Watched before it is read, so that no change falls between the two.
            self.add_watch();
            due.names.extend(self.manifests.list());
            self.listed = Some(Listed { at: now, minute: every(MINUTE) });
        }
        let Self { manifests, changes, .. } = self;
        due.names.retain(|name| !changes.is_writing(name));
        let look = |name: &OsString| match written.contains(name) {
            true => manifests.look(name),
            false => manifests.look_if_changed(name),
        };
        let looks: Vec<_> = due.names.iter().map(look).collect();
        self.take_events();
        for (name, look) in due.names.iter().zip(looks) {
            // A write began before it was read: it is read again when that is over.
            if !self.changes.is_writing(name) {
                self.manifests.take(look);
            }
        }
    }

    /// Sends what the files want, if it is not what was sent last.
    fn send(&mut self) {
        let Some(desired) = self.manifests.changed() else { return };
        if desired != self.last {
            report("manifests", Some(&self.last), &desired);
            self.last = desired.clone();
            (self.send)(desired);
        }
    }

    /// When everything is to be read again; `None`: now.
    fn relist_at(&self) -> Option<Instant> {
        let reports = match self.watched {
            None => Reports::None,
            Some(_) if self.is_local && self.manifests.is_reported() => Reports::All,
            Some(_) => Reports::Some,
        };
        self.listed.map(|listed| listed.again(self.relist, reports))
    }

    /// (Again) watches the directory: the same one is watched once, another one of that name instead of it.
    fn add_watch(&mut self) {
        let flags = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        let before = self.watched.take();
        self.watched = self.events.add(self.manifests.dir(), flags).ok();
        self.is_local = is_local(self.manifests.dir());
        if let Some(before) = before.filter(|before| self.watched != Some(*before)) {
            self.events.remove(before);
        }
    }

    fn take_events(&mut self) {
        loop {
            let events = self.events.read();
            let now = Instant::now();
            if events.is_empty() {
                return;
            }
            for event in events {
                self.take_event(&event, now);
            }
        }
    }

    fn take_event(&mut self, event: &InotifyEvent, now: Instant) {
        let overflow = event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
        // Of a directory that had the name before.
        if !overflow && self.watched != Some(event.wd) {
            return;
        }
        debug!(mask = ?event.mask, name = ?event.name, "in the manifest directory");
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.watched = None;
        }
        self.changes.event(event.mask, event.name.as_deref(), now);
        if let Some(name) = event.name.as_deref()
            && event.mask.contains(AddWatchFlags::IN_CREATE)
            && is_link(&self.manifests.dir().join(OsStr::new(name)))
        {
            self.changes.complete(name);
        }
    }

    /// False when it is time to end.
    fn wait(&self, stop: &EventFd) -> bool {
        let mut fds = [
            PollFd::new(self.events.as_fd(), PollFlags::POLLIN),
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
        ];
        let now = Instant::now();
        let until = self.relist_at().into_iter().chain(self.changes.next(now)).min().unwrap_or(now);
        match poll(&mut fds, rounded_up(until.saturating_duration_since(now))) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => {
                warn!(%error, "cannot wait for changes of the manifest directory: listing it every second");
                thread::sleep(MISSING);
            }
        }
        !fds[1].any().unwrap_or(false)
    }
}

/// In milliseconds, never too short: waking before the time would be in vain.
fn rounded_up(wait: Duration) -> PollTimeout {
    PollTimeout::try_from(wait + Duration::from_micros(999)).unwrap_or(PollTimeout::MAX)
}

/// A symbolic link, or one more name of a file: complete from the first moment.
fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink() || m.nlink() > 1)
}

#[cfg(test)]
mod tests;
