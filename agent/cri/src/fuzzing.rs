//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

use prost::Message;

use crate::listing::{Items, ListedContainer, ListedSandbox};

pub use crate::containers::oci_devices;
pub use crate::logs::fuzzing::last_lines;
pub use crate::streaming::fuzzing::{Received, server, spdy, websocket};

/// The response to ListPodSandbox; `None` if it is refused.
pub fn sandboxes(bytes: &[u8]) -> Option<Vec<ListedSandbox>> {
    Items::decode(bytes).ok().map(|items| items.0)
}

/// The response to ListContainers; `None` if it is refused.
pub fn containers(bytes: &[u8]) -> Option<Vec<ListedContainer>> {
    Items::decode(bytes).ok().map(|items| items.0)
}
