//! Records on disk: one file a pod, so that what changes for one pod costs one small file.
//!
//! A file is replaced whole: temporary file, sync, rename, sync of the directory. It says its version and the SHA-256
//! of the record in it, so that a damaged one is known; it is set aside then, and the pod is found again by what the
//! runtime has of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Record;

const VERSION: u32 = 1;
const EXTENSION: &str = "json";
const TEMPORARY: &str = "json.new";
const DAMAGED: &str = "json.damaged";

/// What went wrong with records.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
    #[error("record of pod {uid} as JSON: {source}")]
    Json { uid: String, source: serde_json::Error },
    /// Not a name for a file: no valid pod has such a uid.
    #[error("pod uid {uid:?} cannot be a file's name")]
    Uid { uid: String },
    #[error("{} is damaged ({fault}); kept as {}", path.display(), aside.display())]
    Damaged { path: PathBuf, aside: PathBuf, fault: Fault },
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("not UTF-8")]
    Text,
    #[error("version {0}, not {VERSION}")]
    Version(u32),
    #[error("the checksum is another")]
    Checksum,
    #[error("it is of pod {0}")]
    OtherPod(String),
}

/// The directory of records. Calls block on the disk.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    /// Checksums of what is on disk, by uid: what is there already is not written again.
    saved: Mutex<BTreeMap<String, String>>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// SHA-256 of the record's JSON with sorted keys and no spaces, in hexadecimal.
    checksum: String,
    record: Value,
}

impl Store {
    /// The records in `dir`, which is made if it is not there, by uid; and what could not be read. Damaged files are
    /// set aside, temporary ones of an agent that died are removed.
    ///
    /// # Errors
    /// The directory cannot be made or listed.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Record>, Vec<StoreError>), StoreError> {
        fs::create_dir_all(dir).map_err(fail("create", dir))?;
        let mut saved = BTreeMap::new();
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(fail("list", dir))? {
            names.push(entry.map_err(fail("list", dir))?.path());
        }
        names.sort();
        for path in names {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if name.ends_with(TEMPORARY) {
                problems.extend(fs::remove_file(&path).map_err(fail("remove", &path)).err());
            } else if let Some(uid) = name.strip_suffix(EXTENSION).and_then(|n| n.strip_suffix('.')) {
                match read(&path, uid) {
                    Ok((record, checksum)) => {
                        saved.insert(uid.to_owned(), checksum);
                        records.push(record);
                    }
                    Err(problem) => problems.push(problem),
                }
            }
        }
        Ok((Self { dir: dir.to_owned(), saved: Mutex::new(saved) }, records, problems))
    }

    /// Has the record on disk when it returns. What is there already is not written again: `false`.
    ///
    /// # Errors
    /// The file cannot be written; the one before it stays.
    pub fn save(&self, record: &Record) -> Result<bool, StoreError> {
        let uid = record.uid();
        let path = self.path(uid)?;
        let json = |source| StoreError::Json { uid: uid.to_owned(), source };
        let value = serde_json::to_value(record).map_err(json)?;
        let checksum = checksum(&value);
        if self.saved().get(uid) == Some(&checksum) {
            return Ok(false);
        }
        let content = Content { version: VERSION, checksum: checksum.clone(), record: value };
        let text = serde_json::to_vec(&content).map_err(json)?;
        let temporary = path.with_extension(TEMPORARY);
        let mut file = File::create(&temporary).map_err(fail("create", &temporary))?;
        file.write_all(&text).map_err(fail("write", &temporary))?;
        file.sync_all().map_err(fail("sync", &temporary))?;
        // From here on the disk has the old or the new one.
        self.saved().remove(uid);
        fs::rename(&temporary, &path).map_err(fail("rename", &temporary))?;
        self.sync()?;
        self.saved().insert(uid.to_owned(), checksum);
        Ok(true)
    }

    /// Forgets a pod; nothing there is no error.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, uid: &str) -> Result<(), StoreError> {
        let path = self.path(uid)?;
        self.saved().remove(uid);
        match fs::remove_file(&path) {
            Ok(()) => self.sync(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(StoreError::File { call: "remove", path, source }),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(fail("sync", &self.dir))
    }

    fn path(&self, uid: &str) -> Result<PathBuf, StoreError> {
        let good = !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !good {
            return Err(StoreError::Uid { uid: uid.to_owned() });
        }
        Ok(self.dir.join(format!("{uid}.{EXTENSION}")))
    }

    fn saved(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fail(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::File { call, path, source }
}

fn read(path: &Path, uid: &str) -> Result<(Record, String), StoreError> {
    let bytes = fs::read(path).map_err(fail("read", path))?;
    parse(bytes, uid).map_err(|fault| {
        let aside = path.with_extension(DAMAGED);
        match fs::rename(path, &aside) {
            Ok(()) => StoreError::Damaged { path: path.to_owned(), aside, fault },
            Err(source) => StoreError::File { call: "rename", path: path.to_owned(), source },
        }
    })
}

fn parse(bytes: Vec<u8>, uid: &str) -> Result<(Record, String), Fault> {
    let text = String::from_utf8(bytes).map_err(|_| Fault::Text)?;
    let content: Content = serde_json::from_str(&text)?;
    if content.version != VERSION {
        return Err(Fault::Version(content.version));
    }
    if checksum(&content.record) != content.checksum {
        return Err(Fault::Checksum);
    }
    let record: Record = serde_json::from_value(content.record)?;
    if record.uid() != uid {
        return Err(Fault::OtherPod(record.uid().to_owned()));
    }
    Ok((record, content.checksum))
}

/// Objects of serde_json are sorted by key.
fn checksum(record: &Value) -> String {
    Sha256::digest(record.to_string()).iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
