//! A file that is read repeatedly through one descriptor.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nodewarden_machine::cgroup::pread_all;

/// Opened at the first read, and again after the file was removed and re-created.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    file: Option<File>,
}

impl OpenFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next read opens it again.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Whether a descriptor is kept.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    /// The whole content; `None` if the file does not exist. If the cgroup of the descriptor was removed, the
    /// file that now has this path is opened.
    ///
    /// # Errors
    /// Those of open(2) and pread(2).
    pub fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> io::Result<Option<&'b [u8]>> {
        let length = match self.length(buffer) {
            Err(error) if self.file.take().is_some() && is_gone(&error) => self.length(buffer),
            length => length,
        };
        match length {
            Ok(length) => Ok(buffer.get(..length)),
            Err(error) => {
                self.file = None;
                if is_gone(&error) { Ok(None) } else { Err(error) }
            }
        }
    }

    fn length(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        let length = pread_all(self.file.insert(file), buffer)?.len();
        Ok(length)
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_created_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let (mut kept, mut buffer) = (OpenFile::new(path.clone()), Vec::new());
        assert_eq!(kept.read(&mut buffer).unwrap(), None);
        std::fs::write(&path, "one").unwrap();
        assert_eq!(kept.read(&mut buffer).unwrap(), Some(&b"one"[..]));
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(kept.read(&mut buffer).unwrap().map(<[u8]>::len), Some(10_000));
        std::fs::write(&path, "2").unwrap();
        assert_eq!(kept.read(&mut buffer).unwrap(), Some(&b"2"[..]));
        assert!(OpenFile::new(dir.path().to_owned()).read(&mut buffer).is_err(), "a directory");
    }

    #[test]
    fn a_file_of_a_recreated_cgroup_is_reopened() {
        use nodewarden_machine::cgroup::fixture::TestTree;
        use nodewarden_machine::cgroup::{Controller, join};
        let Some(tree) = TestTree::make("kept") else { return };
        let path = tree.group("pods");
        let mount = &tree.layout.hierarchy(Controller::Memory).unwrap().mount;
        let (mut kept, mut buffer) = (OpenFile::new(join(mount, &path).join("cgroup.procs")), Vec::new());
        assert_eq!(kept.read(&mut buffer).unwrap(), Some(&b""[..]));
        tree.remove("pods");
        assert_eq!(kept.read(&mut buffer).unwrap(), None);
        assert!(kept.file.is_none(), "nothing is held of what was removed");
        tree.group("pods");
        assert_eq!(kept.read(&mut buffer).unwrap(), Some(&b""[..]));
    }
}
