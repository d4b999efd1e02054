//! Which sockets are new and which are gone. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// What tells a socket from another one at the same path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    /// Given to another file as soon as this one is gone.
    pub inode: u64,
    /// When it was made; where the file system does not know, when its inode was changed.
    pub born: SystemTime,
}

/// The sockets that were there at the last look.
#[derive(Debug, Default)]
pub struct Seen(BTreeMap<PathBuf, Identity>);

/// What is otherwise than at the last look. A socket that was made anew is in both.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub gone: Vec<PathBuf>,
    pub new: Vec<PathBuf>,
}

impl Seen {
    /// Takes what is there now.
    pub fn update(&mut self, found: BTreeMap<PathBuf, Identity>) -> Difference {
        let missing = |from: &BTreeMap<PathBuf, Identity>, of: &BTreeMap<PathBuf, Identity>| {
            of.iter().filter(|(path, id)| from.get(*path) != Some(id)).map(|(path, _)| path.clone()).collect()
        };
        let difference = Difference { gone: missing(&found, &self.0), new: missing(&self.0, &found) };
        self.0 = found;
        difference
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn found(sockets: &[(&str, u64, u64)]) -> BTreeMap<PathBuf, Identity> {
        let identity = |inode, second| Identity {
            device: 1,
            inode,
            born: SystemTime::UNIX_EPOCH + Duration::from_secs(second),
        };
        sockets.iter().map(|(path, inode, second)| (path.into(), identity(*inode, *second))).collect()
    }

    #[test]
    fn new_gone_and_made_anew() {
        let mut seen = Seen::default();
        for (now, gone, new) in [
            (&[("a", 1, 1)][..], &[][..], &["a"][..]),
            (&[("a", 1, 1)], &[], &[]),
            (&[("a", 1, 1), ("b", 2, 2)], &[], &["b"]),
            // The same inode, born later.
            (&[("a", 1, 3), ("b", 2, 2)], &["a"], &["a"]),
            (&[("a", 2, 3), ("b", 2, 2)], &["a"], &["a"]),
            (&[("b", 2, 2)], &["a"], &[]),
            (&[], &["b"], &[]),
        ] {
            let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect();
            assert_eq!(seen.update(found(now)), Difference { gone: paths(gone), new: paths(new) }, "{now:?}");
        }
    }
}
