//! The file systems of the node: how full each is according to statvfs(3) (kubelet
//! pkg/kubelet/stats/cri_stats_provider.go, KEP-4191).

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nodewarden_model::FsUse;

use super::runtime::DiskUsage;

/// The figures of a file system cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}: {source}", path.display())]
pub struct FsError {
    /// The system call.
    pub call: &'static str,
    /// The directory.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

/// Reads the figures of file systems.
pub trait Disk: Send + Sync + 'static {
    /// The figures of the file system that `path` is on. Blocks for as long as the file system does.
    ///
    /// # Errors
    /// The directory does not exist or cannot be read.
    fn read(&self, path: &Path) -> Result<FsUse, FsError>;
}

/// Reads the figures from the kernel.
#[derive(Debug, Clone, Copy)]
pub struct StatVfs;

impl Disk for StatVfs {
    fn read(&self, path: &Path) -> Result<FsUse, FsError> {
        let fail = |call| move |source| FsError { call, path: path.to_owned(), source };
        let device = std::fs::metadata(path).map_err(fail("stat"))?.dev();
        let stat = statvfs(path).map_err(|errno| fail("statvfs")(errno.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size());
        Ok(FsUse {
            path: path.to_owned(),
            device,
            capacity: bytes(stat.blocks()),
            available: bytes(stat.blocks_available()),
            inodes: stat.files(),
            inodes_free: stat.files_free(),
            used: None,
            inodes_used: None,
        })
    }
}

/// The node's file systems; two or all three may be the same. One that is not known has a capacity of 0 and
/// the device number of the node's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystems {
    /// Of the agent's state, volumes and logs (nodefs).
    pub node: FsUse,
    /// Of image layers (imagefs).
    pub image: FsUse,
    /// Of containers' writable layers (containerfs).
    pub container: FsUse,
}

/// The figures of a directory's file system, with the usage that the runtime reports.
///
/// # Errors
/// The figures cannot be read.
pub fn usage(disk: &dyn Disk, directory: &DiskUsage) -> Result<FsUse, FsError> {
    let found = disk.read(&directory.path)?;
    Ok(FsUse { used: directory.used, inodes_used: directory.inodes_used, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_kernel() {
        let found = StatVfs.read(Path::new("/proc/self")).unwrap();
        assert_eq!((found.capacity, found.available), (0, 0), "proc has no blocks");
        let dir = tempfile::tempdir().unwrap();
        let found = StatVfs.read(dir.path()).unwrap();
        assert!(found.capacity > 0 && found.available <= found.capacity, "{found:?}");
        assert!(found.inodes_free <= found.inodes, "{found:?}");
        let error = StatVfs.read(&dir.path().join("none")).unwrap_err();
        assert!(error.to_string().starts_with("stat "), "{error}");
    }
}
