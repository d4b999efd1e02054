//! Thresholds of `containerfs`, which follow from where writable layers are.

use crate::DiskLayout;
use nodewarden_config::{EvictionThreshold, Signal};

/// The thresholds with those of `containerfs` replaced by those of the file system that it is part of, as the
/// kubelet does (`UpdateContainerFsThresholds`): they cannot be set separately. If `containerfs` is a file
/// system of its own, they stay as configured.
pub fn for_layout(thresholds: &[EvictionThreshold], layout: DiskLayout) -> Vec<EvictionThreshold> {
    let (bytes, inodes) = match layout {
        DiskLayout::One | DiskLayout::ContainersOnNode => (Signal::NodeFsAvailable, Signal::NodeFsInodesFree),
        DiskLayout::ImagesApart => (Signal::ImageFsAvailable, Signal::ImageFsInodesFree),
        DiskLayout::Three => return thresholds.to_vec(),
    };
    let own = |t: &&EvictionThreshold| {
        !matches!(t.signal, Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree)
    };
    let mut found: Vec<_> = thresholds.iter().filter(own).cloned().collect();
    for (of, signal) in [(bytes, Signal::ContainerFsAvailable), (inodes, Signal::ContainerFsInodesFree)] {
        let same = thresholds.iter().filter(|t| t.signal == of);
        found.extend(same.map(|t| EvictionThreshold { signal, ..t.clone() }));
    }
    found
}
