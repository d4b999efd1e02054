//! The directories and files of cgroups on this machine: where [`Interface`]'s pure writes and reads happen.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Absent, Interface, NoValue, Write};
use super::{CgroupName, Limits};
use crate::cgroup::group_path::join;
use crate::cgroup::{CgroupError, Controller, Hierarchy, Layout};

/// Every hierarchy of this machine, to read and write cgroups by their path below the mounts.
#[derive(Debug, Clone)]
pub struct GroupFiles {
    layout: Arc<Layout>,
    interface: Interface,
}

impl GroupFiles {
    /// The files of cgroups on this machine, which has this layout.
    pub fn new(layout: Arc<Layout>) -> Self {
        let interface = Interface::of(&layout);
        Self { layout, interface }
    }

    /// With another interface than this machine's: for tests.
    #[cfg(test)]
    pub fn with(layout: Arc<Layout>, interface: Interface) -> Self {
        Self { layout, interface }
    }

    /// The machine's layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Which files there are and in which units they count.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The directory of a cgroup in each hierarchy that must have it, whether it is there or not.
    pub fn directories(&self, path: &str) -> impl Iterator<Item = (&Hierarchy, PathBuf)> {
        self.layout.all().map(move |h| (h, join(&h.mount, path)))
    }

    /// The directory that has a controller's files; `None` if this machine lacks the controller.
    pub fn directory(&self, controller: Controller, path: &str) -> Option<PathBuf> {
        Some(join(&self.layout.hierarchy(controller)?.mount, path))
    }

    /// Writes the limits that `limits` contains. Every file is tried, also after an error.
    ///
    /// # Errors
    /// The first write that failed, or a missing file whose limit cannot be done without.
    pub fn write(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        let before = self.read_some(path, &self.interface.order_depends_on(limits))?;
        let mut result = Ok(());
        for write in self.interface.writes(limits, &before) {
            result = result.and(self.write_one(path, &write));
        }
        result
    }

    fn write_one(&self, path: &str, write: &Write) -> Result<(), CgroupError> {
        let Some(dir) = self.directory(write.controller, path) else { return Ok(()) };
        match write_file(&dir.join(&write.file), &write.text) {
            Err(error)
                if error.errno() == Some(libc::ENOENT) && write.absent == Absent::Fine && dir.exists() =>
            {
                Ok(())
            }
            result => result,
        }
    }

    /// What the files say now; `None` where there is no such file, also where the whole cgroup is not there.
    ///
    /// # Errors
    /// A file that is there cannot be read, or says what it never should.
    pub fn read(&self, path: &str) -> Result<Limits, CgroupError> {
        self.interface
            .read(|controller, file| self.read_one(path, controller, file))
            .map_err(|e| self.located(path, e))
    }

    /// As [`Self::read`], of these files only.
    fn read_some(&self, path: &str, files: &[(Controller, &str)]) -> Result<Limits, CgroupError> {
        if files.is_empty() {
            return Ok(Limits::default());
        }
        self.interface
            .read(|controller, file| match files.contains(&(controller, file)) {
                true => self.read_one(path, controller, file),
                false => Ok(None),
            })
            .map_err(|e| self.located(path, e))
    }

    fn read_one(&self, path: &str, controller: Controller, file: &str) -> Result<Option<String>, ReadError> {
        match self.directory(controller, path) {
            Some(dir) => Ok(read_file(&dir.join(file))?),
            None => Ok(None),
        }
    }

    fn located(&self, path: &str, error: ReadError) -> CgroupError {
        match error {
            ReadError::Cgroup(error) => error,
            ReadError::NoValue(NoValue { controller, file, text }) => CgroupError::Value {
                path: self.directory(controller, path).unwrap_or_default().join(file),
                text,
            },
        }
    }
}

/// Either of what can go wrong while reading limits.
enum ReadError {
    Cgroup(CgroupError),
    NoValue(NoValue),
}

impl From<CgroupError> for ReadError {
    fn from(error: CgroupError) -> Self {
        Self::Cgroup(error)
    }
}

impl From<NoValue> for ReadError {
    fn from(error: NoValue) -> Self {
        Self::NoValue(error)
    }
}

/// Refuses the root, and a path that is none or leads elsewhere.
///
/// # Errors
/// [`CgroupError::Root`], [`CgroupError::Name`].
pub fn check_path(path: &str) -> Result<(), CgroupError> {
    match CgroupName::from_cgroupfs_path(path)?.is_root() {
        true => Err(CgroupError::Root),
        false => Ok(()),
    }
}

/// The text of a cgroup's file; `None` if it or its cgroup is not there.
///
/// # Errors
/// As of open(2) and read(2).
pub fn read_file(path: &Path) -> Result<Option<String>, CgroupError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(CgroupError::file("read", path, source)),
    }
}

/// Writes a cgroup's file in one write(2), as the kernel wants it. Never makes a file.
///
/// # Errors
/// As of open(2) and write(2).
pub fn write_file(path: &Path, text: &str) -> Result<(), CgroupError> {
    let write = |mut file: File| file.write_all(text.as_bytes());
    OpenOptions::new().write(true).open(path).and_then(write).map_err(|source| CgroupError::Write {
        path: path.to_owned(),
        text: text.trim_end().to_owned(),
        source,
    })
}

/// Removes a cgroup's directory. Not there is no error.
///
/// # Errors
/// As of rmdir(2): EBUSY while there are processes or children in it.
pub fn remove_directory(path: &Path) -> Result<(), CgroupError> {
    match fs::remove_dir(path) {
        Err(source) if !is_gone(&source) => Err(CgroupError::file("rmdir", path, source)),
        _ => Ok(()),
    }
}

/// The file or the whole cgroup is not there (any more).
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENOTDIR))
}
