//! A FUSE file system whose server never answers: every access to it blocks until the file system is dropped,
//! or has lasted for [`LONGEST`].

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};

/// How long it lasts if it is not dropped, which is longer than any test waits for anything. A test whose
/// only thread hangs in an access to it goes on then, so that its assertions can fail: else it would never
/// end.
const LONGEST: Duration = Duration::from_secs(60);

/// The mounted file system. Dropping it ends the accesses that hang, with ECONNABORTED or ENOTCONN, and
/// unmounts it.
#[derive(Debug)]
pub struct HungFuse {
    mount_point: PathBuf,
    /// Holds the server's end, which is never read, until `ended` is dropped.
    server: Option<JoinHandle<()>>,
    ended: Option<mpsc::Sender<()>>,
}

impl HungFuse {
    /// Mounts it at a directory that exists.
    ///
    /// # Errors
    /// FUSE is missing here, or mounting is not permitted.
    pub fn mount(mount_point: &Path) -> io::Result<Self> {
        Self::mount_mode(mount_point, 0o040_000, LONGEST)
    }

    /// Mounts it at a regular file that exists: a file system whose root is a file.
    ///
    /// # Errors
    /// FUSE is missing here, or mounting is not permitted.
    pub fn mount_file(mount_point: &Path) -> io::Result<Self> {
        Self::mount_mode(mount_point, 0o100_000, LONGEST)
    }

    fn mount_mode(mount_point: &Path, root_mode: u32, longest: Duration) -> io::Result<Self> {
        let server = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let options = format!("fd={},rootmode={root_mode:o},user_id=0,group_id=0", server.as_raw_fd());
        mount(Some("hung"), mount_point, Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
        let (ended, is_ended) = mpsc::channel();
        let server = thread::spawn(move || {
            let _ = is_ended.recv_timeout(longest);
            // Aborts the connection: the last descriptor of its server.
            drop(server);
        });
        Ok(Self { mount_point: mount_point.to_owned(), server: Some(server), ended: Some(ended) })
    }
}

impl Drop for HungFuse {
    fn drop(&mut self) {
        self.ended = None;
        if let Some(server) = self.server.take() {
            // It cannot panic.
            let _ = server.join();
        }
        // What remains mounted is no worse than what the failed test already shows.
        let _ = umount2(&self.mount_point, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// On the thread that holds the file system, which could not drop it.
    #[test]
    fn an_access_that_hangs_ends_with_an_error_however_long_the_file_system_is_kept() {
        let dir = std::env::temp_dir().join(format!("nodewarden-hung-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let longest = Duration::from_millis(300);
        let begun = Instant::now();
        let mounted = HungFuse::mount_mode(&dir, 0o040_000, longest);
        let looked = mounted.is_ok().then(|| std::fs::metadata(dir.join("file")).map(drop));
        let took = begun.elapsed();
        drop(mounted);
        std::fs::remove_dir(&dir).unwrap();
        let Some(looked) = looked else {
            crate::skip("no FUSE file system can be mounted here");
            return;
        };
        assert!(looked.is_err() && took >= longest, "{looked:?} after {took:?}");
    }
}
