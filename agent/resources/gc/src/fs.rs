//! The file systems of the node: how full each is according to statvfs(3) (kubelet
//! pkg/kubelet/stats/cri_stats_provider.go, KEP-4191).

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nodewarden_model::FsUse;

use super::runtime::{DiskUsage, ImageFsInfo};

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

/// The node's file systems; two or all three may be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystems {
    /// Of the agent's state, volumes and logs (nodefs).
    pub node: FsUse,
    /// Of image layers (imagefs).
    pub image: FsUse,
    /// Of containers' writable layers (containerfs).
    pub container: FsUse,
}

impl FileSystems {
    /// Number of different file systems by device number: one, two or three.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let devices: std::collections::BTreeSet<u64> =
            [&self.node, &self.image, &self.container].map(|fs| fs.device).into();
        devices.len()
    }
}

/// Reads all file systems; `None` if the runtime reports none for images. If it reports several, the first
/// one counts, as in the kubelet (`ImageFsStats`).
///
/// # Errors
/// The figures of one of them cannot be read.
pub fn read_all(
    disk: &dyn Disk,
    state_dir: &Path,
    info: &ImageFsInfo,
) -> Result<Option<FileSystems>, FsError> {
    let Some(images) = info.images.first() else { return Ok(None) };
    let containers = info.containers.first().unwrap_or(images);
    Ok(Some(FileSystems {
        node: disk.read(state_dir)?,
        image: usage(disk, images)?,
        container: usage(disk, containers)?,
    }))
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

    /// Uses the first letter of the path as the device number.
    struct Letters;

    impl Disk for Letters {
        fn read(&self, path: &Path) -> Result<FsUse, FsError> {
            let letter = path.to_string_lossy().chars().next().unwrap();
            Ok(FsUse { path: path.to_owned(), device: letter.into(), ..StatVfs.read(Path::new("/"))? })
        }
    }

    fn place(path: &str) -> DiskUsage {
        DiskUsage { path: path.into(), used: Some(5), inodes_used: Some(6) }
    }

    #[test]
    fn file_systems_are_counted_by_device() {
        for (images, containers, count) in [
            ("n", None, 1),
            ("i", None, 2),
            ("n", Some("c"), 2),
            ("i", Some("i"), 2),
            ("i", Some("n"), 2),
            ("i", Some("c"), 3),
        ] {
            let info = ImageFsInfo {
                images: vec![place(images)],
                containers: containers.into_iter().map(place).collect(),
            };
            let read = read_all(&Letters, Path::new("n"), &info).unwrap().unwrap();
            assert_eq!(read.count(), count, "{images} {containers:?}");
            assert_eq!(read.node.used, None);
            assert_eq!((read.image.used, read.image.inodes_used), (Some(5), Some(6)));
            assert_eq!(read.container.path, Path::new(containers.unwrap_or(images)));
        }
        assert_eq!(read_all(&Letters, Path::new("n"), &ImageFsInfo::default()).unwrap(), None);
    }

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
