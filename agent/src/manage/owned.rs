//! Which pod cgroups are ours: written down before a cgroup is made and struck out after it is gone, so that an agent
//! killed at any moment finds its own again and takes nobody else's for its own.
//!
//! `hierarchy.json` in the state directory holds the paths and a checksum of them. It is replaced whole: temporary file,
//! sync, rename, sync of the directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const FILE: &str = "hierarchy.json";
const VERSION: u32 = 1;

/// What went wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum OwnedError {
    #[error("{call} {}: {source}", path.display())]
    File { call: &'static str, path: PathBuf, source: io::Error },
    /// Kept aside; the pods in it are strangers from now on unless a manifest names them.
    #[error("{} is damaged ({reason}); kept as {}", path.display(), aside.display())]
    Damaged { path: PathBuf, aside: PathBuf, reason: String },
}

/// Whose a cgroup is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The pod's.
    pub uid: String,
    /// The manifest that the pod came from.
    pub origin: String,
}

/// Paths of pod cgroups, with the pod.
#[derive(Debug)]
pub struct Owned {
    path: PathBuf,
    pods: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// By path.
    pods: BTreeMap<String, Entry>,
    /// SHA-256 of paths, uids and origins, in hexadecimal.
    checksum: String,
}

impl Owned {
    /// Reads what an earlier agent left in `dir`; nothing there is no error. A damaged file is moved aside, and what
    /// was wrong with it is returned beside an empty list.
    ///
    /// # Errors
    /// The file is there and cannot be read or moved.
    pub fn open(dir: &Path) -> Result<(Self, Option<OwnedError>), OwnedError> {
        let path = dir.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok((Self { path, pods: BTreeMap::new() }, None));
            }
            Err(e) if e.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(source) => return Err(OwnedError::File { call: "read", path, source }),
        };
        match parse(&text) {
            Ok(pods) => Ok((Self { path, pods }, None)),
            Err(reason) => {
                let aside = path.with_extension("json.damaged");
                fs::rename(&path, &aside).map_err(|source| OwnedError::File {
                    call: "rename",
                    path: path.clone(),
                    source,
                })?;
                let damaged = OwnedError::Damaged { path: path.clone(), aside, reason };
                Ok((Self { path, pods: BTreeMap::new() }, Some(damaged)))
            }
        }
    }

    /// By path.
    pub fn pods(&self) -> &BTreeMap<String, Entry> {
        &self.pods
    }

    /// Notes pods and has them on disk when it returns.
    ///
    /// # Errors
    /// The file cannot be written: the pods must not be made then.
    pub fn add(&mut self, pods: impl IntoIterator<Item = (String, Entry)>) -> Result<(), OwnedError> {
        let before = self.pods.clone();
        self.pods.extend(pods);
        if self.pods == before {
            return Ok(());
        }
        self.save().inspect_err(|_| self.pods = before)
    }

    /// Strikes out pods that are gone.
    ///
    /// # Errors
    /// The file cannot be written: the pods stay in it, which only costs a look for them.
    pub fn remove(&mut self, path: &str) -> Result<(), OwnedError> {
        match self.pods.remove(path) {
            None => Ok(()),
            Some(entry) => self.save().inspect_err(|_| {
                self.pods.insert(path.to_owned(), entry);
            }),
        }
    }

    fn save(&mut self) -> Result<(), OwnedError> {
        let content = Content { version: VERSION, checksum: checksum(&self.pods), pods: self.pods.clone() };
        let temporary = self.path.with_extension("json.new");
        let fail = |call, path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| OwnedError::File { call, path, source }
        };
        let mut file = File::create(&temporary).map_err(fail("create", &temporary))?;
        serde_json::to_writer_pretty(&mut file, &content)
            .map_err(io::Error::from)
            .and_then(|()| file.flush())
            .map_err(fail("write", &temporary))?;
        file.sync_all().map_err(fail("sync", &temporary))?;
        fs::rename(&temporary, &self.path).map_err(fail("rename", &temporary))?;
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        File::open(dir).and_then(|d| d.sync_all()).map_err(fail("sync", dir))
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, Entry>, String> {
    let content: Content = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if content.version != VERSION {
        return Err(format!("version {}, not {VERSION}", content.version));
    }
    if content.checksum != checksum(&content.pods) {
        return Err("the checksum is another".into());
    }
    Ok(content.pods)
}

fn checksum(pods: &BTreeMap<String, Entry>) -> String {
    let mut hash = Sha256::new();
    for (path, entry) in pods {
        for text in [path, &entry.uid, &entry.origin] {
            hash.update(text);
            hash.update([0]);
        }
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str) -> [(String, Entry); 1] {
        [(path.to_owned(), Entry { uid: "u".into(), origin: "/m/a.yaml".into() })]
    }

    #[test]
    fn survives_its_agent() {
        let dir = tempfile::tempdir().unwrap();
        let (mut owned, damaged) = Owned::open(dir.path()).unwrap();
        assert!(damaged.is_none() && owned.pods().is_empty());
        owned.add(one("/kubepods/podu")).unwrap();
        owned.add(one("/kubepods/podv")).unwrap();
        owned.remove("/kubepods/podu").unwrap();
        let (again, damaged) = Owned::open(dir.path()).unwrap();
        assert!(damaged.is_none());
        assert_eq!(again.pods().keys().collect::<Vec<_>>(), ["/kubepods/podv"]);
    }

    /// The agent was killed between writing and renaming.
    #[test]
    fn a_half_written_file_is_never_read() {
        let dir = tempfile::tempdir().unwrap();
        let (mut owned, _) = Owned::open(dir.path()).unwrap();
        owned.add(one("/a")).unwrap();
        fs::write(dir.path().join("hierarchy.json.new"), "{\"ver").unwrap();
        assert_eq!(Owned::open(dir.path()).unwrap().0.pods().len(), 1);
    }

    #[test]
    fn a_damaged_file_is_kept_aside() {
        for damage in [
            &b"{"[..],
            b"\xff\xfe",
            br#"{"version":2,"pods":{},"checksum":""}"#,
            br#"{"version":1,"pods":{"/a":{"uid":"u","origin":"o"}},"checksum":"00"}"#,
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join(FILE), damage).unwrap();
            let (owned, damaged) = Owned::open(dir.path()).unwrap();
            assert!(owned.pods().is_empty());
            let Some(OwnedError::Damaged { aside, .. }) = damaged else { panic!("not seen: {damage:?}") };
            assert_eq!(fs::read(aside).unwrap(), damage);
        }
    }

    #[test]
    fn what_cannot_be_written_down_is_not_owned() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        let (mut owned, _) = Owned::open(&gone).unwrap();
        assert!(owned.add(one("/a")).is_err());
        assert!(owned.pods().is_empty());
    }
}
