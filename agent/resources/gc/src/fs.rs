//! The file systems of the node: how full each is by statvfs(3), and which are the same (kubelet
//! pkg/kubelet/stats/cri_stats_provider.go, KEP-4191).

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use super::Fs;
use super::runtime::{Place, Places};
use nodewarden_model::FsUse;

/// Why a file system has no figures.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}: {source}", path.display())]
pub struct FsError {
    pub call: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

/// Who reads figures.
pub trait Disk: Send + Sync + 'static {
    /// Blocks for as long as the file system does.
    ///
    /// # Errors
    /// There is no such directory.
    fn read(&self, path: &Path) -> Result<FsUse, FsError>;
}

/// The kernel.
#[derive(Debug, Clone, Copy)]
pub struct StatVfs;

impl Disk for StatVfs {
    fn read(&self, path: &Path) -> Result<FsUse, FsError> {
        let fail = |call| move |source| FsError { call, path: path.to_owned(), source };
        let device = std::fs::metadata(path).map_err(fail("stat"))?.dev();
        let told = statvfs(path).map_err(|errno| fail("statvfs")(errno.into()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(told.fragment_size());
        Ok(FsUse {
            path: path.to_owned(),
            device,
            capacity: bytes(told.blocks()),
            available: bytes(told.blocks_available()),
            inodes: told.files(),
            inodes_free: told.files_free(),
            used: None,
            inodes_used: None,
        })
    }
}

/// What the node's things are on: two or all three may be the same file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystems {
    pub node: FsUse,
    pub image: FsUse,
    pub container: FsUse,
}

impl FileSystems {
    pub fn get(&self, fs: Fs) -> &FsUse {
        match fs {
            Fs::Node => &self.node,
            Fs::Image => &self.image,
            Fs::Container => &self.container,
        }
    }

    /// How many there are, by their device numbers: one, two or three.
    pub fn count(&self) -> usize {
        let devices: BTreeSet<u64> = [&self.node, &self.image, &self.container].map(|fs| fs.device).into();
        devices.len()
    }
}

/// Reads all of them; none if the runtime tells of no file system. Where it tells of several the first one counts, as
/// in the kubelet (`ImageFsStats`).
///
/// # Errors
/// One of them cannot be read.
pub fn read(disk: &dyn Disk, state_dir: &Path, places: &Places) -> Result<Option<FileSystems>, FsError> {
    let Some(images) = places.images.first() else { return Ok(None) };
    let containers = places.containers.first().unwrap_or(images);
    Ok(Some(FileSystems {
        node: disk.read(state_dir)?,
        image: of(disk, images)?,
        container: of(disk, containers)?,
    }))
}

/// The figures of a place, with what the runtime says of it.
///
/// # Errors
/// It cannot be read.
pub fn of(disk: &dyn Disk, place: &Place) -> Result<FsUse, FsError> {
    let found = disk.read(&place.path)?;
    Ok(FsUse { used: place.used, inodes_used: place.inodes_used, ..found })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the first letter of the path.
    struct Letters;

    impl Disk for Letters {
        fn read(&self, path: &Path) -> Result<FsUse, FsError> {
            let letter = path.to_string_lossy().chars().next().unwrap();
            Ok(FsUse { path: path.to_owned(), device: letter.into(), ..StatVfs.read(Path::new("/"))? })
        }
    }

    fn place(path: &str) -> Place {
        Place { path: path.into(), used: Some(5), inodes_used: Some(6) }
    }

    #[test]
    fn one_two_or_three() {
        for (images, containers, count) in [
            ("n", None, 1),
            ("i", None, 2),
            ("n", Some("c"), 2),
            ("i", Some("i"), 2),
            ("i", Some("n"), 2),
            ("i", Some("c"), 3),
        ] {
            let places = Places {
                images: vec![place(images)],
                containers: containers.into_iter().map(place).collect(),
            };
            let read = read(&Letters, Path::new("n"), &places).unwrap().unwrap();
            assert_eq!(read.count(), count, "{images} {containers:?}");
            assert_eq!(read.get(Fs::Node).used, None);
            assert_eq!((read.get(Fs::Image).used, read.get(Fs::Image).inodes_used), (Some(5), Some(6)));
            assert_eq!(read.get(Fs::Container).path, Path::new(containers.unwrap_or(images)));
        }
        assert_eq!(read(&Letters, Path::new("n"), &Places::default()).unwrap(), None);
    }

    #[test]
    fn the_kernels_figures() {
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
