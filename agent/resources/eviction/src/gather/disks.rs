//! Use of the node's file systems, and which of them are the same.

use crate::{Candidate, DiskLayout, DiskUse, Observations, Observed, UsedOf};
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

/// While the file system of writable layers is not known, it counts as the node's, and layers would count for
/// `nodefs` wherever they are. This leaves out the layers that are on another file system than the one that
/// `signal` measures: removing them frees nothing there.
pub fn leave_out_layers_elsewhere(candidates: &mut [Candidate], systems: &FileSystems, signal: Signal) {
    if systems.container.capacity > 0 {
        return;
    }
    let Some(UsedOf { device: here, .. }) = used_of(systems, signal) else { return };
    for disk in candidates.iter_mut().filter_map(|candidate| candidate.disk.as_mut()) {
        if disk.root.device.is_some_and(|device| device != here) {
            disk.root = DiskUse::default();
        }
    }
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
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use jiff::Timestamp;
    use nodewarden_config::EvictionSettings;
    use nodewarden_manifest::Pod;

    use super::*;
    use crate::PodDisk;
    use crate::choose::{Choice, choose};

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

    /// A pod whose layer has so many bytes on file system 2, and its volumes on file system 1.
    fn candidate(name: &str, layer: u64, volumes: u64) -> Candidate {
        let pod = serde_json::json!({
            "metadata": {"name": name, "uid": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        });
        let on = |device, bytes| DiskUse { bytes, inodes: bytes, device: Some(device), ..DiskUse::default() };
        let disk = PodDisk { root: on(2, layer), volumes: on(1, volumes), ..PodDisk::default() };
        Candidate {
            pod: Arc::new(Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap()),
            cgroup: String::new(),
            started: Timestamp::UNIX_EPOCH,
            memory: None,
            disk: Some(disk),
            processes: None,
            containers: BTreeMap::new(),
            memory_request: None,
        }
    }

    /// As [`nodewarden_gc`] reports a file system that it cannot read: capacity 0, and the node's device.
    fn unknown() -> FsUse {
        FsUse { device: 1, ..FsUse::default() }
    }

    #[test]
    fn a_file_system_that_is_not_known_has_no_reading_and_no_use() {
        let systems = FileSystems { node: fs(1, 8), image: unknown(), container: unknown() };
        let (observed, layout) = disks(&systems);
        assert_eq!(layout, DiskLayout::One);
        let signals: Vec<_> = observed.keys().copied().collect();
        assert_eq!(signals, [Signal::NodeFsAvailable, Signal::NodeFsInodesFree]);
        for signal in [Signal::ImageFsAvailable, Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree]
        {
            assert_eq!(used_of(&systems, signal), None);
        }
        assert_eq!(used_of(&systems, Signal::NodeFsAvailable), Some(UsedOf { device: 1, used: 990 }));
        let none = FileSystems { node: unknown(), image: unknown(), container: unknown() };
        assert_eq!(disks(&none).0.len(), 0);
    }

    #[test]
    fn layers_on_another_file_system_do_not_count_while_theirs_is_not_known() {
        let signal = Signal::NodeFsAvailable;
        let choice = |systems: &FileSystems| {
            let mut candidates = [candidate("layer", 500, 1), candidate("volumes", 0, 90)];
            leave_out_layers_elsewhere(&mut candidates, systems, signal);
            let layout = disks(systems).1;
            choose(signal, layout, &EvictionSettings::default(), &candidates, used_of(systems, signal))
        };
        for image in [fs(2, 8), unknown()] {
            let systems = FileSystems { node: fs(1, 8), image: image.clone(), container: unknown() };
            assert_eq!(choice(&systems), Choice::Evict(1), "{image:?}: the layer is not on nodefs");
        }
        // Known: as the kubelet ranks for each layout.
        let apart = FileSystems { node: fs(1, 8), image: fs(2, 8), container: fs(2, 8) };
        assert_eq!(choice(&apart), Choice::Evict(1));
        let one = FileSystems { node: fs(1, 8), image: fs(1, 8), container: fs(1, 8) };
        assert_eq!(choice(&one), Choice::Evict(0));
    }
}
