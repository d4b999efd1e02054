//! Which sockets are new and which were removed. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// What distinguishes a socket from another one at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketIdentity {
    pub device: u64,
    /// May be reused for another file once this one is removed.
    pub inode: u64,
    /// Creation time; if the file system does not record it, the time of the last inode change.
    pub born: SystemTime,
}

/// The sockets of the last scan.
#[derive(Debug, Default)]
pub struct KnownSockets(BTreeMap<PathBuf, SocketIdentity>);

/// What has changed since the last scan. A socket that was created again is in both lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SocketChanges {
    pub gone: Vec<PathBuf>,
    pub new: Vec<PathBuf>,
}

impl KnownSockets {
    /// Replaces the known sockets with those of a new scan. Returns what has changed.
    pub fn update(&mut self, found: BTreeMap<PathBuf, SocketIdentity>) -> SocketChanges {
        let missing = |from: &BTreeMap<PathBuf, SocketIdentity>, of: &BTreeMap<PathBuf, SocketIdentity>| {
            of.iter().filter(|(path, id)| from.get(*path) != Some(id)).map(|(path, _)| path.clone()).collect()
        };
        let changes = SocketChanges { gone: missing(&found, &self.0), new: missing(&self.0, &found) };
        self.0 = found;
        changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn found(sockets: &[(&str, u64, u64)]) -> BTreeMap<PathBuf, SocketIdentity> {
        let identity = |inode, second| SocketIdentity {
            device: 1,
            inode,
            born: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
        };
        sockets.iter().map(|(path, inode, second)| (path.into(), identity(*inode, *second))).collect()
    }

    #[test]
    fn new_removed_and_recreated_sockets_are_reported() {
        let mut known = KnownSockets::default();
        for (now, gone, new) in [
            (&[("a", 1, 1)][..], &[][..], &["a"][..]),
            (&[("a", 1, 1)], &[], &[]),
            (&[("a", 1, 1), ("b", 2, 2)], &[], &["b"]),
            // The same inode number, created later.
            (&[("a", 1, 3), ("b", 2, 2)], &["a"], &["a"]),
            (&[("a", 2, 3), ("b", 2, 2)], &["a"], &["a"]),
            (&[("b", 2, 2)], &["a"], &[]),
            (&[], &["b"], &[]),
        ] {
            let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
            assert_eq!(
                known.update(found(now)),
                SocketChanges { gone: paths(gone), new: paths(new) },
                "{now:?}"
            );
        }
    }
}
