//! Which cgroups were written to since they were compared last, by anything but the reconciler. The kernel
//! reports it (fanotify, from Linux 6.8 on), so that a full reconcile need not read the limits of the others.
//! Every fifteenth one reads all nevertheless, as does one after reports were lost.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use nodewarden_machine::cgroup::control::LIMITED;
use nodewarden_machine::cgroup::notices::{NoticeQueue, file_system};
use nodewarden_machine::cgroup::{Layout, join};
use tracing::{info, warn};

/// One full reconcile of so many reads all limits.
pub const ALL_EVERY: u32 = 15;
/// With more changed directories than this, all are read: about 1,500 pods that start within a minute on
/// cgroup v1, where a cgroup has one in each hierarchy. They take 17 bytes each until the next comparison.
const MOST: usize = 32_000;
/// Bytes that one read of the reports takes at most: of some 400.
const READ_BYTES: usize = 32 << 10;
/// Files that change no limit: processes enter, are frozen, killed or waited for.
const NO_LIMITS: [&[u8]; 16] = [
    b"cgroup.procs",
    b"cgroup.threads",
    b"tasks",
    b"cgroup.freeze",
    b"cgroup.kill",
    b"freezer.state",
    b"memory.reclaim",
    b"memory.force_empty",
    b"memory.pressure",
    b"cpu.pressure",
    b"io.pressure",
    b"cgroup.event_control",
    b"notify_on_release",
    b"devices.allow",
    b"devices.deny",
    b"net_cls.classid",
];
/// A controller that is turned off and on again here resets the limits of the children, which have no
/// children of their own with it (cgroup-v2.rst, "Top-down Constraint").
const RESETS: &[u8] = b"cgroup.subtree_control";

/// What a full reconcile reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Compare {
    /// The limits of all cgroups.
    All,
    /// The limits of cgroups that were written to.
    Some(Written),
}

/// The directories of cgroups that were written to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Directories with limits that were written.
    pub limits: HashSet<Directory>,
    /// Directories in which a cgroup was made: that changes no limit of theirs.
    pub parents: HashSet<Directory>,
    /// Directories whose children may have lost their limits.
    pub children: HashSet<Directory>,
}

/// A cgroup in one hierarchy: the ids of the file system and of the directory in it.
pub type Directory = (u64, u64);

/// Collects what the kernel reports.
#[derive(Debug, Default)]
pub struct Touched {
    /// `None`: nothing is reported, so that all are read each time.
    queue: Option<NoticeQueue>,
    /// Where the hierarchies that have limits are mounted, with the ids of their file systems.
    mounts: Vec<(PathBuf, u64)>,
    written: Written,
    /// Something is not known.
    all: bool,
    /// Full reconciles since the one that read all; none before the first.
    since_all: Option<u32>,
}

impl Touched {
    /// Has the kernel report what changes in the hierarchies that have limits.
    pub fn watch(layout: &Layout) -> Self {
        match Self::of(layout) {
            Ok((queue, mounts)) => Self { queue: Some(queue), mounts, ..Self::default() },
            Err(why) => {
                info!("the kernel does not report writes to cgroups, so that all are read each time: {why}");
                Self::default()
            }
        }
    }

    fn of(layout: &Layout) -> io::Result<(NoticeQueue, Vec<(PathBuf, u64)>)> {
        let mounts = LIMITED.iter().filter_map(|own| Some(layout.hierarchy(*own)?.mount.clone()));
        let mounts = mounts.map(|mount| file_system(&mount).map(|id| (mount, id)));
        let mut mounts = mounts.collect::<io::Result<Vec<_>>>()?;
        mounts.sort_unstable();
        mounts.dedup();
        Ok((NoticeQueue::of_changes(mounts.iter().map(|(mount, _)| &**mount))?, mounts))
    }

    /// Whether one of the cgroup's directories is in one of these sets.
    pub fn is_in<const N: usize>(&self, path: &str, sets: [&HashSet<Directory>; N]) -> bool {
        sets.iter().any(|set| !set.is_empty())
            && self.mounts.iter().any(|(mount, file_system)| {
                let here = join(mount, path).symlink_metadata();
                here.is_ok_and(|here| sets.iter().any(|set| set.contains(&(*file_system, here.ino()))))
            })
    }

