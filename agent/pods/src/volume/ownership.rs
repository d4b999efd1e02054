//! Gives the files of a local volume to the pod's `fsGroup` (kubelet pkg/volume/volume_linux.go:
//! `ChangePermissions`).
//!
//! A pod that had the volume before may have left any links in it, and a process of the node may change it
//! meanwhile. Therefore each file is opened below its directory's descriptor without following a link, and
//! owner and mode are those of the descriptor.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::PodSecurityContext;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{Gid, fchownat};
use tracing::warn;

use super::VolumeError;
use super::foreign::Moves;

/// How many directories deep a volume may be. Each one on the way keeps two descriptors open.
const DEPTH: usize = 1024;

/// Who owns the files of a volume, by the pod's security context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// `fsGroup`.
    pub(super) group: u32,
    /// `fsGroupChangePolicy` is `OnRootMismatch`: nothing is changed if the volume's root is as it should be.
    on_root_mismatch: bool,
}

impl Wanted {
    /// `None` without `fsGroup`.
    pub(super) fn of(context: Option<&PodSecurityContext>) -> Option<Self> {
        let context = context?;
        let group = u32::try_from(context.fs_group?).ok()?;
        let on_root_mismatch = context.fs_group_change_policy.as_deref() == Some("OnRootMismatch");
        Some(Self { group, on_root_mismatch })
    }
}

/// Gives everything below `root`, and in the end `root` itself, to the group. An end in between therefore
/// leaves a root that does not match. Blocks, for as long as the number of files takes; ends early when
/// `moves` says so.
///
/// # Errors
/// A directory cannot be read, or a file cannot be changed. A file that does not allow the change is no
/// error, as in a kubelet: it is immutable, or its file system is read-only or has no such owners.
pub(super) fn give(root: &Path, wanted: Wanted, moves: &Moves) -> Result<(), VolumeError> {
    let top = Entry::root(root)?;
    if wanted.on_root_mismatch && is_right(&top, wanted.group) {
        return Ok(());
    }
    let mut refused = Refused::default();
    if !top.is(libc::S_IFDIR) {
        return top.give(root, wanted.group, &mut refused);
    }
    let mut levels = vec![Level::new(top, root.to_owned())?];
    while let Some(level) = levels.last_mut() {
        if !moves.step() {
            return Err(VolumeError::call("chown", root)(Errno::EINTR));
        }
        let Some(next) = level.entries.next() else {
            // The directory comes after what is in it.
            if let Some(level) = levels.pop() {
                level.entry.give(&level.path, wanted.group, &mut refused)?;
            }
            continue;
        };
        let name = next.map_err(VolumeError::file("list", &level.path))?.file_name();
        let path = level.path.join(&name);
        let entry = match Entry::below(&level.entry, &name) {
            // It was removed meanwhile.
            Err(Errno::ENOENT) => continue,
            found => found.map_err(VolumeError::call("open", &path))?,
        };
        if !entry.is(libc::S_IFDIR) {
            entry.give(&path, wanted.group, &mut refused)?;
        } else if levels.len() < DEPTH {
            levels.push(Level::new(entry, path)?);
        } else {
            return Err(VolumeError::call("chown", &path)(Errno::ENAMETOOLONG));
        }
    }
    refused.report(root, wanted.group);
    Ok(())
}

/// The group that owns the volume's root.
///
/// # Errors
/// The root cannot be read.
pub(super) fn group_of(root: &Path) -> Result<u32, VolumeError> {
    Entry::root(root).map(|root| root.group)
}

/// The mode of a file that the group may use: it may read and write; it may also enter a directory, and owns
/// what is made there.
fn with_group(mode: u32, is_dir: bool) -> u32 {
    mode | if is_dir { 0o2770 } else { 0o660 }
}

/// Whether the volume's root is the group's already (kubelet `requiresPermissionChange`).
fn is_right(root: &Entry, group: u32) -> bool {
    root.is(libc::S_IFDIR) && root.group == group && with_group(root.mode, true) == root.mode
}

/// A directory on the way, with what of it is still to be done.
struct Level {
    entry: Entry,
    path: PathBuf,
    entries: fs::ReadDir,
}

impl Level {
    fn new(entry: Entry, path: PathBuf) -> Result<Self, VolumeError> {
        let entries = fs::read_dir(entry.link()).map_err(VolumeError::file("list", &path))?;
        Ok(Self { entry, path, entries })
    }
}

/// A file or directory that is open, but not for reading: no device or pipe notices it.
struct Entry {
    file: OwnedFd,
    /// `S_IFMT` of its mode.
    kind: u32,
    /// The other bits of its mode.
    mode: u32,
    group: u32,
}

impl Entry {
    /// Follows links, as the runtime does that mounts the volume.
    fn root(path: &Path) -> Result<Self, VolumeError> {
        let opened = open(path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).and_then(Self::of);
        opened.map_err(VolumeError::call("open", path))
    }

    /// Follows no link.
    fn below(parent: &Self, name: &OsStr) -> nix::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Self::of(openat(&parent.file, name, flags, Mode::empty())?)
    }

    fn of(file: OwnedFd) -> nix::Result<Self> {
        let found = fstat(&file)?;
        let (kind, mode) = (found.st_mode & libc::S_IFMT, found.st_mode & 0o7777);
        Ok(Self { file, kind, mode, group: found.st_gid })
    }

    fn is(&self, kind: u32) -> bool {
        self.kind == kind
    }

    /// A path that leads to what is open, whatever its name leads to by now.
    fn link(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    fn give(&self, path: &Path, group: u32, refused: &mut Refused) -> Result<(), VolumeError> {
        if self.group != group {
            let gid = Some(Gid::from_raw(group));
            let given = fchownat(&self.file, "", None, gid, AtFlags::AT_EMPTY_PATH);
            refused.unless_fault(given.map_err(VolumeError::call("chown", path)))?;
        }
        let mode = with_group(self.mode, self.is(libc::S_IFDIR));
        // A link has no mode of its own. A change of the owner may have cleared bits.
        let is_due = mode != self.mode || self.group != group;
        if is_due && !self.is(libc::S_IFLNK) {
            let set = fs::set_permissions(self.link(), Permissions::from_mode(mode));
            refused.unless_fault(set.map_err(VolumeError::file("chmod", path)))?;
        }
        Ok(())
    }
}

/// Changes that files or their file system do not allow.
#[derive(Default)]
struct Refused {
    count: u64,
    first: Option<VolumeError>,
}

impl Refused {
    fn unless_fault(&mut self, done: Result<(), VolumeError>) -> Result<(), VolumeError> {
        match done {
            Err(VolumeError::File { call, path, source }) if is_refusal(&source) => {
                self.count += 1;
                self.first.get_or_insert(VolumeError::File { call, path, source });
                Ok(())
            }
            done => done,
        }
    }

    fn report(&self, root: &Path, group: u32) {
        if let Some(first) = &self.first {
            let root = root.display();
            warn!(
                "files of the volume {root} do not belong to the group {group}: {} refused, first: {first}",
                self.count
            );
        }
    }
}

fn is_refusal(error: &io::Error) -> bool {
    let refusals = [libc::EPERM, libc::EROFS, libc::EOPNOTSUPP, libc::EINVAL];
    error.raw_os_error().is_some_and(|number| refusals.contains(&number))
}

#[cfg(test)]
mod tests;
