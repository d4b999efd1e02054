//! What a guest's memory file system holds: collected entry by entry, then written as a cpio archive.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::cpio::{Kind, Writer};
use super::libraries::{self, LibraryError};
use super::strip::Stripper;
use xtask_common::layout::Layout;

/// An archive can't be made.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// A program's libraries can't be found out.
    #[error(transparent)]
    Libraries(#[from] LibraryError),
    /// A file to pack can't be read, or the archive not be written.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    Directory,
    Symlink(String),
    Bytes { data: Vec<u8>, mode: u32 },
    Host { path: PathBuf, mode: u32 },
}

/// Entries by their absolute path in the guest; a later entry of the same path replaces the earlier, and the
/// folders above an entry come by themselves.
///
/// ```text
/// let mut archive = Archive::new(layout);
/// archive.directory("/tmp");
/// archive.program(&layout.program(Profile::Release, "nodewarden"), "/bin/nodewarden")?;
/// archive.file(job.into_bytes(), "/job.json", 0o644);
/// archive.write_to(&folder.join("payload"))?;
/// ```
#[derive(Debug)]
pub struct Archive {
    nodes: BTreeMap<String, Node>,
    stripper: Stripper,
}

impl Archive {
    /// An empty one. Programs without their debug sections are kept in `layout`'s target directory for the
    /// next time.
    pub fn new(layout: &Layout) -> Self {
        Self { nodes: BTreeMap::new(), stripper: Stripper::new(layout) }
    }

    /// Adds a folder.
    pub fn directory(&mut self, guest: &str) {
        self.add(guest, Node::Directory);
    }

    /// Adds a symbolic link to `target`, which need not exist.
    pub fn symlink(&mut self, target: &str, guest: &str) {
        self.add(guest, Node::Symlink(target.to_owned()));
    }

    /// Adds a file with these bytes and permission bits.
    pub fn file(&mut self, data: impl Into<Vec<u8>>, guest: &str, mode: u32) {
        self.add(guest, Node::Bytes { data: data.into(), mode });
    }

    /// Adds this machine's file `host` as it is; it is read when the archive is written.
    pub fn host_file(&mut self, host: &Path, guest: &str, mode: u32) {
        self.add(guest, Node::Host { path: host.to_owned(), mode });
    }

    /// Adds the program `host`, without its debug sections, and every shared library it needs at the path
    /// that it has on this machine.
    ///
    /// # Errors
    /// When it can't be read or a library not be found.
    pub fn program(&mut self, host: &Path, guest: &str) -> Result<(), ArchiveError> {
        self.program_alone(host, guest)?;
        for library in libraries::of(host)? {
            // The link is followed when the library is read: the name asked for is the one that must be
            // there.
            self.host_file(&library, &library.to_string_lossy(), 0o755);
        }
        Ok(())
    }

    /// Adds the program `host`, without its debug sections and without its libraries: it is static, or the
    /// guest's root has them.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn program_alone(&mut self, host: &Path, guest: &str) -> Result<(), ArchiveError> {
        let stripped = self.stripper.strip(host).map_err(|source| file_error("read", host, source))?;
        self.host_file(&stripped, guest, 0o755);
        Ok(())
    }

    /// Writes the whole archive into the file `path`.
    ///
    /// # Errors
    /// When a file to pack can't be read, or `path` not be written.
    pub fn write_to(&self, path: &Path) -> Result<(), ArchiveError> {
        let write = |source| file_error("write", path, source);
        let mut out = BufWriter::new(File::create(path).map_err(write)?);
        self.write(&mut out, path)?;
        out.into_inner().map_err(|error| write(error.into_error()))?;
        Ok(())
    }

    /// Writes the whole archive behind what `out` has; `path` names it in errors.
    ///
    /// # Errors
    /// When a file to pack can't be read, or `out` not be written.
    pub fn write(&self, out: impl io::Write, path: &Path) -> Result<(), ArchiveError> {
        let write = |source| file_error("write", path, source);
        let mut writer = Writer::new(out);
        for (name, node) in &self.nodes {
            let (kind, mode, data) = match node {
                Node::Directory => (Kind::Directory, 0o755, &[][..]),
                Node::Symlink(target) => (Kind::Symlink, 0o777, target.as_bytes()),
                Node::Bytes { data, mode } => (Kind::File, *mode, data.as_slice()),
                Node::Host { path: host, mode } => {
                    let read = |source| file_error("read", host, source);
                    let file = File::open(host).map_err(read)?;
                    let size = file.metadata().map_err(read)?.len();
                    writer.entry(Kind::File, name, *mode, size, file).map_err(write)?;
                    continue;
                }
            };
            writer.entry(kind, name, mode, data.len() as u64, data).map_err(write)?;
        }
        writer.finish().map_err(write)?;
        Ok(())
    }

    fn add(&mut self, guest: &str, node: Node) {
        let name = guest.trim_matches('/');
        for (at, _) in name.match_indices('/') {
            self.nodes.entry(name[..at].to_owned()).or_insert(Node::Directory);
        }
        if !name.is_empty() {
            self.nodes.insert(name.to_owned(), node);
        }
    }
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> ArchiveError {
    ArchiveError::File { action, path: path.to_owned(), source }
}

