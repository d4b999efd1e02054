//! Archives whose bytes depend on nothing but their content: fixed order, owner and time, no name of a
//! machine.

use std::io::{self, Write};

use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use crate::DistError;
use crate::tree::{Content, Entry, Tree};

/// How much is gained for how much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// For what is shipped.
    Best,
    /// For tests.
    Quick,
}

impl Effort {
    fn level(self) -> Compression {
        match self {
            Self::Best => Compression::best(),
            Self::Quick => Compression::fast(),
        }
    }
}

/// A tar archive of `tree`, whose paths get `prefix` in front.
///
/// # Errors
/// When a path does not fit the format.
pub fn tar(tree: &Tree, prefix: &str, time: u64) -> Result<Vec<u8>, DistError> {
    write_tar(tree, prefix, time).map_err(DistError::writing("a tar archive"))
}

fn write_tar(tree: &Tree, prefix: &str, time: u64) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in tree.entries() {
        let mut header = Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_username("root")?;
        header.set_groupname("root")?;
        append(&mut builder, &mut header, &format!("{prefix}{path}"), entry)?;
    }
    builder.into_inner()
}

fn append(builder: &mut Builder<Vec<u8>>, header: &mut Header, path: &str, entry: &Entry) -> io::Result<()> {
    match &entry.content {
        Content::Folder => {
            header.set_entry_type(EntryType::Directory);
            header.set_size(0);
            builder.append_data(header, format!("{path}/"), io::empty())
        }
        Content::File(data) => {
            header.set_entry_type(EntryType::Regular);
            header.set_size(data.len() as u64);
            builder.append_data(header, path, data.as_slice())
        }
        Content::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            header.set_size(0);
            builder.append_link(header, path, target)
        }
    }
}

/// Compresses with gzip, without a name or a time in its header.
///
/// # Errors
/// Never in memory, but the writer's type allows it.
pub fn gzip(data: &[u8], effort: Effort) -> Result<Vec<u8>, DistError> {
    let mut encoder = GzBuilder::new().mtime(0).operating_system(255).write(Vec::new(), effort.level());
    let done = encoder.write_all(data).and_then(|()| encoder.finish());
    done.map_err(DistError::writing("compressed data"))
}

/// The SHA-256 digest in hexadecimal.
pub fn sha256(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.program("usr/bin/x", "program");
        tree.link("usr/bin/y", "x");
        tree.file(&format!("usr/{}", "long/".repeat(30) + "name"), "text");
        tree
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        let packed = gzip(&tar(&tree(), "x-1/", 5).unwrap(), Effort::Best).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            assert_eq!((entry.header().uid().unwrap(), entry.header().mtime().unwrap()), (0, 5));
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            seen.push((entry.path().unwrap().display().to_string(), entry.header().mode().unwrap(), text));
        }
        assert!(seen.contains(&("x-1/usr/bin/x".to_owned(), 0o755, "program".to_owned())), "{seen:?}");
        assert!(seen.iter().any(|(path, _, text)| path.ends_with("long/name") && text == "text"), "{seen:?}");
    }

    #[test]
    fn the_same_content_has_the_same_bytes() {
        let pack = || gzip(&tar(&tree(), "", 7).unwrap(), Effort::Quick).unwrap();
        assert_eq!(pack(), pack());
        assert_ne!(pack(), gzip(&tar(&tree(), "", 8).unwrap(), Effort::Quick).unwrap());
    }

    #[test]
    fn digests_are_hexadecimal() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
