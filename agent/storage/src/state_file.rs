//! Files that outlive the agent: JSON that says its version and the SHA-256 of what is kept in it.
//!
//! A file is replaced whole: temporary file, sync, rename, sync of the directory; so a crash leaves the old or the new
//! one. A damaged one is known by its checksum and set aside, never taken for true and never thrown away.

use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Of a file being written, in place of its extension.
pub const TEMPORARY: &str = "json.new";
/// Of a damaged one.
const DAMAGED: &str = "json.damaged";

/// What went wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    #[error("{call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
    #[error("content of {} as JSON: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("{} is damaged ({fault}); kept as {}", path.display(), aside.display())]
    Damaged { path: PathBuf, aside: PathBuf, fault: KeptFault },
}

/// What is wrong with its content.
#[derive(Debug, thiserror::Error)]
pub enum KeptFault {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("not UTF-8")]
    Text,
    #[error("version {found}, not {known}")]
    Version { found: u32, known: u32 },
    #[error("the checksum is another")]
    Checksum,
    /// Whole, but of something else than its name says.
    #[error("it is of {0}")]
    Misplaced(String),
}

impl KeptError {
    /// For `map_err`: a call that failed.
    pub fn at(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { call, path, source }
    }
}

/// What a file is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// What the content is called in it.
    pub field: &'static str,
    pub version: u32,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// SHA-256 of the content's JSON with sorted keys and no spaces, in hexadecimal.
    checksum: String,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Format {
    /// Puts `content` at `path` and returns its checksum; `None` where that is `saved`, so that it is there already.
    /// `writing` is called before the file is replaced: from then on the disk may have the old or the new one.
    ///
    /// # Errors
    /// The file cannot be written; the one before it stays.
    pub fn write<T: Serialize>(
        self,
        path: &Path,
        content: &T,
        saved: Option<&str>,
        writing: impl FnOnce(),
    ) -> Result<Option<String>, KeptError> {
        let json = |source| KeptError::Json { path: path.to_owned(), source };
        let value = serde_json::to_value(content).map_err(json)?;
        let checksum = checksum(&value);
        if saved == Some(&checksum) {
            return Ok(None);
        }
        let rest = Map::from_iter([(self.field.to_owned(), value)]);
        let content = Content { version: self.version, checksum, rest };
        let text = serde_json::to_vec(&content).map_err(json)?;
        let temporary = path.with_extension(TEMPORARY);
        let mut file = File::create(&temporary).map_err(KeptError::at("create", &temporary))?;
        file.write_all(&text).map_err(KeptError::at("write", &temporary))?;
        file.sync_all().map_err(KeptError::at("sync", &temporary))?;
        writing();
        fs::rename(&temporary, path).map_err(KeptError::at("rename", &temporary))?;
        sync(path.parent().unwrap_or(Path::new("/")))?;
        Ok(Some(content.checksum))
    }

    /// What is at `path`, with its checksum; none where there is no file. A damaged one, or one that `accept` finds
    /// fault with, is set aside.
    ///
    /// # Errors
    /// The file cannot be read or is damaged.
    pub fn read<T: DeserializeOwned>(
        self,
        path: &Path,
        accept: impl FnOnce(&T) -> Result<(), KeptFault>,
    ) -> Result<Option<(T, String)>, KeptError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(KeptError::at("read", path)(source)),
        };
        let read = self.parse(bytes).and_then(|read: (T, String)| accept(&read.0).map(|()| read));
        read.map(Some).map_err(|fault| {
            let aside = path.with_extension(DAMAGED);
            match fs::rename(path, &aside) {
                Ok(()) => KeptError::Damaged { path: path.to_owned(), aside, fault },
                Err(source) => KeptError::at("rename", path)(source),
            }
        })
    }

    fn parse<T: DeserializeOwned>(self, bytes: Vec<u8>) -> Result<(T, String), KeptFault> {
        let text = String::from_utf8(bytes).map_err(|_| KeptFault::Text)?;
        let mut content: Content = serde_json::from_str(&text)?;
        if content.version != self.version {
            return Err(KeptFault::Version { found: content.version, known: self.version });
        }
        let missing = || <serde_json::Error as serde::de::Error>::missing_field(self.field);
        let value = content.rest.remove(self.field).ok_or_else(missing)?;
        if checksum(&value) != content.checksum {
            return Err(KeptFault::Checksum);
        }
        Ok((serde_json::from_value(value)?, content.checksum))
    }
}

