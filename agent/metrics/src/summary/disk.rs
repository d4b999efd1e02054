//! File systems and disk use in the summary (kubelet `pkg/kubelet/stats/cri_stats_provider.go`,
//! `makePodStorageStats`).

use nodewarden_model::{DiskFigure, DiskView, FsUse};

use super::time;
use super::types::{FsStats, RuntimeStats, VolumeStats};

/// The file systems of images and of writable layers, with what the runtime reports to be used there.
pub(super) fn runtime(disk: &DiskView) -> Option<RuntimeStats> {
    let stats = |fs: &Option<FsUse>| {
        let fs = fs.as_ref()?;
        Some(FsStats { used_bytes: fs.used, inodes_used: fs.inodes_used, ..of(disk, Some(fs))? })
    };
    let (image_fs, container_fs) = (stats(&disk.image), stats(&disk.container));
    (image_fs.is_some() || container_fs.is_some()).then_some(RuntimeStats { image_fs, container_fs })
}

/// Writable layer and logs of a pod's container.
pub(super) fn container(disk: &DiskView, uid: &str, name: &str) -> (Option<FsStats>, Option<FsStats>) {
    let own = disk.pods.get(uid).and_then(|pod| pod.containers.get(name)).copied().unwrap_or_default();
    (used(disk, &disk.container, own.root), used(disk, &disk.node, own.logs))
}

/// The `emptyDir` volumes of a pod.
pub(super) fn volumes(disk: &DiskView, uid: &str) -> Vec<VolumeStats> {
    let all = disk.pods.get(uid).map(|pod| &pod.volumes).into_iter().flatten();
    let stats = all.filter_map(|(name, figure)| {
        Some(VolumeStats { fs: used(disk, &disk.node, Some(*figure))?, name: name.clone() })
    });
    stats.collect()
}

/// Everything of a pod that is on the node's disks.
pub(super) fn ephemeral_storage(disk: &DiskView, uid: &str) -> Option<FsStats> {
    used(disk, &disk.node, disk.pods.get(uid)?.total)
}

/// The figure, with what is free on its file system if that is known.
fn used(disk: &DiskView, fs: &Option<FsUse>, figure: Option<DiskFigure>) -> Option<FsStats> {
    let DiskFigure { bytes, inodes } = figure?;
    Some(FsStats { used_bytes: Some(bytes), inodes_used: Some(inodes), ..of(disk, fs.as_ref())? })
}

/// A file system without what is used of it.
fn of(disk: &DiskView, fs: Option<&FsUse>) -> Option<FsStats> {
    // A file system such as btrfs does not count inodes.
    let inodes = fs.filter(|fs| fs.inodes > 0);
    Some(FsStats {
        time: time(disk.time?)?,
        available_bytes: fs.map(|fs| fs.available),
        capacity_bytes: fs.map(|fs| fs.capacity),
        used_bytes: None,
        inodes_free: inodes.map(|fs| fs.inodes_free),
        inodes: inodes.map(|fs| fs.inodes),
        inodes_used: None,
    })
}
