//! Which pod cgroups are ours: written down before a cgroup is made and struck out after it is gone, so that an agent
//! killed at any moment finds its own again and takes nobody else's for its own.
//!
//! `hierarchy.json` in the state directory holds the paths and a checksum of them. It is replaced whole: temporary file
//! and rename. It is not synced to the disk on the way: cgroups live as long as the kernel that has them, and so does
//! what the kernel has not yet written of a file. Only when the machine goes down could the file be lost, and then every
//! cgroup in it is gone too. [`Owned::sync`] does it when there is time, so that no half of a file is found afterwards
//! and told as damage.

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
    /// Struck out and not yet written.
    stale: bool,
    /// Written and perhaps not yet on the disk.
    unsynced: bool,
}

/// As it is written.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    /// By path.
    pods: &'a BTreeMap<String, Entry>,
    /// SHA-256 of paths, uids and origins, in hexadecimal.
    checksum: String,
}

/// As it is read.
#[derive(Deserialize)]
struct Content {
    version: u32,
    pods: BTreeMap<String, Entry>,
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
        let of = |pods, path| Self { path, pods, stale: false, unsynced: false };
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((of(BTreeMap::new(), path), None)),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(source) => return Err(OwnedError::File { call: "read", path, source }),
        };
        match parse(&text) {
            Ok(pods) => Ok((of(pods, path), None)),
            Err(reason) => {
                let aside = path.with_extension("json.damaged");
                fs::rename(&path, &aside).map_err(|source| OwnedError::File {
                    call: "rename",
                    path: path.clone(),
                    source,
                })?;
                let damaged = OwnedError::Damaged { path: path.clone(), aside, reason };
                Ok((of(BTreeMap::new(), path), Some(damaged)))
            }
        }
    }

    /// By path.
    pub fn pods(&self) -> &BTreeMap<String, Entry> {
        &self.pods
    }

    /// Notes pods; an agent that dies afterwards leaves the note.
    ///
    /// # Errors
    /// The file cannot be written: the pods must not be made then.
    pub fn add(&mut self, pods: impl IntoIterator<Item = (String, Entry)>) -> Result<(), OwnedError> {
        let news = pods.into_iter().filter(|(path, entry)| self.pods.get(path) != Some(entry));
        let news: Vec<_> = news.collect();
        if news.is_empty() {
            return Ok(());
        }
        let before: Vec<_> =
            news.into_iter().map(|(path, entry)| (path.clone(), self.pods.insert(path, entry))).collect();
        self.save().inspect_err(|_| {
            for (path, entry) in before {
                match entry {
                    Some(entry) => self.pods.insert(path, entry),
                    None => self.pods.remove(&path),
                };
            }
        })
    }

    /// Strikes out a pod that is gone, with the next write: an entry too many only costs a look for it.
    pub fn remove(&mut self, path: &str) {
        self.stale |= self.pods.remove(path).is_some();
    }

    /// Writes what was struck out.
    ///
    /// # Errors
    /// The file cannot be written; it is tried again with the next call.
    pub fn flush(&mut self) -> Result<(), OwnedError> {
        if self.stale { self.save() } else { Ok(()) }
    }

    /// Has on the disk what is written.
    ///
    /// # Errors
    /// As of open(2) and fsync(2).
    pub fn sync(&mut self) -> Result<(), OwnedError> {
        if !self.unsynced {
            return Ok(());
        }
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        for path in [&self.path, dir] {
            File::open(path).and_then(|file| file.sync_all()).map_err(fail("sync", path))?;
        }
        self.unsynced = false;
        Ok(())
    }

    fn save(&mut self) -> Result<(), OwnedError> {
        let content = Written { version: VERSION, checksum: checksum(&self.pods), pods: &self.pods };
        let temporary = self.path.with_extension("json.new");
        let text =
            serde_json::to_vec(&content).map_err(io::Error::from).map_err(fail("write", &temporary))?;
        let mut file = File::create(&temporary).map_err(fail("create", &temporary))?;
        file.write_all(&text).map_err(fail("write", &temporary))?;
        fs::rename(&temporary, &self.path).map_err(fail("rename", &temporary))?;
        self.stale = false;
        self.unsynced = true;
        Ok(())
    }
}

fn fail(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OwnedError {
    let path = path.to_owned();
    move |source| OwnedError::File { call, path, source }
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
        owned.remove("/kubepods/podu");
        assert_eq!(Owned::open(dir.path()).unwrap().0.pods().len(), 2);
        owned.flush().unwrap();
        owned.sync().unwrap();
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
        fs::create_dir(&gone).unwrap();
        owned.add(one("/a")).unwrap();
        fs::remove_dir_all(&gone).unwrap();
        let other = [("/a".to_owned(), Entry { uid: "v".into(), origin: "o".into() })];
        assert!(owned.add(other).is_err());
        assert_eq!(owned.pods()["/a"].uid, "u");
        owned.remove("/a");
        assert!(owned.flush().is_err());
        fs::create_dir(&gone).unwrap();
        owned.flush().unwrap();
        assert!(Owned::open(&gone).unwrap().0.pods().is_empty());
    }
}
