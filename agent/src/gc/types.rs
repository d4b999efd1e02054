//! The plain values that collection decides on.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An image as the runtime tells it: one, whatever number of names it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSeen {
    /// As the runtime identifies it.
    pub id: String,
    /// Tags, then digests.
    pub names: Vec<String>,
    /// Bytes by the runtime's word: with layers that other images share.
    pub size: u64,
    /// The runtime itself keeps it.
    pub pinned: bool,
}

/// What must outlive the agent of an image (kubelet: `imageRecord`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageUse {
    pub first_detected: Timestamp,
    /// None: never seen in use.
    pub last_used: Option<Timestamp>,
}

/// Why an image is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Used {
    /// By a container that exists, running or not yet collected.
    Container,
    /// It is the sandboxes' image.
    Sandbox,
    /// The runtime has pinned it.
    Pinned,
    /// A manifest on this node names it.
    Manifest,
}

/// Why an image stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keep {
    InUse(Used),
    /// Used since the run began.
    JustUsed,
    /// Detected less than `imageMinimumGCAge` ago.
    Young,
    /// Enough is free without it.
    NotNeeded,
}

/// A file system that something of the node is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fs {
    /// The agent's own state, volumes and logs (nodefs).
    Node,
    /// Image layers (imagefs).
    Image,
    /// Containers' writable layers (containerfs).
    Container,
}

/// How full one is (statfs), in bytes and inodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsUse {
    /// A directory on it.
    pub path: PathBuf,
    /// Its device number, which tells file systems apart.
    pub device: u64,
    pub capacity: u64,
    /// To unprivileged users.
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
    /// What images or containers take by the runtime's word.
    pub used: Option<u64>,
    pub inodes_used: Option<u64>,
}

/// A container that has ended and is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadContainer {
    pub id: String,
    pub sandbox: String,
    pub uid: String,
    pub name: String,
    pub attempt: u32,
    pub created: Timestamp,
    /// Its pod is gone, or was evicted: it goes at once.
    pub pod_gone: bool,
}
