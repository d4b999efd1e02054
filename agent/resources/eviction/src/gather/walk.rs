//! Disk use of a directory, counted as du(1) does.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode;

use crate::DiskUse;

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Bytes of blocks and number of inodes of `top` and everything below it. Links are not followed, other file
/// systems mounted there are not counted, and a file with several names counts once. Zero if `top` does not
/// exist or is not an absolute path. Stops at `until` and returns what was counted by then; a directory that
/// cannot be opened (a path longer than the kernel accepts) is counted without its content.
///
/// The content may change meanwhile, also by a pod that tries to have other files read: everything is opened
/// relative to `top` without following links.
pub fn disk_use(top: &Path, until: Instant) -> DiskUse {
    if !top.is_absolute() {
        return DiskUse::default();
    }
    let mut walk = Walk { used: DiskUse::default(), linked: HashSet::new(), device: None, until };
    if let Err(error) = walk.all(top) {
        tracing::debug!(directory = %top.display(), %error, "not counted completely");
    }
    walk.used
}

struct Walk {
    used: DiskUse,
    /// Inodes with several names that were already counted.
    linked: HashSet<u64>,
    device: Option<(u32, u32)>,
    until: Instant,
}

impl Walk {
    fn all(&mut self, top: &Path) -> nix::Result<()> {
        let root = match open(top, DIRECTORY, Mode::empty()) {
            Err(Errno::ENOENT) => return Ok(()),
            root => root?,
        };
        if let Some(found) = FileStat::at(root.as_fd(), c"")? {
            self.device = Some(found.device);
            self.add(&found);
        }
        // Paths relative to `top`, so that a tree of any depth takes two descriptors.
        let mut open_ones = vec![PathBuf::new()];
        while let Some(below) = open_ones.pop() {
            match below_root(&root, &below) {
                Ok(fd) => self.directory(fd, &below, &mut open_ones)?,
                // Removed meanwhile, or no longer a directory.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV) => {}
                Err(Errno::ENAMETOOLONG | Errno::EACCES) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() >= self.until {
                return Err(Errno::ETIMEDOUT);
            }
        }
        Ok(())
    }

    fn directory(&mut self, fd: OwnedFd, path: &Path, open_ones: &mut Vec<PathBuf>) -> nix::Result<()> {
        let mut dir = Dir::from_fd(fd)?;
        // All names first: the iterator borrows the descriptor.
        let names: Vec<_> = dir.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
        for (n, name) in names.iter().enumerate() {
            if n % 1024 == 1023 && Instant::now() >= self.until {
                return Err(Errno::ETIMEDOUT);
            }
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Some(found) = FileStat::at(dir.as_fd(), name)? else { continue };
            if found.mounted || self.device.is_some_and(|device| device != found.device) {
                continue;
            }
            self.add(&found);
            if found.directory {
                open_ones.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
        Ok(())
    }

    fn add(&mut self, found: &FileStat) {
        if found.directory || found.links < 2 || self.linked.insert(found.inode) {
            self.used.bytes = self.used.bytes.saturating_add(found.bytes);
            self.used.inodes += 1;
        }
    }
}

/// Opens a directory below `root`. Before Linux 5.6 only the last component is checked not to be a link.
fn below_root(root: &OwnedFd, below: &Path) -> nix::Result<OwnedFd> {
    let path = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV;
    match openat2(root, path, OpenHow::new().flags(DIRECTORY).resolve(resolve)) {
        Err(Errno::ENOSYS) => openat(root, path, DIRECTORY, Mode::empty()),
        fd => fd,
    }
}

/// What statx(2) returns of one file.
struct FileStat {
    bytes: u64,
    inode: u64,
    device: (u32, u32),
    links: u32,
    directory: bool,
    /// It is the root of a mount (Linux 5.8; before that, mounts are only recognised by another device
    /// number).
    mounted: bool,
}

impl FileStat {
    /// Status of `name` in `dir`, or of `dir` itself if empty; `None` if it does not exist.
    fn at(dir: BorrowedFd<'_>, name: &CStr) -> nix::Result<Option<Self>> {
        let mut stat = std::mem::MaybeUninit::<libc::statx>::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT;
        let mask = libc::STATX_BASIC_STATS;
        // SAFETY: an open descriptor, a string that ends with 0, and a buffer of the right size that the
        // kernel fills.
        let result = unsafe { libc::statx(dir.as_raw_fd(), name.as_ptr(), flags, mask, stat.as_mut_ptr()) };
        if result != 0 {
            return match Errno::last() {
                Errno::ENOENT => Ok(None),
                error => Err(error),
            };
        }
        // SAFETY: all zeroes is a valid value, and the kernel has filled it.
        let stat = unsafe { stat.assume_init() };
        Ok(Some(Self {
            bytes: stat.stx_blocks.saturating_mul(512),
            inode: stat.stx_ino,
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            links: stat.stx_nlink,
            directory: u32::from(stat.stx_mode) & libc::S_IFMT == libc::S_IFDIR,
            mounted: stat.stx_attributes & MOUNT_ROOT != 0 && !name.is_empty(),
        }))
    }
}

/// `STATX_ATTR_MOUNT_ROOT` of linux/stat.h.
const MOUNT_ROOT: u64 = 0x2000;

/// Whether `path` exists and is a directory, not a link to one.
pub fn is_directory(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok(found.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::time::Duration;

    use nix::mount::{MntFlags, MsFlags, mount, umount2};

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn blocks(path: &Path) -> u64 {
        fs::symlink_metadata(path).unwrap().blocks() * 512
    }

    #[test]
    fn hard_links_count_once_and_links_are_not_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let top = dir.path();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/f"), vec![1; 100_000]).unwrap();
        fs::hard_link(top.join("a/b/f"), top.join("g")).unwrap();
        fs::write(other.path().join("large"), vec![1; 1_000_000]).unwrap();
        symlink(other.path(), top.join("link")).unwrap();
        let expected: u64 =
            ["", "a", "a/b", "a/b/f", "link"].iter().map(|name| blocks(&top.join(name))).sum();
        assert_eq!(disk_use(top, soon()), DiskUse { bytes: expected, inodes: 5 });
        assert_eq!(disk_use(&top.join("none"), soon()), DiskUse::default());
        assert_eq!(disk_use(&top.join("link"), soon()), DiskUse::default(), "a link is not followed");
    }

    #[test]
    fn counting_stops_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/f"), "x").unwrap();
        assert_eq!(disk_use(dir.path(), Instant::now()).inodes, 2, "of the first directory only");
    }

    #[test]
    fn a_tree_deeper_than_descriptors_and_paths_allow() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = open(dir.path(), DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
            at = openat(&at, "d", DIRECTORY, Mode::empty()).unwrap();
        }
        let used = disk_use(dir.path(), soon());
        // 4095 bytes of path are 2048 directories, the last one of which is seen from above but not entered.
        assert!((2040..=2050).contains(&used.inodes), "{used:?}");
    }

    #[test]
    fn mounts_are_not_counted() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("large"), vec![1; 1_000_000]).unwrap();
        let (bound, bound_file, tmpfs) =
            (dir.path().join("bound"), dir.path().join("file"), dir.path().join("tmpfs"));
        fs::create_dir(&bound).unwrap();
        fs::create_dir(&tmpfs).unwrap();
        fs::write(&bound_file, "").unwrap();
        let bind =
            |from: &Path, to: &Path| mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        if let Err(error) = bind(other.path(), &bound) {
            nodewarden_testing::skip(format_args!("bind mount: {error}"));
            return;
        }
        bind(&other.path().join("large"), &bound_file).unwrap();
        mount(Some("tmpfs"), &tmpfs, Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
        fs::write(tmpfs.join("f"), vec![1; 500_000]).unwrap();
        let used = disk_use(dir.path(), soon());
        for path in [&bound, &bound_file, &tmpfs] {
            umount2(path, MntFlags::MNT_DETACH).unwrap();
        }
        assert_eq!(used, DiskUse { bytes: blocks(dir.path()), inodes: 1 });
    }
}
