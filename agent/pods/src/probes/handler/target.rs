//! The container that a probe checks.

use std::net::IpAddr;

use jiff::Timestamp;

/// A running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name in the manifest.
    pub container: String,
    /// The runtime's id of this run of the container, in which commands are run.
    pub container_id: String,
    /// When the container started; initial delays and the grid of runs count from here.
    pub started: Timestamp,
    /// The pod's first address; `None` as long as it has none.
    pub address: Option<IpAddr>,
}
