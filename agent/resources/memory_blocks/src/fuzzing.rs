//! Entry points for the fuzz targets of `tests/fuzz`: parsers that are private otherwise. Only with the
//! feature `fuzzing`.

use crate::StateFile;

/// Reads a state file. What is accepted is written and read again: both written forms. `None` when the file
/// is refused.
pub fn state_file(text: &str) -> Option<[String; 2]> {
    written_twice(&StateFile::read(text).ok()?)
}

/// As [`state_file`], whatever the checksum in the file is.
pub fn state_file_unverified(text: &str) -> Option<[String; 2]> {
    let (state, _) = StateFile::parse(text).ok()?;
    written_twice(&state)
}

fn written_twice(read: &StateFile) -> Option<[String; 2]> {
    let first = read.write(true);
    let again = StateFile::read(&first).map(|again| again.write(true));
    Some([first, again.unwrap_or_else(|error| error.to_string())])
}
