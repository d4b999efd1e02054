//! The plain values that collection decides on.

use jiff::Timestamp;

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