/// Writes `parts` one after the other into `path`: an initramfs is its base followed by a payload.
///
/// # Errors
/// When a part can't be read or `path` not be written.
pub fn concatenate(parts: &[&Path], path: &Path) -> Result<(), ArchiveError> {
    let mut out = File::create(path).map_err(|source| file_error("write", path, source))?;
    for part in parts {
        let mut file = File::open(part).map_err(|source| file_error("read", part, source))?;
        io::copy(&mut file, &mut out).map_err(|source| file_error("write", path, source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn archive(target: &Path) -> Archive {
        Archive::new(&Layout { root: target.into(), target: target.into() })
    }

    /// The names and modes in a cpio archive, read back by their headers.
    fn entries(mut bytes: &[u8]) -> Vec<(String, u32)> {
        let mut entries = Vec::new();
        loop {
            let field = |index: usize| {
                let text = std::str::from_utf8(&bytes[6 + 8 * index..14 + 8 * index]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name = String::from_utf8(bytes[110..110 + name_size - 1].to_vec()).unwrap();
            if name == "TRAILER!!!" {
                return entries;
            }
            entries.push((name, mode));
            bytes = &bytes[(110 + name_size).next_multiple_of(4) + size.next_multiple_of(4)..];
        }
    }

    #[test]
    fn folders_come_before_what_they_hold() {
        let temp = tempfile::tempdir().unwrap();
        let mut archive = archive(temp.path());
        archive.file("x", "/a-b", 0o600);
        archive.file("deep", "/a/b/c", 0o755);
        archive.symlink("b", "/a/link");
        archive.directory("/tmp/");
        archive.file("newer", "/a-b", 0o644);
        archive.directory("/");
        let path = temp.path().join("archive");
        archive.write_to(&path).unwrap();
        let expected = [
            ("a", 0o040_755),
            ("a-b", 0o100_644),
            ("a/b", 0o040_755),
            ("a/b/c", 0o100_755),
            ("a/link", 0o120_777),
            ("tmp", 0o040_755),
        ];
        let expected = expected.map(|(name, mode)| (name.to_owned(), mode));
        assert_eq!(entries(&fs::read(&path).unwrap()), expected);
    }

    #[test]
    fn a_program_brings_its_loader_and_libraries() {
        let temp = tempfile::tempdir().unwrap();
        let mut archive = archive(temp.path());
        archive.program(Path::new("/bin/sh"), "/bin/sh").unwrap();
        let path = temp.path().join("archive");
        archive.write_to(&path).unwrap();
        let names = entries(&fs::read(&path).unwrap()).into_iter().map(|(name, _)| name);
        let names = names.collect::<Vec<_>>();
        for wanted in ["bin/sh", "libc.so.6", "ld-linux"] {
            assert!(names.iter().any(|name| name.contains(wanted)), "{wanted} in {names:?}");
        }
    }

    #[test]
    fn a_file_that_is_gone_is_named() {
        let temp = tempfile::tempdir().unwrap();
        let mut archive = archive(temp.path());
        archive.host_file(Path::new("/no/such/file"), "/x", 0o644);
        let error = archive.write_to(&temp.path().join("archive")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read /no/such/file");
    }

    #[test]
    fn archives_are_put_one_behind_the_other() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        fs::write(at("a"), "1").unwrap();
        fs::write(at("b"), "2").unwrap();
        concatenate(&[&at("a"), &at("b")], &at("both")).unwrap();
        assert_eq!(fs::read(at("both")).unwrap(), b"12");
    }
}
