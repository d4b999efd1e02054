//! Records on disk: one file a pod, so that what changes for one pod costs one small file.
//!
//! A damaged file is set aside, and the pod is found again by what the runtime has of it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Record;
use nodewarden_storage::state_file::{Fault, Format, StateFileError, TEMPORARY};

pub(crate) const FORMAT: Format = Format::new("record", 1);
const EXTENSION: &str = "json";

/// What went wrong with records.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A record cannot be read or written, or it was damaged and is set aside.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// Not a name for a file: no valid pod has such a uid.
    #[error("pod uid {uid:?} cannot be a file's name")]
    Uid {
        /// As the pod has it.
        uid: String,
    },
}

/// The directory of records. Calls block on the disk.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// Checksums of what is on disk, by uid: what is there already is not written again.
    saved: Mutex<BTreeMap<String, String>>,
}

impl Store {
    /// The records in `dir`, which is made if it is not there, by uid; and what could not be read. Damaged
    /// files are set aside, temporary ones of an agent that died are removed.
    ///
    /// # Errors
    /// The directory cannot be made or listed.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Record>, Vec<StoreError>), StoreError> {
        fs::create_dir_all(dir).map_err(StateFileError::at("create", dir))?;
        let mut saved = BTreeMap::new();
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(StateFileError::at("list", dir))? {
            names.push(entry.map_err(StateFileError::at("list", dir))?.path());
        }
        names.sort();
        for path in names {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if name.ends_with(TEMPORARY) {
                let removed = fs::remove_file(&path).map_err(StateFileError::at("remove", &path));
                problems.extend(removed.err().map(StoreError::from));
            } else if let Some(uid) = name.strip_suffix(EXTENSION).and_then(|n| n.strip_suffix('.')) {
                match read(&path, uid) {
                    Ok(Some((record, checksum))) => {
                        saved.insert(uid.to_owned(), checksum);
                        records.push(record);
                    }
                    Ok(None) => {}
                    Err(problem) => problems.push(problem.into()),
                }
            }
        }
        Ok((Self { dir: dir.to_owned(), saved: Mutex::new(saved) }, records, problems))
    }

    /// Writes the record; it is on disk when this returns. What is there already is not written again:
    /// `false`.
    ///
    /// # Errors
    /// The file cannot be written; the one before it stays.
    pub fn save(&self, record: &Record) -> Result<bool, StoreError> {
        let uid = record.uid();
        let path = self.path(uid)?;
        let before = self.saved().get(uid).cloned();
        let writing = || drop(self.saved().remove(uid));
        let written = FORMAT.write(&path, record, before.as_deref(), writing)?;
        let is_new = written.is_some();
        if let Some(checksum) = written {
            self.saved().insert(uid.to_owned(), checksum);
        }
        Ok(is_new)
    }

    /// Forgets a pod; nothing there is no error.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, uid: &str) -> Result<(), StoreError> {
        let path = self.path(uid)?;
        self.saved().remove(uid);
        match fs::remove_file(&path) {
            Ok(()) => Ok(nodewarden_storage::state_file::sync(&self.dir)?),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(StateFileError::at("remove", &path)(source).into()),
        }
    }

    fn path(&self, uid: &str) -> Result<PathBuf, StoreError> {
        let good = !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !good {
            return Err(StoreError::Uid { uid: uid.to_owned() });
        }
        Ok(self.dir.join(format!("{uid}.{EXTENSION}")))
    }

    fn saved(&self) -> parking_lot::MutexGuard<'_, BTreeMap<String, String>> {
        self.saved.lock()
    }
}

fn read(path: &Path, uid: &str) -> Result<Option<(Record, String)>, StateFileError> {
    FORMAT.read(path, |record: &Record| match record.uid() {
        own if own == uid => Ok(()),
        other => Err(Fault::Misplaced(format!("pod {other}"))),
    })
}

#[cfg(test)]
mod tests;
