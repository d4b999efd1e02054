//! Keeps event numbers unique across restarts, even if the last events were never written to disk.
//!
//! The file `next-seq` holds a number that no event has reached: a running agent keeps it [`AHEAD`] numbers
//! ahead, and a clean stop writes the exact next one. So numbers continue without a gap after a clean stop
//! and jump ahead after a crash. The file is written in place, which needs no space on a full disk.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::error::DiskError;

/// How far the file is kept ahead. More events than this within one batch of the writer (5 ms) would be
/// needed to overtake it.
pub const AHEAD: u64 = 10_000;
const NAME: &str = "next-seq";
/// Decimal digits of the largest number, and a line end.
const WIDTH: usize = 20;

/// The reserved number; `None` if the file is missing or incomplete.
pub fn read(dir: &Path) -> Option<u64> {
    std::fs::read_to_string(dir.join(NAME)).ok()?.strip_suffix('\n')?.parse().ok()
}

/// Writes the number in place.
///
/// # Errors
/// When the file cannot be opened or written.
pub fn write(dir: &Path, next: u64) -> Result<(), DiskError> {
    let path = dir.join(NAME);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(DiskError::at("open", &path))?;
    file.write_all_at(format!("{next:0WIDTH$}\n").as_bytes(), 0).map_err(DiskError::at("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_is_read_back_unless_it_is_torn() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), None);
        for n in [1, u64::MAX, 7] {
            write(dir.path(), n).unwrap();
            assert_eq!(read(dir.path()), Some(n));
        }
        std::fs::write(dir.path().join(NAME), "12").unwrap();
        assert_eq!(read(dir.path()), None, "torn");
    }
}
