//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

pub use crate::containers::oci_devices;
pub use crate::logs::fuzzing::last_lines;
pub use crate::streaming::fuzzing::{Received, server, spdy, websocket};
