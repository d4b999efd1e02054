//! Removes a pod's directory: first unmounts what is mounted in it, then removes its contents. Links are
//! removed and never followed; nothing below a remaining mount is touched.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, renameat};
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::{VolumeError, mount_table};

/// How often the mounts are listed and unmounted: one may have been hidden by another.
const ROUNDS: usize = 8;
/// Maximum depth of directories that are emptied in place, each with an open descriptor; deeper ones are
/// moved up first.
const DEEPEST: usize = 64;
/// How often a directory is emptied again if it is not empty afterwards.
const PASSES: usize = 3;
const DIRECTORY: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_CLOEXEC);

/// Removes the pod's directory `pod_dir`; succeeds if it does not exist. May be called again after an error
/// and then continues.
///
/// # Errors
/// Something could not be unmounted or removed. The contents of remaining mounts are not touched.
pub fn clean(pod_dir: &Path) -> Result<(), VolumeError> {
    match fs::symlink_metadata(pod_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(VolumeError::file("stat", pod_dir)(error)),
        Ok(_) => {}
    }
    let (Some(parent), Some(name)) = (pod_dir.parent(), pod_dir.file_name()) else {
        return Err(VolumeError::Mounted(pod_dir.to_owned()));
    };
    let parent = fs::canonicalize(parent).map_err(VolumeError::file("resolve", parent))?;
    unmount(&parent.join(name))?;
    take_away(pod_dir, &parent, name)
}

/// Removes a directory in which nothing is mounted; succeeds if it does not exist.
///
/// # Errors
/// Something could not be removed, `pod_dir` is a link, or something is mounted below it after all, which is
/// not touched.
pub fn remove(pod_dir: &Path) -> Result<(), VolumeError> {
    let (Some(parent), Some(name)) = (pod_dir.parent(), pod_dir.file_name()) else {
        return Err(VolumeError::Mounted(pod_dir.to_owned()));
    };
    match fs::symlink_metadata(pod_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(VolumeError::file("stat", pod_dir)(error)),
        Ok(_) => take_away(pod_dir, parent, name),
    }
}

fn take_away(pod_dir: &Path, parent: &Path, name: &OsStr) -> Result<(), VolumeError> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let above = open(parent, flags, Mode::empty()).map_err(VolumeError::call("open", parent))?;
    let top = enter(above.as_fd(), Path::new(name)).map_err(|errno| failed("open", pod_dir, errno))?;
    let mut removal = Removal { top: top.as_fd(), pod_dir, moved: 0 };
    for pass in 1.. {
        removal.empty(top.as_fd(), pod_dir, 0)?;
        match unlinkat(&above, name, UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => break,
            // Directories that were moved up are here now.
            Err(Errno::ENOTEMPTY) if removal.moved > 0 || pass < PASSES => removal.moved = 0,
            Err(errno) => return Err(failed("remove", pod_dir, errno)),
        }
    }
    Ok(())
}

fn unmount(pod_dir: &Path) -> Result<(), VolumeError> {
    for _ in 0..ROUNDS {
        let points = mount_table::below(pod_dir)?;
        if points.is_empty() {
            return Ok(());
        }
        for point in points.iter().rev() {
            let busy = matches!(umount2(point, MntFlags::UMOUNT_NOFOLLOW), Err(Errno::EBUSY));
            if busy {
                // Detached now; the kernel unmounts it when its last user ends.
                let _ = umount2(point, MntFlags::UMOUNT_NOFOLLOW | MntFlags::MNT_DETACH);
            }
        }
    }
    match mount_table::below(pod_dir)?.pop() {
        Some(point) => Err(VolumeError::Mounted(point)),
        None => Ok(()),
    }
}

/// The removal of a directory.
struct Removal<'a> {
    top: BorrowedFd<'a>,
    pod_dir: &'a Path,
    /// Number of directories moved up to `top` since it was last listed.
    moved: usize,
}

impl Removal<'_> {
    /// Removes the contents of a directory at `depth` levels below the top.
    fn empty(&mut self, dir: BorrowedFd<'_>, path: &Path, depth: usize) -> Result<(), VolumeError> {
        let listed = openat(dir, ".", DIRECTORY, Mode::empty()).and_then(Dir::from_fd);
        let mut listed = listed.map_err(|errno| failed("open", path, errno))?;
        for entry in listed.iter() {
            let entry = entry.map_err(|errno| failed("list", path, errno))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = path.join(name.to_string_lossy().as_ref());
            if entry.file_type().is_none_or(|kind| kind == Type::Directory) {
                self.directory(dir, name, &path, depth + 1)?;
            } else {
                file(dir, name, &path)?;
            }
        }
        Ok(())
    }

    fn directory(
        &mut self,
        above: BorrowedFd<'_>,
        name: &CStr,
        path: &Path,
        depth: usize,
    ) -> Result<(), VolumeError> {
        if depth > DEEPEST {
            return self.move_up(above, name, path);
        }
        for pass in 1.. {
            let dir = match enter(above, name) {
                Ok(dir) => dir,
                Err(Errno::ENOENT) => break,
                // Not every file system reports the kind of an entry when listing.
                Err(Errno::ENOTDIR | Errno::ELOOP) => return file(above, name, path),
                Err(errno) => return Err(failed("open", path, errno)),
            };
            self.empty(dir.as_fd(), path, depth)?;
            match unlinkat(above, name, UnlinkatFlags::RemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => break,
                Err(Errno::ENOTEMPTY) if pass < PASSES => {}
                Err(errno) => return Err(failed("remove", path, errno)),
            }
        }
        Ok(())
    }

    /// Moves a directory to the top, because deeper recursion would need too many open files.
    fn move_up(&mut self, above: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<(), VolumeError> {
        loop {
            self.moved += 1;
            let new = format!(".deep-{}-{}", self.moved, path.as_os_str().len());
            match renameat(above, name, self.top, new.as_str()) {
                Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => {}
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                Err(errno) => return Err(failed("move", &self.pod_dir.join(path), errno)),
            }
        }
    }
}

fn file(above: BorrowedFd<'_>, name: &CStr, path: &Path) -> Result<(), VolumeError> {
    match unlinkat(above, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(failed("remove", path, errno)),
    }
}

/// Opens a directory unless it is a mount point.
fn enter<N: nix::NixPath + ?Sized>(above: BorrowedFd<'_>, name: &N) -> nix::Result<OwnedFd> {
    let here = ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH;
    match openat2(above, name, OpenHow::new().flags(DIRECTORY).resolve(here)) {
        // Linux before 5.6: a mount of the same file system cannot be recognized, but all mounts were just
        // removed.
        Err(Errno::ENOSYS) => {
            let dir = openat(above, name, DIRECTORY, Mode::empty())?;
            if fstat(&dir)?.st_dev == fstat(above)?.st_dev { Ok(dir) } else { Err(Errno::EXDEV) }
        }
        opened => opened,
    }
}

/// Converts an error; EXDEV, and EBUSY at a removal, mean that something is mounted there.
fn failed(call: &'static str, path: &Path, errno: Errno) -> VolumeError {
    match errno {
        Errno::EXDEV | Errno::EBUSY => VolumeError::Mounted(PathBuf::from(path)),
        errno => VolumeError::call(call, path)(errno),
    }
}

#[cfg(test)]
mod tests;
