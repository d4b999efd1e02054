//! Which files of cgroups are written and which cgroups are made, as the kernel reports it by fanotify(7).
//! It reports what is done through any mount of the file system, after it was done.

mod parse;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::fcntl::AT_FDCWD;
use nix::sys::fanotify::{EventFFlags, Fanotify, InitFlags, MarkFlags, MaskFlags};
use nix::sys::statvfs::statvfs;

pub use parse::{Notice, Notices};

/// `FAN_REPORT_DFID_NAME` of linux/fanotify.h (5.9): the directory and the name of the file in it.
const REPORT_DIRECTORY_AND_NAME: u32 = 0x0c00;

/// Reports of cgroup file systems. The kernel keeps those that were not read, equal ones of a process once,
/// up to 16,384 (`fs.fanotify.max_queued_events`).
#[derive(Debug)]
pub struct NoticeQueue(Fanotify);

impl NoticeQueue {
    /// Begins to report writes to files in the file systems that are mounted at `mounts`. A file that is
    /// opened with `O_TRUNC` counts as written.
    ///
    /// # Errors
    /// As of `fanotify_init(2)` and `fanotify_mark(2)`: without `CAP_SYS_ADMIN`, and on kernels that give
    /// cgroups' file systems no id (before 6.8).
    pub fn of_writes<'a>(mounts: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        Self::of(mounts, InitFlags::empty(), MaskFlags::FAN_MODIFY)
    }

    /// As [`Self::of_writes`], and reports cgroups that are made. A notice has the id of the thread in place
    /// of its process.
    ///
    /// # Errors
    /// As [`Self::of_writes`].
    pub fn of_changes<'a>(mounts: impl IntoIterator<Item = &'a Path>) -> io::Result<Self> {
        let what = MaskFlags::FAN_MODIFY | MaskFlags::FAN_CREATE | MaskFlags::FAN_ONDIR;
        Self::of(mounts, InitFlags::FAN_REPORT_TID, what)
    }

    fn of<'a>(
        mounts: impl IntoIterator<Item = &'a Path>,
        more: InitFlags,
        what: MaskFlags,
    ) -> io::Result<Self> {
        let flags = more
            | InitFlags::FAN_CLOEXEC
            | InitFlags::FAN_NONBLOCK
            | InitFlags::from_bits_retain(REPORT_DIRECTORY_AND_NAME);
        let group = Fanotify::init(flags, EventFFlags::O_RDONLY)?;
        for mount in mounts {
            let marks = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM;
            group.mark(marks, what, AT_FDCWD, Some(mount))?;
        }
        Ok(Self(group))
    }

    /// The next reports, as many as `bytes` has room for (a report takes some 80 bytes); `None` if there are
    /// no more now.
    ///
    /// # Errors
    /// As of read(2).
    pub fn read<'a>(&self, bytes: &'a mut [u8]) -> io::Result<Option<Notices<'a>>> {
        match nix::unistd::read(self.0.as_fd(), bytes) {
            Ok(length) => Ok(Some(parse::notices(&bytes[..length]))),
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The id of the file system that is mounted at `mount`, as notices have it.
///
/// # Errors
/// As of statvfs(3).
pub fn file_system(mount: &Path) -> io::Result<u64> {
    Ok(statvfs(mount)?.filesystem_id())
}

impl AsFd for NoticeQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
