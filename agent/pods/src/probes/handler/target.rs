//! The container that a probe checks.

use std::net::IpAddr;

use jiff::Timestamp;

/// A running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The pod's uid.
    pub uid: String,
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub container_id: String,
    pub started: Timestamp,
    /// The pod's first address; `None` as long as it has none.
    pub address: Option<IpAddr>,
}
