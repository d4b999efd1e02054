//! What pods use on disk, as `/stats/summary` shows it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::FsUse;

/// The node's file systems and the disk use of its pods, as read at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DiskView {
    /// When it was read; `None`: it never was.
    pub time: Option<SystemTime>,
    /// Of logs, volumes and the agent's state (nodefs).
    pub node: Option<FsUse>,
    /// Of image layers (imagefs).
    pub image: Option<FsUse>,
    /// Of containers' writable layers (containerfs).
    pub container: Option<FsUse>,
    /// By the pod's uid.
    pub pods: BTreeMap<String, PodDiskView>,
}

/// What one pod uses. What could not be counted completely is `None` or missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDiskView {
    /// Writable layers, logs, volumes on disk and what else is in the pod's directory.
    pub total: Option<DiskFigure>,
    /// By container name.
    pub containers: BTreeMap<String, ContainerDiskView>,
    /// `emptyDir` volumes on disk by name.
    pub volumes: BTreeMap<String, DiskFigure>,
}

/// What one container uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerDiskView {
    /// Its writable layer.
    pub root: Option<DiskFigure>,
    /// Its logs, rotated ones too.
    pub logs: Option<DiskFigure>,
}

/// Space that is used on a file system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskFigure {
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}
