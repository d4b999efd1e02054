//! File operations that name what they did to which path when they fail.

use std::fs;
use std::io::{ErrorKind, Result};
use std::path::Path;

use super::StepError;

fn named(result: Result<()>, action: &'static str, path: &Path) -> std::result::Result<(), StepError> {
    result.map_err(|source| StepError::File { action, path: path.to_owned(), source })
}

/// Makes `path` and its parents.
///
/// # Errors
/// When it can't be made.
pub fn create_folder(path: &Path) -> std::result::Result<(), StepError> {
    named(fs::create_dir_all(path), "create", path)
}

/// Removes a folder with all in it, a file, or a link (dangling ones too); one that is not there is fine.
///
/// # Errors
/// When something is left.
pub fn remove(path: &Path) -> std::result::Result<(), StepError> {
    let removed = fs::symlink_metadata(path)
        .and_then(|meta| if meta.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) });
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => named(other, "remove", path),
    }
}

/// Renames; both must be in one file system.
///
/// # Errors
/// When it can't be done.
pub fn rename(from: &Path, to: &Path) -> std::result::Result<(), StepError> {
    named(fs::rename(from, to), "rename to", to)
}

/// Writes a whole file.
///
/// # Errors
/// When it can't be written.
pub fn write(path: &Path, text: &str) -> std::result::Result<(), StepError> {
    named(fs::write(path, text), "write", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_can_be_removed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        remove(&path).unwrap();
        std::os::unix::fs::symlink("/no/such/place", &path).unwrap();
        remove(&path).unwrap();
        create_folder(&path.join("a/b")).unwrap();
        remove(&path).unwrap();
        write(&path, "text").unwrap();
        remove(&path).unwrap();
        assert!(fs::symlink_metadata(&path).is_err());
    }
}
