//! Whom a probe is about.

use std::net::IpAddr;

use jiff::Timestamp;

/// A running container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The pod's.
    pub uid: String,
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub container_id: String,
    pub started: Timestamp,
    /// The pod's first; none as long as it has none.
    pub address: Option<IpAddr>,
}
