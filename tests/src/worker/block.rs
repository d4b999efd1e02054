//! Workloads on a block device.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::WorkError;
use super::report::Moved;

/// The alignment that O_DIRECT needs for addresses and lengths on every device in use, in bytes.
const ALIGNMENT: usize = 4096;

/// Writes blocks without the page cache, one request at a time.
pub fn write_direct(path: &Path, blocks: u32, block_bytes: usize) -> Result<Moved, WorkError> {
    let error = |source| WorkError::File { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .map_err(error)?;
    let buffer = vec![7u8; block_bytes + ALIGNMENT];
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    let block = &buffer[start..start + block_bytes];
    let mut moved = Moved { count: 0, bytes: 0 };
    for i in 0..blocks {
        file.write_all_at(block, u64::from(i) * block_bytes as u64).map_err(error)?;
        moved.count += 1;
        moved.bytes += block_bytes as u64;
    }
    Ok(moved)
}
