//! State files: JSON with a version, a checksum and one field of content.
//!
//! A file is replaced whole (temporary file, rename), so a crash of the agent leaves either the old content
//! or the new one. A file that is synced survives a crash of the machine in the same way. A damaged file is
//! recognised by its checksum and renamed: it is neither used nor deleted.

use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// Extension of a file while it is being written, in place of its own.
pub const TEMPORARY: &str = "json.new";
/// Extension of a damaged file that was renamed.
const DAMAGED: &str = "json.damaged";

/// Why a state file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateFileError {
    /// When a call on the file, its temporary file or its directory fails.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// The call: `read`, `write`, `rename`, ….
        call: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// When the content cannot be written as JSON.
    #[error("content of {} as JSON: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The serialiser's error.
        source: serde_json::Error,
    },
    /// When the content that was read must not be used. The file has been renamed.
    #[error("{} is damaged ({fault}); kept as {}", path.display(), aside.display())]
    Damaged {
        /// The file's name before.
        path: PathBuf,
        /// The file's name now.
        aside: PathBuf,
        /// What is wrong with the content.
        fault: Fault,
    },
}

/// Why the content of a file must not be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// When it is not JSON, or not JSON of the expected type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// When it is not UTF-8.
    #[error("not UTF-8")]
    Text,
    /// When another version of the agent wrote it in a format that this one does not know.
    #[error("version {found}, not {known}")]
    Version {
        /// The version in the file.
        found: u32,
        /// The version that this agent reads and writes.
        known: u32,
    },
    /// When the checksum is not that of the content: bytes of the file were changed.
    #[error("the checksum is another")]
    Checksum,
    /// When it is undamaged but describes something else than the file's name says, which is in the string.
    #[error("it is of {0}")]
    Misplaced(String),
}

impl StateFileError {
    /// For `map_err`: the error of `call` on `path`.
    pub fn at(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::File { call, path, source }
    }
}

/// How a file is written: the name and version of its content, its checksum, and whether it is synced.
#[derive(Debug, Clone, Copy)]
pub struct Format {
    field: &'static str,
    version: u32,
    sync: bool,
    checksum: Checksum,
}

/// The input of the checksum, and its place in the file.
#[derive(Debug, Clone, Copy)]
enum Checksum {
    /// The content's JSON with sorted keys and no spaces, as it is written. The checksum is before the
    /// content.
    Json,
    /// The bytes that the function feeds to the hash. The checksum is after the content, whose fields are in
    /// the order of its type.
    Own(fn(&Value, &mut Sha256)),
}

impl Checksum {
    /// SHA-256 in hexadecimal.
    fn of(self, content: &Value) -> String {
        let mut hash = Sha256::new();
        match self {
            // serde_json sorts the keys of objects.
            Self::Json => hash.update(content.to_string()),
            Self::Own(feed) => feed(content, &mut hash),
        }
        in_hexadecimal(hash)
    }
}

