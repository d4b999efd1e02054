//! The pod cgroups that this agent has created: recorded on disk before a cgroup is created and deleted after
//! it is gone, so that an agent that was killed at any moment recognizes its own cgroups and no others.
//!
//! `hierarchy.json` in the state directory is a [`state_file`] with the paths. It is not synced with every
//! write: unsynced content is lost only when the machine goes down, and then all cgroups are gone too.
//! [`Owned::sync`] syncs it when there is time, so that no half-written file is found after a crash and
//! reported as damaged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use nodewarden_model::Origin;
use nodewarden_storage::state_file::{self, Format, StateFileError};

const FILE: &str = "hierarchy.json";
const FORMAT: Format = Format::new("pods", 1).unsynced().with_checksum(checksum);

/// The pod that a cgroup belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The pod's uid.
    pub uid: Arc<str>,
    /// Where the pod came from.
    pub origin: Origin,
}

/// The file, and the pods of cgroups by the cgroup's path.
#[derive(Debug)]
pub struct Owned {
    path: PathBuf,
    pods: BTreeMap<Arc<str>, Entry>,
    /// Whether a removed pod is still in the file.
    stale: bool,
    /// Whether it was written and perhaps not yet synced.
    unsynced: bool,
}

impl Owned {
    /// Reads the file that an earlier agent left in `dir`; a missing file is no error. A damaged file is
    /// renamed, and the damage is returned with an empty list: its pods then count as those of others unless
    /// a manifest names them.
    ///
    /// # Errors
    /// The file exists and cannot be read or renamed.
    pub fn open(dir: &Path) -> Result<(Self, Option<StateFileError>), StateFileError> {
        let path = dir.join(FILE);
        let (pods, damage) = match FORMAT.read(&path, |_| Ok(())) {
            Ok(read) => (read.map(|(pods, _)| pods).unwrap_or_default(), None),
            Err(damage @ StateFileError::Damaged { .. }) => (BTreeMap::new(), Some(damage)),
            Err(error) => return Err(error),
        };
        Ok((Self { path, pods, stale: false, unsynced: false }, damage))
    }

    /// The pods, by the path of their cgroup.
    pub fn pods(&self) -> &BTreeMap<Arc<str>, Entry> {
        &self.pods
    }

    /// This path, in the allocation that the record has if the cgroup is in it: other collections hold the
    /// same paths.
    pub fn path(&self, path: &str) -> Arc<str> {
        self.pods.get_key_value(path).map_or_else(|| path.into(), |(own, _)| own.clone())
    }

    /// Adds pods and writes the file at once, so that the next agent knows them if this one is killed.
    ///
    /// # Errors
    /// The file cannot be written: the pods' cgroups must not be created then.
    pub fn add(&mut self, pods: impl IntoIterator<Item = (Arc<str>, Entry)>) -> Result<(), StateFileError> {
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

    /// Removes a pod that is gone; the file follows with the next write. A superfluous entry only costs a
    /// search for its cgroup.
    pub fn remove(&mut self, path: &str) {
        self.stale |= self.pods.remove(path).is_some();
    }

    /// Writes the file if a pod was removed since the last write.
    ///
    /// # Errors
    /// The file cannot be written; the next call tries again.
    pub fn flush(&mut self) -> Result<(), StateFileError> {
        if self.stale { self.save() } else { Ok(()) }
    }

    /// Waits until the written file is on the disk.
    ///
    /// # Errors
    /// As of open(2) and fsync(2).
    pub fn sync(&mut self) -> Result<(), StateFileError> {
        if !self.unsynced {
            return Ok(());
        }
        state_file::sync(&self.path)?;
        state_file::sync(self.path.parent().unwrap_or(Path::new("/")))?;
        self.unsynced = false;
        Ok(())
    }

    fn save(&mut self) -> Result<(), StateFileError> {
        let pods = self.pods.iter();
        FORMAT.write_fed(&self.path, &self.pods, |hash| {
            pods.for_each(|(path, entry)| feed(hash, [path, &entry.uid, &entry.origin.to_string()]));
        })?;
        self.stale = false;
        self.unsynced = true;
        Ok(())
    }
}

/// Of the content as it is read. A missing text counts as empty: such content does not parse.
fn checksum(pods: &Value, hash: &mut Sha256) {
    for (path, entry) in pods.as_object().into_iter().flatten() {
        let text = |field| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        feed(hash, [path.as_str(), text("uid"), text("origin")]);
    }
}

/// Path, uid and origin, each with a zero byte after it.
fn feed(hash: &mut Sha256, texts: [&str; 3]) {
    for text in texts {
        hash.update(text);
        hash.update([0]);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn one(path: &str) -> [(Arc<str>, Entry); 1] {
        [(path.into(), Entry { uid: "u".into(), origin: "/m/a.yaml".into() })]
    }

    #[test]
    fn the_next_agent_reads_the_same_pods() {
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
        assert_eq!(again.pods().keys().map(|path| &**path).collect::<Vec<_>>(), ["/kubepods/podv"]);
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
    fn a_damaged_file_is_set_aside() {
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
            let Some(StateFileError::Damaged { aside, .. }) = damaged else { panic!("not seen: {damage:?}") };
            assert_eq!(fs::read(aside).unwrap(), damage);
        }
    }

    #[test]
    fn a_pod_that_cannot_be_written_is_not_owned() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        let (mut owned, _) = Owned::open(&gone).unwrap();
        assert!(owned.add(one("/a")).is_err());
        assert!(owned.pods().is_empty());
        fs::create_dir(&gone).unwrap();
        owned.add(one("/a")).unwrap();
        fs::remove_dir_all(&gone).unwrap();
        let other = [("/a".into(), Entry { uid: "v".into(), origin: "o".into() })];
        assert!(owned.add(other).is_err());
        assert_eq!(&*owned.pods()["/a"].uid, "u");
        owned.remove("/a");
        assert!(owned.flush().is_err());
        fs::create_dir(&gone).unwrap();
        owned.flush().unwrap();
        assert!(Owned::open(&gone).unwrap().0.pods().is_empty());
    }

    /// Byte by byte what earlier versions of the agent wrote, before state files were one type.
    #[test]
    fn the_file_is_the_same_as_that_of_earlier_versions() {
        let text = concat!(
            r#"{"version":1,"pods":{"/kubepods/burstable/podu-1":{"uid":"u-1","origin":"/m/a.yaml"},"#,
            r#""/kubepods/podü \"q\"":{"uid":"ü","origin":"/m/b.yaml"}},"#,
            r#""checksum":"7cd1a27b72d6629e91a1c79841a7fbea8786c5dbc58a7eb857c01937ae82db8d"}"#
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        fs::write(&path, text).unwrap();
        let (mut owned, damage) = Owned::open(dir.path()).unwrap();
        assert!(damage.is_none(), "{damage:?}");
        assert_eq!(
            owned.pods()["/kubepods/burstable/podu-1"],
            Entry { uid: "u-1".into(), origin: "/m/a.yaml".into() }
        );
        owned.stale = true;
        owned.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}