    /// Whether the kernel reports anything.
    #[cfg(test)]
    pub fn reports(&self) -> bool {
        self.queue.is_some()
    }

    /// Drops what was reported.
    #[cfg(test)]
    pub fn forget(&mut self) {
        self.drain();
        self.written = Written::default();
        self.all = false;
    }

    /// The next full reconcile reads all.
    pub fn doubt(&mut self) {
        self.all = true;
    }

    /// Takes in what was reported since, before the kernel keeps no more. What the calling thread wrote is
    /// left out: that is the reconciler, which knows what it wrote. Other threads of the agent count.
    pub fn drain(&mut self) {
        let Some(queue) = &self.queue else { return };
        let own = nix::unistd::gettid().as_raw();
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match queue.read(&mut bytes) {
                Ok(Some(read)) => {
                    self.all |= read.overflowed;
                    for notice in read.notices.into_iter().filter(|notice| notice.pid != own) {
                        let directory = (notice.file_system, notice.cgroup);
                        self.written.note(directory, notice.name, notice.is_new);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    warn!(
                        "reports of writes to cgroups cannot be read, so that all are read each time: {error}"
                    );
                    self.queue = None;
                    return;
                }
            }
        }
    }

    /// What a full reconcile that begins now reads.
    pub fn take(&mut self) -> Compare {
        self.drain();
        let written = std::mem::take(&mut self.written);
        let doubted = std::mem::take(&mut self.all) || written.is_too_much() || self.queue.is_none();
        match self.since_all {
            Some(since) if !doubted && since + 1 < ALL_EVERY => {
                self.since_all = Some(since + 1);
                Compare::Some(written)
            }
            _ => {
                self.since_all = Some(0);
                Compare::All
            }
        }
    }
}

impl Written {
    /// Takes in one report: a cgroup `name` was made there, or a file of this name written.
    fn note(&mut self, directory: Directory, name: &[u8], is_new: bool) {
        if is_new {
            if !self.is_too_much() {
                self.parents.insert(directory);
            }
        } else if name == RESETS {
            self.children.insert(directory);
        } else if !NO_LIMITS.contains(&name) && !self.is_too_much() {
            self.limits.insert(directory);
        }
    }

    fn is_too_much(&self) -> bool {
        self.limits.len() + self.parents.len() > MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_to_limits_count() {
        let mut written = Written::default();
        let mut note = |id, name: &[u8], is_new| {
            written.note((7, id), name, is_new);
            (written.limits.len(), written.children.len(), written.parents.len())
        };
        assert_eq!(note(1, b"cgroup.procs", false), (0, 0, 0));
        assert_eq!(note(2, b"tasks", false), (0, 0, 0));
        assert_eq!(note(3, b"memory.max", false), (1, 0, 0));
        assert_eq!(note(3, b"cpu.shares", false), (1, 0, 0));
        assert_eq!(note(4, b"cri-containerd-new.scope", true), (1, 0, 1), "a container");
        assert_eq!(note(4, b"tasks", true), (1, 0, 1), "a cgroup with the name of a file");
        assert_eq!(note(5, RESETS, false), (1, 1, 1));
    }

    #[test]
    fn of_more_directories_than_are_kept_all_are_read() {
        let mut written = Written::default();
        for id in 0..=MOST as u64 {
            assert!(!written.is_too_much());
            written.note((7, id), b"cpu.max", id % 2 == 0);
        }
        assert!(written.is_too_much());
        written.note((7, u64::MAX), b"cpu.max", false);
        assert_eq!(written.limits.len() + written.parents.len(), MOST + 1, "no more are kept");
    }

    #[test]
    fn without_reports_all_are_read_each_time() {
        let mut touched = Touched::default();
        assert_eq!([touched.take(), touched.take()], [Compare::All, Compare::All]);
    }
}