fn in_hexadecimal(hash: Sha256) -> String {
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

impl Format {
    /// Content in the field `field`, synced to the disk with every write.
    pub const fn new(field: &'static str, version: u32) -> Self {
        Self { field, version, sync: true, checksum: Checksum::Json }
    }

    /// The same without fsync(2): such a file survives the end of the agent, but not always a crash of the
    /// machine. See [`sync`].
    pub const fn unsynced(self) -> Self {
        Self { sync: false, ..self }
    }

    /// The same with a checksum of the bytes that `feed` gives to the hash, written at the end of the file.
    pub const fn with_checksum(self, feed: fn(&Value, &mut Sha256)) -> Self {
        Self { checksum: Checksum::Own(feed), ..self }
    }

    /// Writes `content` to `path` and returns its checksum. If that equals `saved`, nothing is written and
    /// `None` is returned. `writing` is called right before the rename: from then on the disk may have the
    /// old or the new file.
    ///
    /// # Errors
    /// When the file cannot be written; the previous file is left.
    pub fn write<T: Serialize>(
        self,
        path: &Path,
        content: &T,
        saved: Option<&str>,
        writing: impl FnOnce(),
    ) -> Result<Option<String>, StateFileError> {
        let json = |source| StateFileError::Json { path: path.to_owned(), source };
        let value = serde_json::to_value(content).map_err(json)?;
        let checksum = self.checksum.of(&value);
        if saved == Some(&checksum) {
            return Ok(None);
        }
        let text = self.text(content, &value, &checksum).map_err(json)?;
        drop(value);
        self.replace(path, &text, writing)?;
        Ok(Some(checksum))
    }

    /// Writes `content` to `path`, in a format [with its own checksum](Self::with_checksum). `feed` gives the
    /// same bytes to the hash as the function of the format, without the content as a JSON value: that of a
    /// list of many takes several times their own memory.
    ///
    /// # Errors
    /// As [`Format::write`].
    pub fn write_fed<T: Serialize>(
        self,
        path: &Path,
        content: &T,
        feed: impl FnOnce(&mut Sha256),
    ) -> Result<(), StateFileError> {
        let mut hash = Sha256::new();
        feed(&mut hash);
        let text = self.text_before_checksum(content, &in_hexadecimal(hash));
        let json = |source| StateFileError::Json { path: path.to_owned(), source };
        self.replace(path, &text.map_err(json)?, || {})
    }

    /// Puts a file with this text at `path`.
    fn replace(self, path: &Path, text: &str, writing: impl FnOnce()) -> Result<(), StateFileError> {
        let temporary = path.with_extension(TEMPORARY);
        let mut file = File::create(&temporary).map_err(StateFileError::at("create", &temporary))?;
        file.write_all(text.as_bytes()).map_err(StateFileError::at("write", &temporary))?;
        if self.sync {
            file.sync_all().map_err(StateFileError::at("sync", &temporary))?;
        }
        writing();
        fs::rename(&temporary, path).map_err(StateFileError::at("rename", &temporary))?;
        if self.sync {
            sync(path.parent().unwrap_or(Path::new("/")))?;
        }
        Ok(())
    }

    /// The whole file with this content.
    ///
    /// # Errors
    /// When the content cannot be written as JSON.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn file<T: Serialize>(self, content: &T) -> Result<String, serde_json::Error> {
        let value = serde_json::to_value(content)?;
        self.text(content, &value, &self.checksum.of(&value))
    }

    /// The whole file.
    fn text<T: Serialize>(
        self,
        content: &T,
        value: &Value,
        checksum: &str,
    ) -> Result<String, serde_json::Error> {
        let Self { field, version, .. } = self;
        Ok(match self.checksum {
            Checksum::Json => format!(r#"{{"version":{version},"checksum":"{checksum}","{field}":{value}}}"#),
            Checksum::Own(_) => self.text_before_checksum(content, checksum)?,
        })
    }

    /// The whole file, with the checksum at its end.
    fn text_before_checksum<T: Serialize>(
        self,
        content: &T,
        checksum: &str,
    ) -> Result<String, serde_json::Error> {
        let Self { field, version, .. } = self;
        let content = serde_json::to_string(content)?;
        Ok(format!(r#"{{"version":{version},"{field}":{content},"checksum":"{checksum}"}}"#))
    }

    /// Reads the content at `path` and its checksum; `None` if there is no file. A damaged file, or one whose
    /// content `accept` refuses, is renamed.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged or is refused.
    pub fn read<T: DeserializeOwned>(
        self,
        path: &Path,
        accept: impl FnOnce(&T) -> Result<(), Fault>,
    ) -> Result<Option<(T, String)>, StateFileError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StateFileError::at("read", path)(source)),
        };
        let read = self.parse(bytes).and_then(|read: (T, String)| accept(&read.0).map(|()| read));
        read.map(Some).map_err(|fault| {
            let aside = path.with_extension(DAMAGED);
            match fs::rename(path, &aside) {
                Ok(()) => StateFileError::Damaged { path: path.to_owned(), aside, fault },
                Err(source) => StateFileError::at("rename", path)(source),
            }
        })
    }

    pub(crate) fn parse<T: DeserializeOwned>(self, bytes: Vec<u8>) -> Result<(T, String), Fault> {
        #[derive(serde::Deserialize)]
        struct Content {
            version: u32,
            checksum: String,
            #[serde(flatten)]
            rest: Map<String, Value>,
        }
        let text = String::from_utf8(bytes).map_err(|_| Fault::Text)?;
        let mut content: Content = serde_json::from_str(&text)?;
        if content.version != self.version {
            return Err(Fault::Version { found: content.version, known: self.version });
        }
        let missing = || <serde_json::Error as serde::de::Error>::missing_field(self.field);
        let value = content.rest.remove(self.field).ok_or_else(missing)?;
        if self.checksum.of(&value) != content.checksum {
            return Err(Fault::Checksum);
        }
        Ok((serde_json::from_value(value)?, content.checksum))
    }
}

/// Waits until a file's content, or the names in a directory, are on the disk (fsync(2)).
///
/// # Errors
/// When it cannot be opened or synced.
pub fn sync(path: &Path) -> Result<(), StateFileError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(StateFileError::at("sync", path))
}

/// A state file that is written repeatedly. Calls block until the disk is done.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    format: Format,
    /// Checksum of what is on disk. Held while writing: two writers share the temporary file's name.
    saved: Mutex<Option<String>>,
}

impl StateFile {
    /// The file and its content. If it cannot be read, there is no content and the error is returned; a
    /// missing file is not an error.
    pub fn open<T: DeserializeOwned>(
        path: PathBuf,
        format: Format,
    ) -> (Self, Option<T>, Option<StateFileError>) {
        let (content, saved, problem) = match format.read(&path, |_| Ok(())) {
            Ok(Some((content, checksum))) => (Some(content), Some(checksum), None),
            Ok(None) => (None, None, None),
            Err(problem) => (None, None, Some(problem)),
        };
        (Self { path, format, saved: Mutex::new(saved) }, content, problem)
    }

    /// Writes the content and returns `true`; returns `false` without writing if the file has this content
    /// already.
    ///
    /// # Errors
    /// When the file cannot be written; the previous file is left.
    pub fn save<T: Serialize>(&self, content: &T) -> Result<bool, StateFileError> {
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
mod tests;
