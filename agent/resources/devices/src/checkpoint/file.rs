//! The checkpoint file, in the directory of the device plugins' sockets.

use std::path::{Path, PathBuf};

pub use nodewarden_storage::checkpoint::CheckpointFileError;
use nodewarden_storage::checkpoint::CheckpointPath;
use parking_lot::Mutex;

use super::write::Writer;
use super::{Checkpoint, CheckpointError};

/// The kubelet's name (`kubeletDeviceManagerCheckpoint`).
const FILE: &str = "kubelet_internal_checkpoint";

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
    file: CheckpointPath,
    /// Avoids hashing again what was written last. Locked while the file is written, so that writes do not
    /// overlap.
    writer: Mutex<Writer>,
}

impl CheckpointFile {
    /// For the directory of the device plugins' sockets. Does not touch the disk yet.
    pub fn new(dir: impl AsRef<Path>) -> Self {
        Self { file: CheckpointPath::new(dir.as_ref(), FILE), writer: Mutex::default() }
    }

    #[cfg(test)]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Loads what this agent or a kubelet saved last; `None` if there is no file.
    ///
    /// # Errors
    /// The file is damaged or has another format, and was renamed; or it cannot be read or renamed.
    pub fn load(&self) -> Result<Option<Checkpoint>, LoadError> {
        let Some(bytes) = self.file.read()? else { return Ok(None) };
        match Checkpoint::parse(&bytes) {
            Ok(checkpoint) => Ok(Some(checkpoint)),
            Err(reason) => {
                let kept_aside = self.file.set_aside()?;
                Err(Damaged { path: self.file.path().to_owned(), kept_aside, reason }.into())
            }
        }
    }

    /// Writes the checkpoint before it returns; if the agent is killed meanwhile, the previous file stays.
    ///
    /// # Errors
    /// The file cannot be written or replaced; the previous one stays.
    pub fn save(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointFileError> {
        let mut writer = self.writer.lock();
        let bytes = writer.bytes(checkpoint);
        self.file.replace(&bytes)
    }

    /// Whether a damaged file was ever kept here.
    pub fn was_damaged(&self) -> bool {
        self.file.was_damaged()
    }
}
