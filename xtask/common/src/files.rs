//! File operations that name what they did to which path when they fail.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file operation failed.
#[derive(Debug, Error)]
#[error("cannot {action} {}", path.display())]
pub struct FileError {
    /// What was tried.
    pub action: &'static str,
    /// On which file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

impl FileError {
    /// Turns the cause into an error that names what was tried on `path`.
    pub fn of(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { action, path: path.to_owned(), source }
    }
}

fn named<T>(result: io::Result<T>, action: &'static str, path: &Path) -> Result<T, FileError> {
    result.map_err(FileError::of(action, path))
}

/// Makes `path` and its parents.
///
/// # Errors
/// When it can't be made.
pub fn create_folder(path: &Path) -> Result<(), FileError> {
    named(fs::create_dir_all(path), "create", path)
}

/// Removes a folder with all in it, a file, or a link (dangling ones too); one that is not there is fine.
///
/// # Errors
/// When something is left.
pub fn remove(path: &Path) -> Result<(), FileError> {
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
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    named(fs::rename(from, to), "rename to", to)
}

/// Writes a whole file.
///
/// # Errors
/// When it can't be written.
pub fn write(path: &Path, data: impl AsRef<[u8]>) -> Result<(), FileError> {
    named(fs::write(path, data), "write", path)
}

/// Reads a whole file.
///
/// # Errors
/// When it can't be read.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    named(fs::read(path), "read", path)
}

/// Locks `folder`, which is made if need be, until the returned file is closed; the kernel also lets go when
/// the process ends. Says on standard error that `who` waits when another process has the lock.
///
/// # Errors
/// When the lock file can't be made or locked.
pub fn lock(folder: &Path, who: &str) -> Result<File, FileError> {
    let path = folder.join(".lock");
    let held = fs::create_dir_all(folder).and_then(|()| File::create(&path)).and_then(|file| {
        if file.try_lock().is_err() {
            eprintln!("{who}: waiting for another one to end");
            file.lock()?;
        }
        Ok(file)
    });
    named(held, "lock", &path)
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
