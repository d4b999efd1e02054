//! Project quotas: the kernel counts what belongs to a project, by a number that a directory has and that
//! everything made in it inherits (ext4 mounted with `prjquota`, XFS with `pquota`).

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR` of linux/fs.h.
const GET: libc::Ioctl = 0x801c_581f_u32 as libc::Ioctl;
const SET: libc::Ioctl = 0x401c_5820;
/// `FS_XFLAG_PROJINHERIT`.
const INHERIT: u32 = 0x200;
/// `QCMD(Q_GETQUOTA, PRJQUOTA)` of linux/quota.h.
const GET_QUOTA: libc::c_uint = (0x80_0007 << 8) | 2;

/// `struct fsxattr` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

/// What belongs to a project, deleted files that are still open included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectUse {
    /// Allocated bytes.
    pub bytes: u64,
    /// Files and directories.
    pub inodes: u64,
}

/// The project that new files in a directory belong to; 0 is none.
///
/// # Errors
/// The file system has no projects.
pub fn project_of(directory: impl AsFd) -> io::Result<u32> {
    let attributes = attributes(&directory)?;
    Ok(if attributes.flags & INHERIT != 0 { attributes.project } else { 0 })
}

/// Makes an empty directory, and everything that will be made in it, belong to a project.
///
/// # Errors
/// The file system has no projects.
pub fn set_project(directory: impl AsFd, project: u32) -> io::Result<()> {
    let mut attributes = attributes(&directory)?;
    attributes.flags |= INHERIT;
    attributes.project = project;
    // SAFETY: an open descriptor, and a structure of the size that the number of the request contains, which
    // the kernel only reads.
    let result = unsafe { libc::ioctl(directory.as_fd().as_raw_fd(), SET, &raw const attributes) };
    done(result.into())
}

/// What belongs to a project of the file system that `directory` is on.
///
/// # Errors
/// Projects are not counted on this file system, the kernel is older than Linux 5.14, or CAP_SYS_ADMIN is
/// missing.
pub fn project_use(directory: impl AsFd, project: u32) -> io::Result<ProjectUse> {
    let mut found = std::mem::MaybeUninit::<libc::dqblk>::zeroed();
    // SAFETY: an open descriptor, and a structure that the kernel fills for this command.
    let result = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            directory.as_fd().as_raw_fd(),
            GET_QUOTA,
            project,
            found.as_mut_ptr(),
        )
    };
    done(result)?;
    // SAFETY: numbers only; all zeroes is a valid value, and the kernel has filled it.
    let found = unsafe { found.assume_init() };
    Ok(ProjectUse { bytes: found.dqb_curspace, inodes: found.dqb_curinodes })
}

fn attributes(directory: impl AsFd) -> io::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: an open descriptor, and a structure of the size that the number of the request contains, which
    // the kernel fills.
    let result = unsafe { libc::ioctl(directory.as_fd().as_raw_fd(), GET, &raw mut attributes) };
    done(result.into()).map(|()| attributes)
}

fn done(result: i64) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A file system with project quotas, for tests.
#[cfg(any(test, feature = "testing"))]
pub mod fixture {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use nix::mount::{MntFlags, umount2};

    /// An ext4 of 64 MiB in a file, mounted with `prjquota`. Unmounted when dropped.
    pub struct WithQuota {
        mount: PathBuf,
        _directory: tempfile::TempDir,
    }

    impl WithQuota {
        /// Makes and mounts it. `None`, which is reported, where that is not possible.
        pub fn mount() -> Option<Self> {
            let directory = tempfile::tempdir().ok()?;
            let (image, mount) = (directory.path().join("image"), directory.path().join("mount"));
            fs::create_dir(&mount).ok()?;
            fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).ok()?;
            let run = |program: &str, arguments: &[&str], paths: &[&Path]| {
                let mut command = Command::new(program);
                command.args(arguments).args(paths).stdout(Stdio::null()).stderr(Stdio::null());
                command.status().is_ok_and(|status| status.success())
            };
            if !run("mkfs.ext4", &["-q", "-O", "project,quota"], &[&image])
                || !run("mount", &["-o", "loop,prjquota"], &[&image, &mount])
            {
                nodewarden_testing::skip("ext4 with project quotas cannot be made and mounted");
                return None;
            }
            Some(Self { mount, _directory: directory })
        }

        /// Where it is mounted.
        pub fn path(&self) -> &Path {
            &self.mount
        }
    }

    impl Drop for WithQuota {
        fn drop(&mut self) {
            let _ = umount2(&self.mount, MntFlags::MNT_DETACH);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn files_below_a_directory_belong_to_its_project() {
        let Some(disk) = fixture::WithQuota::mount() else { return };
        let dir = disk.path().join("volume");
        fs::create_dir(&dir).unwrap();
        let opened = File::open(&dir).unwrap();
        assert_eq!(project_of(&opened).unwrap(), 0);
        assert_eq!(project_use(&opened, 77).unwrap(), ProjectUse { bytes: 0, inodes: 0 });
        set_project(&opened, 77).unwrap();
        assert_eq!(project_of(&opened).unwrap(), 77);
        fs::create_dir(dir.join("below")).unwrap();
        fs::write(dir.join("below/file"), vec![1; 1_000_000]).unwrap();
        File::open(dir.join("below/file")).unwrap().sync_all().unwrap();
        let used = project_use(&opened, 77).unwrap();
        assert_eq!(used.inodes, 3);
        assert!((1_000_000..1_100_000).contains(&used.bytes), "{used:?}");
        assert_eq!(project_of(File::open(dir.join("below")).unwrap()).unwrap(), 77);
    }

    #[test]
    fn a_file_system_without_projects_is_an_error() {
        let opened = File::open("/proc").unwrap();
        assert!(project_of(&opened).is_err());
        assert!(project_use(&opened, 5).is_err());
    }
}
