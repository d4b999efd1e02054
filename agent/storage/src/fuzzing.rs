//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::state_file::Format;

pub use crate::journal::fuzzing::{journal, repacked};

/// The content of a state file with these bytes; `None` when it must not be used.
pub fn read_state<T: DeserializeOwned>(format: Format, bytes: &[u8]) -> Option<T> {
    format.parse(bytes.to_vec()).ok().map(|(content, _)| content)
}

/// A state file with this content; `None` when the content cannot be written as JSON.
pub fn write_state<T: Serialize>(format: Format, content: &T) -> Option<String> {
    format.file(content).ok()
}
