//! Binds a `subPath` of a volume for a container, such that no link inside the volume can lead out of it,
//! although a container that shares the volume may change it at any moment (CVE-2017-1002101,
//! CVE-2021-25741).
//!
//! The path is opened once ([`hold`]), and the open file is bound at a path where only the agent can write
//! ([`bind`]); the runtime mounts that path. Only opening touches the volume's file system, which may be one
//! that never answers.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, fchmod, fstat, mkdirat};

use super::{VolumeError, directory, mount_table};

/// An open path of a volume.
#[derive(Debug)]
pub(crate) struct HeldPath {
    file: OwnedFd,
    is_dir: bool,
}

/// Opens `path`, below the volume's `root`; creates it as a directory with the root's mode if it does not
/// exist.
///
/// # Errors
/// The path leads out of the volume, or a system call failed.
pub(crate) fn hold(root: &Path, path: &str) -> Result<HeldPath, VolumeError> {
    let parts = parts(root, path)?;
    let volume = open(root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(VolumeError::call("open", root))?;
    let file = Walk { root, volume: volume.as_fd() }.open(&parts)?;
    let found = fstat(&file).map_err(VolumeError::call("stat", root))?;
    Ok(HeldPath { file, is_dir: found.st_mode & libc::S_IFMT == libc::S_IFDIR })
}

/// Binds an open path at `target`. A previous bind mount is replaced; running containers keep theirs.
///
/// # Errors
/// A system call failed.
pub(crate) fn bind(held: &HeldPath, target: &Path) -> Result<(), VolumeError> {
    make_target(target, held.is_dir)?;
    let held = PathBuf::from(format!("/proc/self/fd/{}", held.file.as_raw_fd()));
    mount(Some(&held), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(VolumeError::call("mount", target))
}

/// Creates an empty directory or file as mount point, after unmounting what was bound there.
fn make_target(target: &Path, is_dir: bool) -> Result<(), VolumeError> {
    let Some(parent) = target.parent() else { return Err(VolumeError::Mounted(target.to_owned())) };
    directory(parent, 0o750)?;
    let real = fs::canonicalize(parent).map_err(VolumeError::file("resolve", parent))?;
    let real = real.join(target.file_name().unwrap_or_default());
    while mount_table::is_mounted(&real)? {
        let flags = MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW;
        umount2(&real, flags).map_err(VolumeError::call("unmount", target))?;
    }
    match fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() && is_dir || found.is_file() && !is_dir => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir(target).map_err(VolumeError::file("remove", target))?,
        Ok(_) => fs::remove_file(target).map_err(VolumeError::file("remove", target))?,
        Err(_) => {}
    }
    let made = if is_dir { fs::create_dir(target) } else { fs::File::create_new(target).map(drop) };
    made.map_err(VolumeError::file("create", target))
}

/// The components of a path; an error if it leads out of the volume.
fn parts<'a>(root: &Path, path: &'a str) -> Result<Vec<&'a Path>, VolumeError> {
    let part = |component| match component {
        Component::Normal(name) => Some(Ok(Path::new(name))),
        Component::CurDir => None,
        _ => Some(Err(VolumeError::Escape { root: root.to_owned(), path: PathBuf::from(path) })),
    };
    Path::new(path).components().filter_map(part).collect()
}

/// A volume whose paths are resolved component by component.
struct Walk<'a> {
    root: &'a Path,
    volume: BorrowedFd<'a>,
}

impl Walk<'_> {
    /// Opens the path and creates missing directories.
    fn open(&self, parts: &[&Path]) -> Result<OwnedFd, VolumeError> {
        let whole: PathBuf = parts.iter().collect();
        if whole.as_os_str().is_empty() {
            return self.below(Path::new("."));
        }
        match self.below(&whole) {
            Err(VolumeError::File { source, .. }) if source.raw_os_error() == Some(libc::ENOENT) => {}
            found => return found,
        }
        for depth in 1..=parts.len() {
            let upper: PathBuf = parts[..depth - 1].iter().collect();
            let upper = if depth == 1 { PathBuf::from(".") } else { upper };
            let parent = self.below(&upper)?;
            self.make(&parent, parts[depth - 1])?;
        }
        self.below(&whole)
    }

    /// Creates a directory with the mode of the volume's root (kubelet `SafeMakeDir`).
    fn make(&self, parent: &OwnedFd, name: &Path) -> Result<(), VolumeError> {
        let path = self.root.join(name);
        let of_root = fs::metadata(self.root).map_err(VolumeError::file("stat", self.root))?;
        let mode = Mode::from_bits_truncate(of_root.permissions().mode() & 0o2777);
        match mkdirat(parent, name, mode) {
            Ok(()) => {}
            Err(Errno::EEXIST) => return Ok(()),
            Err(errno) => return Err(VolumeError::call("create", &path)(errno)),
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let made = openat(parent, name, flags, Mode::empty()).map_err(VolumeError::call("open", &path))?;
        // Set explicitly, because the umask was applied to the mode.
        fchmod(&made, mode).map_err(VolumeError::call("chmod", &path))
    }

    /// Opens a path without leaving the volume: links inside it are followed, links that lead out are an
    /// error.
    fn below(&self, path: &Path) -> Result<OwnedFd, VolumeError> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let whole = self.root.join(path);
        // EAGAIN: something was renamed meanwhile, so the kernel cannot guarantee that the path stayed
        // inside.
        let opened =
            (0..32).map(|_| openat2(self.volume, path, how)).find(|o| !matches!(o, Err(Errno::EAGAIN)));
        match opened.unwrap_or(Err(Errno::EAGAIN)) {
            // Linux before 5.6.
            Err(Errno::ENOSYS) => self.without_links(path),
            Err(Errno::EXDEV | Errno::ELOOP) => Err(self.escape(whole)),
            opened => opened.map_err(VolumeError::call("open", &whole)),
        }
    }

    /// Opens a path component by component and refuses every link.
    fn without_links(&self, path: &Path) -> Result<OwnedFd, VolumeError> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let whole = self.root.join(path);
        let mut at =
            openat(self.volume, ".", flags, Mode::empty()).map_err(VolumeError::call("open", self.root))?;
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            at = openat(&at, name, flags, Mode::empty()).map_err(VolumeError::call("open", &whole))?;
            let found = fstat(&at).map_err(VolumeError::call("stat", &whole))?;
            if found.st_mode & libc::S_IFMT == libc::S_IFLNK {
                return Err(self.escape(whole));
            }
        }
        Ok(at)
    }

    fn escape(&self, path: PathBuf) -> VolumeError {
        VolumeError::Escape { root: self.root.to_owned(), path }
    }
}

#[cfg(test)]
mod tests;
