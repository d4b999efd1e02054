//! Decides from the events of the directory which files are to be read, and when. Pure.
//!
//! A file that was made or written to and not yet closed is being written: it is read when its writer closes
//! it, or when nothing was written for a while. (A writer that keeps the file open is rare; a link has no
//! writer at all.)

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use nix::sys::inotify::AddWatchFlags as Mask;

use super::is_manifest;

/// How long a file may be silent without being closed.
pub const SILENT: Duration = Duration::from_secs(1);

/// What is to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Due {
    /// Everything, because it is not known what changed.
    pub all: bool,
    /// These files, which may be gone.
    pub names: BTreeSet<OsString>,
}

impl Due {
    pub fn is_nothing(&self) -> bool {
        !self.all && self.names.is_empty()
    }
}

/// What has happened and is not read yet.
#[derive(Debug, Default)]
pub struct Changes {
    due: Due,
    /// Being written, with the time of the last sign of it.
    writing: BTreeMap<OsString, Instant>,
}

impl Changes {
    /// Takes one event of inotify(7); one without a name is about the directory itself.
    pub fn event(&mut self, mask: Mask, name: Option<&OsStr>, now: Instant) {
        // IN_IGNORED: the watch is gone, and with it the directory or its file system.
        let lost = Mask::IN_Q_OVERFLOW
            | Mask::IN_DELETE_SELF
            | Mask::IN_MOVE_SELF
            | Mask::IN_UNMOUNT
            | Mask::IN_IGNORED;
        if mask.intersects(lost) {
            self.due.all = true;
        }
        let Some(name) = name else { return };
        if mask.contains(Mask::IN_ISDIR) {
            return;
        }
        if !is_manifest(name) {
            // A mounted volume is swapped whole by renaming its link `..data`, which the files' links go
            // through.
            let swapped = name.as_encoded_bytes().starts_with(b"..") && mask.contains(Mask::IN_MOVED_TO);
            self.due.all |= swapped;
            return;
        }
        if mask.intersects(Mask::IN_CREATE | Mask::IN_MODIFY) {
            self.writing.insert(name.to_owned(), now);
        }
        let over = Mask::IN_CLOSE_WRITE | Mask::IN_MOVED_TO | Mask::IN_MOVED_FROM | Mask::IN_DELETE;
        if mask.intersects(over) {
            self.writing.remove(name);
            self.due.names.insert(name.to_owned());
        }
    }

    /// No process writes this file, whatever events there were: it is a link.
    pub fn complete(&mut self, name: &OsStr) {
        if self.writing.remove(name).is_some() {
            self.due.names.insert(name.to_owned());
        }
    }

    /// What is to be read by now; it is not returned again.
    pub fn take(&mut self, now: Instant) -> Due {
        let Self { due, writing } = self;
        writing.retain(|name, seen| {
            let silent = now.saturating_duration_since(*seen) >= SILENT;
            if silent {
                due.names.insert(name.clone());
            }
            !silent
        });
        std::mem::take(due)
    }

    /// When something is due without another event: `now` if it is due already.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        if !self.due.is_nothing() {
            return Some(now);
        }
        self.writing.values().min().map(|seen| *seen + SILENT)
    }

    /// Whether `name` is being written.
    pub fn is_writing(&self, name: &OsStr) -> bool {
        self.writing.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(events: &[(Mask, &str)]) -> (Due, Changes, Instant) {
        let (mut changes, now) = (Changes::default(), Instant::now());
        for (mask, name) in events {
            changes.event(*mask, Some(OsStr::new(name)).filter(|n| !n.is_empty()), now);
        }
        (changes.take(now), changes, now)
    }

    #[test]
    fn each_kind_of_event_makes_its_file_due() {
        let (create, modify, close) = (Mask::IN_CREATE, Mask::IN_MODIFY, Mask::IN_CLOSE_WRITE);
        let (to, from, delete) = (Mask::IN_MOVED_TO, Mask::IN_MOVED_FROM, Mask::IN_DELETE);
        for (events, all, names) in [
            (&[(create, "a"), (modify, "a")][..], false, &[][..]),
            (&[(create, "a"), (modify, "a"), (close, "a")], false, &["a"]),
            (&[(to, "a"), (from, "b"), (delete, "c")], false, &["a", "b", "c"]),
            (&[(create, "a"), (delete, "a")], false, &["a"]),
            (&[(close, "a"), (modify, "a")], false, &["a"]),
            (&[(close, ".a.swp"), (to, ".a")], false, &[]),
            (&[(close, "a~"), (close, "a.swp")], false, &["a.swp", "a~"]),
            (&[(create | Mask::IN_ISDIR, "d")], false, &[]),
            (&[(Mask::IN_Q_OVERFLOW, "")], true, &[]),
            (&[(Mask::IN_DELETE_SELF, "")], true, &[]),
            (&[(Mask::IN_MOVE_SELF, "")], true, &[]),
            (&[(Mask::IN_IGNORED, "")], true, &[]),
            (&[(to, "..data")], true, &[]),
        ] {
            let (due, _, _) = after(events);
            let found: Vec<_> = due.names.iter().map(|n| n.to_str().unwrap()).collect();
            assert_eq!((due.all, found.as_slice()), (all, names), "{events:?}");
        }
    }

    #[test]
    fn a_file_that_is_never_closed_is_read_when_it_is_silent() {
        let (due, mut changes, now) = after(&[(Mask::IN_CREATE, "a")]);
        assert!(due.is_nothing() && changes.is_writing(OsStr::new("a")));
        assert_eq!(changes.next(now), Some(now + SILENT));
        let later = now + SILENT / 2;
        changes.event(Mask::IN_MODIFY, Some(OsStr::new("a")), later);
        assert!(changes.take(now + SILENT).is_nothing());
        assert_eq!(changes.next(later), Some(later + SILENT));
        assert_eq!(changes.take(later + SILENT).names.len(), 1);
        assert!(changes.next(later).is_none() && !changes.is_writing(OsStr::new("a")));
    }

    #[test]
    fn what_is_due_needs_no_other_event() {
        let (mut changes, now) = (Changes::default(), Instant::now());
        changes.event(Mask::IN_CREATE, Some(OsStr::new("a")), now);
        changes.event(Mask::IN_CLOSE_WRITE, Some(OsStr::new("b")), now);
        let later = now + SILENT / 2;
        assert_eq!(changes.next(later), Some(later));
        changes.take(later);
        assert_eq!(changes.next(later), Some(now + SILENT));
    }

    #[test]
    fn a_link_has_no_writer() {
        let (due, mut changes, now) = after(&[(Mask::IN_CREATE, "a")]);
        assert!(due.is_nothing());
        changes.complete(OsStr::new("a"));
        assert_eq!(changes.take(now).names.len(), 1);
        changes.complete(OsStr::new("b"));
        assert!(changes.take(now).is_nothing());
    }
}
