//! A checkpoint that another program reads and writes too, like the kubelet's: the format is the caller's.
//! The file is replaced as a whole by a rename, and a damaged one is kept under another name.
//!
//! It is not synced to disk, because it has to survive a restart of the agent, not of the machine. After a
//! restart of the machine no container runs, and an older or truncated file is what a kubelet would find too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::private_file;

/// Extension of a damaged file's name.
const DAMAGED: &str = "damaged";

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}: {source}", path.display())]
pub struct CheckpointFileError {
    /// What was tried.
    pub call: &'static str,
    /// On which file.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

/// The path of a checkpoint. The calls block on the file system.
#[derive(Debug, Clone)]
pub struct CheckpointPath {
    path: PathBuf,
    temporary: PathBuf,
}

impl CheckpointPath {
    /// For this file of a directory. Does not touch the disk yet.
    pub fn new(directory: &Path, file: &str) -> Self {
        Self { path: directory.join(file), temporary: directory.join(format!(".{file}.new")) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The content; `None` if there is no file.
    ///
    /// # Errors
    /// The file exists and cannot be read.
    pub fn read(&self) -> Result<Option<Vec<u8>>, CheckpointFileError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(fail("read", &self.path)(source)),
        }
    }

    /// Writes the file, with mode 0600, before it returns; if the agent is killed meanwhile, the previous
    /// file stays. Not to be called twice at a time.
    ///
    /// # Errors
    /// The file cannot be written or replaced; the previous one stays.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), CheckpointFileError> {
        private_file::replace(&self.path, &self.temporary, bytes, false)
            .map_err(|(call, source)| fail(call, &self.temporary)(source))
    }

    /// Renames a damaged file, never over an earlier one: `.damaged`, then `.damaged.2`, and so on. Returns
    /// the new path.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn set_aside(&self) -> Result<PathBuf, CheckpointFileError> {
        let mut aside = self.path.with_extension(DAMAGED);
        let mut n = 1;
        while aside.try_exists().map_err(fail("stat", &aside))? {
            n += 1;
            aside = self.path.with_extension(format!("{DAMAGED}.{n}"));
        }
        fs::rename(&self.path, &aside).map_err(fail("rename", &self.path))?;
        Ok(aside)
    }

    /// Whether a damaged file was ever kept here.
    pub fn was_damaged(&self) -> bool {
        self.path.with_extension(DAMAGED).exists()
    }
}

fn fail(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointFileError {
    let path = path.to_owned();
    move |source| CheckpointFileError { call, path, source }
}
