//! What a directory takes of its disk, as du(1) counts it.

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

/// Blocks and inodes of `top` and all below it: no link is followed, nothing is counted that is mounted there, and of
/// several names of one file only one. Nothing if it is not there or
/// no absolute path. Ends at `until` with what it has found so far, and so
/// it does below a directory that cannot be opened (a path longer than the kernel takes).
///
/// What is in there changes meanwhile, and may be made by somebody who wants other files to be read: whatever is opened
/// is looked for from `top` on without links.
pub fn disk_use(top: &Path, until: Instant) -> DiskUse {
    if !top.is_absolute() {
        return DiskUse::default();
    }
    let mut walk = Walk { used: DiskUse::default(), linked: HashSet::new(), device: None, until };
    if let Err(error) = walk.all(top) {
        tracing::debug!(directory = %top.display(), %error, "not counted to its end");
    }
    walk.used
}

struct Walk {
    used: DiskUse,
    /// Inodes with several names that were counted.
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
        if let Some(found) = Found::at(root.as_fd(), c"")? {
            self.device = Some(found.device);
            self.add(&found);
        }
        // Paths below `top`: a tree of any depth takes two descriptors.
        let mut open_ones = vec![PathBuf::new()];
        while let Some(below) = open_ones.pop() {
            match below_root(&root, &below) {
                Ok(fd) => self.directory(fd, &below, &mut open_ones)?,
                // Gone meanwhile, or no directory any more.
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
        // The names first: the descriptor is the iterator's meanwhile.
        let names: Vec<_> = dir.iter().flatten().map(|entry| entry.file_name().to_owned()).collect();
        for (n, name) in names.iter().enumerate() {
            if n % 1024 == 1023 && Instant::now() >= self.until {
                return Err(Errno::ETIMEDOUT);
            }
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Some(found) = Found::at(dir.as_fd(), name)? else { continue };
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

    fn add(&mut self, found: &Found) {
        if found.directory || found.links < 2 || self.linked.insert(found.inode) {
            self.used.bytes = self.used.bytes.saturating_add(found.bytes);
            self.used.inodes += 1;
        }
    }
}

/// Opens a directory below `root`. Before Linux 5.6 only its last part is known not to be a link.
fn below_root(root: &OwnedFd, below: &Path) -> nix::Result<OwnedFd> {
    let path = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV;
    match openat2(root, path, OpenHow::new().flags(DIRECTORY).resolve(resolve)) {
        Err(Errno::ENOSYS) => openat(root, path, DIRECTORY, Mode::empty()),
        fd => fd,
    }
}

/// One file.
struct Found {
    bytes: u64,
    inode: u64,
    device: (u32, u32),
    links: u32,
    directory: bool,
    /// It is the root of what is mounted there (Linux 5.8; before, only another device number tells).
    mounted: bool,
}

impl Found {
    /// `name` in `dir`, or `dir` itself; `None` when it is gone.
    fn at(dir: BorrowedFd<'_>, name: &CStr) -> nix::Result<Option<Self>> {
        let mut told = std::mem::MaybeUninit::<libc::statx>::zeroed();
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH | libc::AT_NO_AUTOMOUNT;
        let mask = libc::STATX_BASIC_STATS;
        // SAFETY: an open descriptor, a string that ends with 0, and a place of the right size that the kernel fills.
        let result = unsafe { libc::statx(dir.as_raw_fd(), name.as_ptr(), flags, mask, told.as_mut_ptr()) };
        if result != 0 {
            return match Errno::last() {
                Errno::ENOENT => Ok(None),
                error => Err(error),
            };
        }
        // SAFETY: all zeroes is a value of it, and the kernel has filled it.
        let told = unsafe { told.assume_init() };
        Ok(Some(Self {
            bytes: told.stx_blocks.saturating_mul(512),
            inode: told.stx_ino,
            device: (told.stx_dev_major, told.stx_dev_minor),
            links: told.stx_nlink,
            directory: u32::from(told.stx_mode) & libc::S_IFMT == libc::S_IFDIR,
            mounted: told.stx_attributes & MOUNT_ROOT != 0 && !name.is_empty(),
        }))
    }
}

/// `STATX_ATTR_MOUNT_ROOT` of linux/stat.h.
const MOUNT_ROOT: u64 = 0x2000;

/// Whether a directory is there and is one.
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
    fn files_once_and_no_links() {
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
        assert_eq!(disk_use(&top.join("link"), soon()), DiskUse::default(), "a link is nobody's directory");
    }

    #[test]
    fn time_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::write(dir.path().join("a/f"), "x").unwrap();
        assert_eq!(disk_use(dir.path(), Instant::now()).inodes, 2, "of the first directory only");
    }

    #[test]
    fn a_tree_deeper_than_descriptors_and_paths_go() {
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
    fn mounts_are_others() {
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
