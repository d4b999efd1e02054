//! The checkpoint on disk: replaced whole by a rename, and a damaged one kept aside.
//!
//! It is not synced: it has to outlive the agent, not the machine. When the machine goes down no container runs any more,
//! and what is then found (an older file, or half of one) is what a kubelet would find.

use parking_lot::Mutex;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::write::Writer;
use super::{Checkpoint, CheckpointError};

/// The kubelet's name (`kubeletDeviceManagerCheckpoint`).
const FILE: &str = "kubelet_internal_checkpoint";
/// Ends the name of what is kept aside.
const DAMAGED: &str = "damaged";

/// What went wrong with the file.
#[derive(Debug, thiserror::Error)]
#[error("{call} {}: {source}", path.display())]
pub struct CheckpointFileError {
    pub call: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

/// Not what a kubelet of today has written, or no longer.
#[derive(Debug, thiserror::Error)]
#[error("{} is damaged or foreign: {reason}; kept as {}", path.display(), kept_aside.display())]
pub struct Damaged {
    pub path: PathBuf,
    /// Beside it; an earlier one of that name stays.
    pub kept_aside: PathBuf,
    pub reason: CheckpointError,
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The devices are found again at the runtime, as far as it knows them.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// It is there and cannot be read or moved.
    #[error(transparent)]
    File(#[from] CheckpointFileError),
}

/// Where the checkpoint is. Calls block on the disk's cache.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    temporary: PathBuf,
    /// What was written last is not hashed again. Held while the file is written: one after another.
    writer: Mutex<Writer>,
}

impl CheckpointFile {
    /// In the directory of the device plugins' sockets. Nothing is done yet.
    pub fn new(dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref();
        Self { path: dir.join(FILE), temporary: dir.join(format!(".{FILE}.new")), writer: Mutex::default() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was saved last, by this agent or by a kubelet; `None` where nothing was.
    ///
    /// # Errors
    /// The file is damaged or foreign, and kept aside now; or it cannot be read or moved.
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

    /// Has it in the file when it returns, with mode 0600; an agent that dies meanwhile leaves the one before.
    ///
    /// # Errors
    /// The file cannot be written or replaced; the one before it stays.
    pub fn save(&self, checkpoint: &Checkpoint) -> Result<(), CheckpointFileError> {
        let new = &self.temporary;
        let mut writer = self.writer.lock();
        // An agent that died may have left one, and another mode with it.
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

    /// Whether a damaged one was ever kept aside here.
    pub fn was_damaged(&self) -> bool {
        self.path.with_extension(DAMAGED).exists()
    }

    /// A free name: `.damaged`, then `.damaged.2`, and so on.
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
