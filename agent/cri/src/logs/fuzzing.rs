//! Entry points for fuzzing: finding the last lines of a log.

use std::ffi::CStr;
use std::fs::File;
use std::io;

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::back;
use super::entry::{HEAD, ends_line};

/// A file in memory with this text.
///
/// # Errors
/// When the kernel refuses it.
fn file(text: &[u8]) -> io::Result<File> {
    const NAME: &CStr = c"log";
    let mut file = File::from(memfd_create(NAME, MFdFlags::empty())?);
    io::Write::write_all(&mut file, text)?;
    Ok(file)
}

/// Offset of the last `wanted` lines of a log with this text, and how many there are: by reading backwards,
/// and by reading from the beginning.
///
/// # Errors
/// When the kernel has no file in memory.
pub fn last_lines(text: &[u8], wanted: u64) -> io::Result<[(u64, u64); 2]> {
    let backwards = back::last_lines(&file(text)?, text.len() as u64, wanted)?;
    let mut starts = Vec::new();
    let (mut offset, mut inside) = (0, false);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if !inside {
            starts.push(offset);
        }
        inside = !ends_line(&line[..line.len().min(HEAD)]);
        offset += line.len() as u64;
    }
    let lines = wanted.min(starts.len() as u64);
    let forwards = if lines == 0 { text.len() as u64 } else { starts[starts.len() - lines as usize] };
    Ok([(backwards.offset, backwards.lines), (forwards, lines)])
}
