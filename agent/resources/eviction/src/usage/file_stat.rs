//! What statx(2) returns of one file, as far as counting needs it.

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, CWD, FileType, StatxAttributes, StatxFlags, makedev, statx};
use rustix::io::Errno;

/// Status of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileStat {
    /// Allocated blocks in bytes.
    pub bytes: u64,
    pub inode: u64,
    /// As `st_dev` of stat(2).
    pub device: u64,
    pub links: u32,
    pub directory: bool,
    /// It is the root of a mount (Linux 5.8; before that, mounts are only recognised by another device
    /// number).
    pub mounted: bool,
}

impl FileStat {
    /// Status of `name` in `dir`, or of `dir` itself if the name is empty. Links are not followed. `None` if
    /// it does not exist.
    pub fn at(dir: impl AsFd, name: &CStr) -> Result<Option<Self>, Errno> {
        Self::ask(dir, name, AtFlags::empty(), StatxFlags::BASIC_STATS)
    }

    /// The same of an entry of a directory on `device`. If another file system is mounted there, only that is
    /// found out, from what the kernel itself knows: the file system may never answer, as FUSE and network
    /// file systems do whose server is gone.
    pub fn of_entry(dir: impl AsFd, name: &CStr, device: u64) -> Result<Option<Self>, Errno> {
        match Self::ask(&dir, name, AtFlags::STATX_DONT_SYNC, StatxFlags::empty())? {
            Some(found) if !found.mounted && found.device == device => Self::at(dir, name),
            found => Ok(found),
        }
    }

    /// The same of an entry that is not a directory, as the kernel has it: what is mounted over a single file
    /// may never answer either. A local file system has everything in memory.
    pub fn of_file(dir: impl AsFd, name: &CStr) -> Result<Option<Self>, Errno> {
        Self::ask(dir, name, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS)
    }

    /// Whether something is mounted at this path, by what the kernel itself knows. False if it does not
    /// exist.
    pub fn is_mount(path: &CStr) -> bool {
        let found = Self::ask(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
        found.is_ok_and(|found| found.is_some_and(|found| found.mounted))
    }

    fn ask(dir: impl AsFd, name: &CStr, how: AtFlags, what: StatxFlags) -> Result<Option<Self>, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
        let found = match statx(dir, name, flags | how, what) {
            Err(Errno::NOENT) => return Ok(None),
            found => found?,
        };
        Ok(Some(Self {
            bytes: found.stx_blocks.saturating_mul(512),
            inode: found.stx_ino,
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            links: found.stx_nlink,
            directory: FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory,
            mounted: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
        }))
    }
}
