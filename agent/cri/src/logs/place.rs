//! Where a run's log is, and its directory opened in a way that no pod can lead elsewhere.
//!
//! A pod with a writable `hostPath` of the log directory may put links and FIFOs where the agent, as root,
//! expects log files. The directory of all logs is the administrator's, and may be reached through links.
//! Below it every step of a path is a directory that is no link, and a log is a regular file, opened without
//! following a link and without waiting for the other end of a FIFO.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, open, openat, renameat2};
use nix::libc;
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::LogError;

const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);
const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY)
    .union(OFlag::O_CLOEXEC);

/// The place of one run's log: `<namespace>_<pod>_<uid>/<container>/<run>.log` below the directory of all
/// logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPath {
    /// The directory of all logs (`podLogsDir`).
    root: PathBuf,
    /// Path below `root`.
    below: PathBuf,
}

impl LogPath {
    /// The log `name` (`<container>/<run>.log`) of the pod with the log directory `pod_logs`, which is a
    /// directory in that of all logs.
    pub fn new(pod_logs: &Path, name: impl AsRef<Path>) -> Self {
        let root = pod_logs.parent().unwrap_or(Path::new("/"));
        let below = Path::new(pod_logs.file_name().unwrap_or_default()).join(name);
        Self { root: root.to_owned(), below }
    }

    /// The whole path, for messages.
    pub fn full(&self) -> PathBuf {
        self.root.join(&self.below)
    }

    /// Name of the file.
    pub(super) fn name(&self) -> &OsStr {
        self.below.file_name().unwrap_or_default()
    }

    /// The log of this name in the same directory.
    pub(super) fn beside(&self, name: &OsStr) -> Self {
        Self { root: self.root.clone(), below: self.below.with_file_name(name) }
    }

    /// The directory with the log.
    ///
    /// # Errors
    /// It does not exist ([`LogError::is_missing`]), a part of the path below the directory of all logs is a
    /// link or no directory, or it cannot be opened.
    pub(super) fn directory(&self) -> Result<LogDir, LogError> {
        let path = self.full();
        let path = path.parent().unwrap_or(Path::new("/")).to_owned();
        let fail = |errno: Errno| LogError::at("open", &path)(errno);
        let mut fd = open(&self.root, DIRECTORY, Mode::empty()).map_err(fail)?;
        for part in self.below.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(name) = part else { return Err(fail(Errno::EINVAL)) };
            fd = openat(&fd, name, DIRECTORY.union(OFlag::O_NOFOLLOW), Mode::empty()).map_err(fail)?;
        }
        Ok(LogDir { fd, path })
    }

    /// Whether there is a regular file with less than `bytes` at the path: one system call, whose answer may
    /// be of another file if a part of the path is a link. It opens nothing and waits for nothing.
    pub fn seems_smaller_than(&self, bytes: u64) -> bool {
        self.full().symlink_metadata().is_ok_and(|found| found.is_file() && found.len() < bytes)
    }

    /// Size of the log in bytes; `None` if it does not exist. Does not wait for anything.
    ///
    /// # Errors
    /// It is not a regular file, is reached through a link, or cannot be looked at.
    pub fn size(&self) -> Result<Option<u64>, LogError> {
        let directory = match self.directory() {
            Err(error) if error.is_missing() => return Ok(None),
            directory => directory?,
        };
        let Some(found) = directory.stat(self.name())? else { return Ok(None) };
        directory.check_regular(self.name(), &found)?;
        Ok(Some(u64::try_from(found.st_size).unwrap_or(0)))
    }
}

/// The directory of a container's logs, open. What happens in it happens in this directory, whatever is put
/// at its path.
#[derive(Debug)]
pub(super) struct LogDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl LogDir {
    /// The path of a file in it, for messages.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// A path by which other calls reach this very directory.
    pub(super) fn held(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()))
    }

    /// The names in UTF-8 that are `wanted`; others cannot be log files.
    pub(super) fn names(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, LogError> {
        let listed = openat(self.fd.as_fd(), ".", DIRECTORY, Mode::empty()).and_then(Dir::from_fd);
        let mut listed = listed.map_err(LogError::at("open", &self.path))?;
        let mut found = Vec::new();
        for entry in listed.iter() {
            let entry = entry.map_err(LogError::at("getdents", &self.path))?;
            if let Ok(name) = entry.file_name().to_str()
                && wanted(name)
            {
                found.push(name.to_owned());
            }
        }
        Ok(found)
    }

    /// Facts about an entry, of a link itself if it is one; `None` if there is no such entry.
    pub(super) fn stat(&self, name: &OsStr) -> Result<Option<FileStat>, LogError> {
        match fstatat(&self.fd, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(LogError::at("stat", &self.path_of(name))(errno)),
        }
    }

    /// Opens a file for reading; `None` if it does not exist.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be opened.
    pub(super) fn open(&self, name: &OsStr) -> Result<Option<(File, FileStat)>, LogError> {
        let fd = match openat(&self.fd, name, READ, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            // A link, and a socket or the like.
            Err(Errno::ELOOP | Errno::ENXIO) => return Err(self.not_regular(name)),
            Err(errno) => return Err(LogError::at("open", &self.path_of(name))(errno)),
        };
        let found = fstat(&fd).map_err(LogError::at("stat", &self.path_of(name)))?;
        self.check_regular(name, &found)?;
        Ok(Some((File::from(fd), found)))
    }

    /// Creates a file that does not exist, for writing, readable by root alone.
    pub(super) fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(File::from(openat(&self.fd, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?))
    }

    /// Gives an entry another name; fails if that exists, unless `replace`.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr, replace: bool) -> nix::Result<()> {
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::RENAME_NOREPLACE };
        renameat2(&self.fd, from, &self.fd, to, flags)
    }

    /// Removes an entry that is no directory; a link itself, not what it leads to.
    pub(super) fn unlink(&self, name: &OsStr) -> nix::Result<()> {
        unlinkat(&self.fd, name, UnlinkatFlags::NoRemoveDir)
    }

    fn check_regular(&self, name: &OsStr, found: &FileStat) -> Result<(), LogError> {
        if is_regular(found) { Ok(()) } else { Err(self.not_regular(name)) }
    }

    fn not_regular(&self, name: &OsStr) -> LogError {
        LogError::at("open", &self.path_of(name))(io::Error::other("it is not a regular file"))
    }
}

/// Whether it is a regular file.
pub(super) fn is_regular(found: &FileStat) -> bool {
    found.st_mode & libc::S_IFMT == libc::S_IFREG
}
