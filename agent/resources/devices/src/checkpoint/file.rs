//! The checkpoint file: replaced as a whole by a rename; a damaged file is kept under another name.
//!
//! It is not synced to disk, because it has to survive a restart of the agent, not of the machine. After a
//! restart of the machine no container runs, and an older or truncated file is what a kubelet would find too.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::write::Writer;
use super::{Checkpoint, CheckpointError};

/// The kubelet's name (`kubeletDeviceManagerCheckpoint`).
const FILE: &str = "kubelet_internal_checkpoint";
/// Extension of a damaged file's name.
const DAMAGED: &str = "damaged";

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}: {source}", path.display())]
pub struct CheckpointFileError {
    pub call: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

/// The file is not a checkpoint of a current kubelet, or is corrupt.
#[derive(Debug, thiserror::Error)]
#[error("{} is damaged or foreign: {reason}; kept as {}", path.display(), kept_aside.display())]
pub struct Damaged {
    pub path: PathBuf,
    /// The new path in the same directory; earlier damaged files are not overwritten.
    pub kept_aside: PathBuf,
    pub reason: CheckpointError,
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file was damaged. The allocations are recovered from the runtime, as far as it knows them.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The file exists but cannot be read or renamed.
    #[error(transparent)]
    File(#[from] CheckpointFileError),
}

/// Reads and writes the checkpoint file. The calls block on the file system.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    temporary: PathBuf,
    /// Avoids hashing again what was written last. Locked while the file is written, so that writes do not
    /// overlap.
    writer: Mutex<Writer>,
}

impl CheckpointFile {
    /// For the directory of the device plugins' sockets. Does not touch the disk yet.
    pub fn new(dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref();
        Self { path: dir.join(FILE), temporary: dir.join(format!(".{FILE}.new")), writer: Mutex::default() }
    }

    #[cfg(test)]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Loads what this agent or a kubelet saved last; `None` if there is no file.
    ///
    /// # Errors
    /// The file is damaged or has another format, and was renamed; or it cannot be read or renamed.
    pub fn load(&self) -> Result<Option<Checkpoint>, LoadError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(fail("read", &self.path)(source).into()),
        };
        let reason = match Checkpoint::parse(&bytes) {
            Ok(checkpoint) => return Ok(Some(checkpoint)),
            Err(reason) => reason,
        };
        let kept_aside = self.aside()?;
        fs::rename(&self.path, &kept_aside).map_err(fail("rename", &self.path))?;
        Err(Damaged { path: self.path.clone(), kept_aside, reason }.into())
    }

    /// Writes the checkpoint, with mode 0600, before it returns; if the agent is killed meanwhile, the
    /// previous file stays.
    ///
    /// # Errors
    /// The file cannot be written or replaced; the previous one stays.
    pub fn save(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointFileError> {
        let new = &self.temporary;
        let mut writer = self.writer.lock();
        // A killed agent may have left a file, perhaps with another mode.
        match fs::remove_file(new) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(fail("remove", new)(source)),
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new);
        file.map_err(fail("create", new))?
            .write_all(&writer.bytes(checkpoint))
            .map_err(fail("write", new))?;
        fs::rename(new, &self.path).map_err(fail("rename", new))
    }

    /// Whether a damaged file was ever kept here.
    pub fn was_damaged(&self) -> bool {
        self.path.with_extension(DAMAGED).exists()
    }

    /// An unused name: `.damaged`, then `.damaged.2`, and so on.
    fn aside(&self) -> Result<PathBuf, CheckpointFileError> {
        let mut path = self.path.with_extension(DAMAGED);
        let mut n = 1;
        while path.try_exists().map_err(fail("stat", &path))? {
            n += 1;
            path = self.path.with_extension(format!("{DAMAGED}.{n}"));
        }
        Ok(path)
    }
}

fn fail(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CheckpointFileError {
    let path = path.to_owned();
    move |source| CheckpointFileError { call, path, source }
}
