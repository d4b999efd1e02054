//! When every file of the directory is looked at again.
//!
//! inotify reports changes that are made on this machine and through this directory. A link's target is
//! changed elsewhere, a network file system on another machine: only looking finds that, as often as
//! `fileCheckFrequency` says. Elsewhere a look each minute finds what it may have lost, and what it never
//! reports (a mount over the directory, another directory above it), together with what other parts do each
//! minute.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, XFS_SUPER_MAGIC, statfs};

/// How often a directory is looked for that does not exist.
pub const MISSING: Duration = Duration::from_secs(1);
/// How often all is looked at where the kernel reports every change, for what it may have lost.
pub const MINUTE: Duration = Duration::from_secs(60);

/// File systems of one machine. What is written to one of them passes its inotify.
const LOCAL: [FsType; 4] = [EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, TMPFS_MAGIC];

/// Which changes the kernel reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    /// None: the directory is not watched.
    None,
    /// Perhaps not all of them.
    Some,
    /// All.
    All,
}

/// The last time that every file was looked at.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    pub at: Instant,
    /// The end of the minute that this was in, as tasks that do something each minute count it.
    pub minute: Instant,
}

impl Listed {
    /// When all is looked at again; `period` is `fileCheckFrequency`.
    pub fn again(&self, period: Duration, reports: Reports) -> Instant {
        match reports {
            Reports::None => self.at + period.min(MISSING),
            Reports::Some => self.at + period,
            Reports::All => (self.at + period).max(self.minute),
        }
    }
}

/// Whether only this machine writes to the file system of the directory.
pub fn is_local(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|found| LOCAL.contains(&found.filesystem_type()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_kernel_reports_every_change_all_is_looked_at_each_minute() {
        let at = Instant::now();
        let seconds = Duration::from_secs;
        for (period, reports, minute, expected) in [
            (20, Reports::All, 57, 57),
            // The minute is nearly over.
            (20, Reports::All, 2, 20),
            (300, Reports::All, 57, 300),
            (20, Reports::Some, 57, 20),
            (300, Reports::Some, 57, 300),
            (20, Reports::None, 57, 1),
        ] {
            let again = Listed { at, minute: at + seconds(minute) }.again(seconds(period), reports);
            assert_eq!(again, at + seconds(expected), "{period} {reports:?} {minute}");
        }
    }

    #[test]
    fn proc_is_not_taken_for_a_file_system_whose_changes_are_reported() {
        assert!(!is_local(Path::new("/proc")) && !is_local(Path::new("/nonexistent")));
        assert!(!Path::new("/dev/shm").is_dir() || is_local(Path::new("/dev/shm")), "a tmpfs");
    }
}
