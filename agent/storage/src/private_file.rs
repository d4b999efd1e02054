//! Files that only their owner can read, replaced as a whole by a rename: if the agent is killed meanwhile,
//! the previous file stays.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a file with mode 0600 and waits until its content is on the disk. Not to be called twice at a time
/// for one path.
///
/// # Errors
/// As of the file system; the previous file stays.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    replace(path, &PathBuf::from(name), content, true).map_err(|(_, error)| error)
}

/// Writes `new` with mode 0600 and renames it to `path`; `sync` waits for the disk before that. Errors have
/// the call that failed, always on `new`.
pub(crate) fn replace(
    path: &Path,
    new: &Path,
    content: &[u8],
    sync: bool,
) -> Result<(), (&'static str, io::Error)> {
    let at = |call| move |error| (call, error);
    // A killed agent may have left a file, perhaps with another mode.
    match fs::remove_file(new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(("remove", error)),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new);
    let mut file = file.map_err(at("create"))?;
    file.write_all(content).map_err(at("write"))?;
    if sync {
        file.sync_all().map_err(at("sync"))?;
    }
    fs::rename(new, path).map_err(at("rename"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_whatever_a_killed_agent_left() {
        let dir = tempfile::tempdir().unwrap();
        let (path, part) = (dir.path().join("key"), dir.path().join("key.part"));
        fs::write(&path, "old").unwrap();
        fs::write(&part, "half").unwrap();
        fs::set_permissions(&part, fs::Permissions::from_mode(0o644)).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!part.exists());
    }

    #[test]
    fn a_failed_write_leaves_the_previous_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        write(&path, b"old").unwrap();
        // No file can be made where a directory is.
        fs::create_dir(dir.path().join("key.part")).unwrap();
        write(&path, b"new").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}
