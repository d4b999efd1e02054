//! A FUSE file system whose server never answers: every access to it blocks until the file system is dropped.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// The mounted file system. Dropping it ends the accesses that hang, with ECONNABORTED or ENOTCONN, and
/// unmounts it.
#[derive(Debug)]
pub struct HungFuse {
    mount_point: PathBuf,
    /// The server's end, which is never read.
    server: Option<File>,
}

impl HungFuse {
    /// Mounts it at a directory that exists.
    ///
    /// # Errors
    /// FUSE is missing here, or mounting is not permitted.
    pub fn mount(mount_point: &Path) -> io::Result<Self> {
        Self::mount_mode(mount_point, 0o040_000)
    }

    /// Mounts it at a regular file that exists: a file system whose root is a file.
    ///
    /// # Errors
    /// FUSE is missing here, or mounting is not permitted.
    pub fn mount_file(mount_point: &Path) -> io::Result<Self> {
        Self::mount_mode(mount_point, 0o100_000)
    }

    fn mount_mode(mount_point: &Path, root_mode: u32) -> io::Result<Self> {
        let server = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode={root_mode:o},user_id=0,group_id=0", server.as_raw_fd());
        mount(Some("hung"), mount_point, Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
        Ok(Self { mount_point: mount_point.to_owned(), server: Some(server) })
    }
}

impl Drop for HungFuse {
    fn drop(&mut self) {
        // Aborts the connection: the last descriptor of its server.
        self.server = None;
        // What remains mounted is no worse than what the failed test already shows.
        let _ = umount2(&self.mount_point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
    }
}
