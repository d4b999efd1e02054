//! The mount table of the agent's mount namespace (proc_pid_mountinfo(5)).

use std::fs;
use std::path::{Path, PathBuf};

use super::VolumeError;
use nodewarden_machine::mountinfo;

const TABLE: &str = "/proc/self/mountinfo";

/// Mount points at or below a directory, in the order of mounting. The path of the directory must not contain
/// links, as in the kernel's table.
pub(super) fn below(dir: &Path) -> Result<Vec<PathBuf>, VolumeError> {
    let table = fs::read(TABLE).map_err(VolumeError::file("read", Path::new(TABLE)))?;
    Ok(mountinfo::parse_below(&table, dir).map(|mount| mount.mount_point).collect())
}

/// Whether something is mounted at exactly this path, which is written as in [`below`].
pub(super) fn is_mounted(path: &Path) -> Result<bool, VolumeError> {
    Ok(below(path)?.iter().any(|point| point == path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_proc_mounted() {
        assert!(is_mounted(Path::new("/proc")).unwrap());
        assert!(!is_mounted(Path::new("/proc/self")).unwrap());
    }
}