/// Has the names in a directory on disk when it returns.
///
/// # Errors
/// It cannot be opened or synced.
pub fn sync(dir: &Path) -> Result<(), KeptError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(KeptError::at("sync", dir))
}

/// Objects of serde_json are sorted by key.
fn checksum(value: &Value) -> String {
    Sha256::digest(value.to_string()).iter().map(|b| format!("{b:02x}")).collect()
}

/// One such file that is written again and again. Calls block on the disk.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    format: Format,
    /// Checksum of what is on disk. Held while writing: two writers share the temporary file's name.
    saved: Mutex<Option<String>>,
}

impl KeptFile {
    /// The file and what is in it; nothing, and why, where it cannot be read. No file is no error.
    pub fn open<T: DeserializeOwned>(path: PathBuf, format: Format) -> (Self, Option<T>, Option<KeptError>) {
        let (content, saved, problem) = match format.read(&path, |_| Ok(())) {
            Ok(Some((content, checksum))) => (Some(content), Some(checksum), None),
            Ok(None) => (None, None, None),
            Err(problem) => (None, None, Some(problem)),
        };
        (Self { path, format, saved: Mutex::new(saved) }, content, problem)
    }

    /// Has the content on disk when it returns. What is there already is not written again: `false`.
    ///
    /// # Errors
    /// The file cannot be written; the one before it stays.
    pub fn save<T: Serialize>(&self, content: &T) -> Result<bool, KeptError> {
        let mut saved = self.saved.lock();
        let before = saved.clone();
        let written = self.format.write(&self.path, content, before.as_deref(), || *saved = None)?;
        let is_new = written.is_some();
        if is_new {
            *saved = written;
        }
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format { field: "things", version: 1 };

    fn open(path: &Path) -> (KeptFile, Option<Vec<u32>>, Option<KeptError>) {
        KeptFile::open(path.to_owned(), FORMAT)
    }

    #[test]
    fn comes_back_the_same_and_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("things.json");
        let (file, none, problem) = open(&path);
        assert!(none.is_none() && problem.is_none(), "{problem:?}");
        assert!(file.save(&[1, 2]).unwrap());
        assert!(!file.save(&[1, 2]).unwrap());
        let (again, read, problem) = open(&path);
        assert!(problem.is_none(), "{problem:?}");
        assert_eq!(read, Some(vec![1, 2]));
        assert!(!again.save(&[1, 2]).unwrap());
        assert!(again.save(&[3]).unwrap());
        assert_eq!(open(&path).1, Some(vec![3]));
        let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["things.json"]);
    }

    #[test]
    fn a_failed_write_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("things.json");
        let (file, ..) = open(&path);
        assert!(file.save(&[1]).unwrap());
        // No file can be made where a directory is.
        fs::create_dir(dir.path().join("things.json.new")).unwrap();
        let told = file.save(&[2]).unwrap_err().to_string();
        assert!(told.starts_with("create ") && told.contains("things.json.new"), "{told}");
        assert_eq!(open(&path).1, Some(vec![1]));
        // It is known to be there still.
        assert!(!file.save(&[1]).unwrap());
    }

    #[test]
    fn what_is_another_thing_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("things.json");
        open(&path).0.save(&[7]).unwrap();
        let refuse = |_: &Vec<u32>| Err(KeptFault::Misplaced("others".into()));
        let told = FORMAT.read(&path, refuse).unwrap_err().to_string();
        assert!(told.contains("(it is of others)") && told.ends_with("things.json.damaged"), "{told}");
        assert!(!path.exists());
        // Whole, and without what it should have.
        Format { field: "else", version: 1 }.write(&path, &1, None, || {}).unwrap();
        let told = open(&path).2.unwrap().to_string();
        assert!(told.contains("missing field `things`"), "{told}");
    }
}
