//! Use of the node's file systems, and which of them are the same.

use crate::{DiskLayout, Observations, Observed, UsedOf};
use nodewarden_config::Signal;
use nodewarden_gc::FileSystems;
use nodewarden_model::FsUse;

/// Readings of `nodefs`, `imagefs` and `containerfs`; where they are the same file system they are equal
/// (kubelet `makeSignalObservations`). A file system that does not count inodes, such as btrfs, has no
/// reading for them.
pub fn disks(systems: &FileSystems) -> (Observations, DiskLayout) {
    let signals = [
        (&systems.node, Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        (&systems.image, Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
        (&systems.container, Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree),
    ];
    let both = |(fs, bytes, inodes): (&FsUse, _, _)| {
        [
            (bytes, Observed { available: fs.available, capacity: fs.capacity }),
            (inodes, Observed { available: fs.inodes_free, capacity: fs.inodes }),
        ]
    };
    let observed = signals.into_iter().flat_map(both).filter(|(_, observed)| observed.capacity > 0).collect();
    (observed, disk_layout(systems))
}

/// The file system of a disk signal and what is in use on it. `None` for other signals, and for inodes where
/// they are not counted.
pub fn used_of(systems: &FileSystems, signal: Signal) -> Option<UsedOf> {
    let (fs, inodes) = match signal {
        Signal::NodeFsAvailable => (&systems.node, false),
        Signal::NodeFsInodesFree => (&systems.node, true),
        Signal::ImageFsAvailable => (&systems.image, false),
        Signal::ImageFsInodesFree => (&systems.image, true),
        Signal::ContainerFsAvailable => (&systems.container, false),
        Signal::ContainerFsInodesFree => (&systems.container, true),
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => return None,
    };
    let (capacity, available) =
        if inodes { (fs.inodes, fs.inodes_free) } else { (fs.capacity, fs.available) };
    let used = capacity.saturating_sub(available);
    (capacity > 0).then_some(UsedOf { device: fs.device, used })
}

/// The layout by device numbers (KEP-4191). Writable layers on a separate file system with images on
/// `nodefs`, which the kubelet does not support, count as three file systems.
pub fn disk_layout(systems: &FileSystems) -> DiskLayout {
    let [node, image, container] = [&systems.node, &systems.image, &systems.container].map(|fs| fs.device);
    match (image == node, container == node, container == image) {
        (true, true, _) => DiskLayout::One,
        (false, true, _) => DiskLayout::ContainersOnNode,
        (false, false, true) => DiskLayout::ImagesApart,
        _ => DiskLayout::Three,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fs(device: u64, inodes: u64) -> FsUse {
        FsUse {
            path: "/x".into(),
            device,
            capacity: 1000 * device,
            available: 10 * device,
            inodes,
            inodes_free: inodes / 2,
            used: None,
            inodes_used: None,
        }
    }

    #[test]
    fn layouts_by_device_number() {
        for ([node, image, container], expected) in [
            ([1, 1, 1], DiskLayout::One),
            ([1, 2, 2], DiskLayout::ImagesApart),
            ([1, 2, 1], DiskLayout::ContainersOnNode),
            ([1, 2, 3], DiskLayout::Three),
            ([1, 1, 2], DiskLayout::Three),
        ] {
            let systems = FileSystems { node: fs(node, 8), image: fs(image, 8), container: fs(container, 8) };
            let (observed, layout) = disks(&systems);
            assert_eq!(layout, expected, "{node} {image} {container}");
            assert_eq!(observed.len(), 6);
            assert_eq!(observed[&Signal::ImageFsAvailable].available, 10 * image);
            assert_eq!(observed[&Signal::ContainerFsAvailable].capacity, 1000 * container);
        }
    }

    #[test]
    fn a_file_system_without_inodes_has_no_reading_for_them() {
        let systems = FileSystems { node: fs(1, 0), image: fs(1, 0), container: fs(2, 6) };
        let (observed, _) = disks(&systems);
        assert!(!observed.contains_key(&Signal::NodeFsInodesFree));
        assert_eq!(observed[&Signal::ContainerFsInodesFree], Observed { available: 3, capacity: 6 });
        let of = |signal| used_of(&systems, signal);
        assert_eq!(of(Signal::ContainerFsInodesFree), Some(UsedOf { device: 2, used: 3 }));
        assert_eq!(of(Signal::ContainerFsAvailable), Some(UsedOf { device: 2, used: 1980 }));
        assert_eq!(of(Signal::NodeFsInodesFree), None);
        assert_eq!(of(Signal::MemoryAvailable), None);
    }
}
