//! What is mounted where, as the kernel tells it (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::VolumeError;

const TABLE: &str = "/proc/self/mountinfo";

/// Mount points at or below a directory, in the order they were made. The directory must be written without links, as
/// the kernel has it.
pub(super) fn below(dir: &Path) -> Result<Vec<PathBuf>, VolumeError> {
    let table = fs::read(TABLE).map_err(VolumeError::file("read", Path::new(TABLE)))?;
    Ok(points(&table).filter(|point| point.starts_with(dir)).collect())
}

pub(super) fn is_mounted(path: &Path) -> Result<bool, VolumeError> {
    Ok(below(path)?.iter().any(|point| point == path))
}

fn points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    // 36 35 98:0 /root /point …
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped)
}

/// Blanks, tabs, line ends and backslashes are written as `\` and three octal digits.
pub fn unescaped(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let code = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(out))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let table = b"36 35 98:0 / / rw - ext4 /dev/x rw\n\
                      37 36 0:40 / /a\\040b\\134c rw shared:1 - tmpfs tmpfs rw\nbroken\n38 36 0:40 / /x\\04 rw\n";
        let found: Vec<_> = points(table).collect();
        assert_eq!(found, ["/", "/a b\\c", "/x\\04"].map(PathBuf::from));
    }

    #[test]
    fn this_machine() {
        assert!(is_mounted(Path::new("/proc")).unwrap());
        assert!(!is_mounted(Path::new("/proc/self")).unwrap());
    }
}
