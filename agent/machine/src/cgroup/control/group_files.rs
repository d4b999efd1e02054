//! The directories and files of cgroups on this machine: performs the reads and writes that [`Interface`]
//! determines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Absent, Interface, NoValue, Write};
use super::{CgroupName, Limits};
use crate::cgroup::group_path::join;
use crate::cgroup::{CgroupError, Controller, Hierarchy, Layout, limit_changes, pread_all};

/// Reads and writes the files of cgroups by their path below the mounts, in every hierarchy of this machine.
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

    /// The limit files that exist and their units.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The directory of a cgroup in each hierarchy that must have it, whether it exists or not.
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
    /// The first write that failed, or a missing file whose limit is required.
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

    /// The limits that the files contain now; `None` where there is no such file, also if the whole cgroup
    /// does not exist.
    ///
    /// # Errors
    /// A file exists and cannot be read, or has content that the kernel does not write there.
    pub fn read(&self, path: &str) -> Result<Limits, CgroupError> {
        self.interface
            .read(|controller, file| self.read_one(path, controller, file))
            .map_err(|e| self.located(path, e))
    }

    /// As [`Self::read`], but only what can be compared with `wanted`: without a limit in it, no file of CPU
    /// sets, processes, huge pages, `cpu.idle` and v1's memory with swap is read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_for(&self, path: &str, wanted: &Limits) -> Result<Limits, CgroupError> {
        let is_wanted = |controller, file: &str| match (controller, file) {
            (Controller::Cpuset, _) => wanted.cpuset_cpus.is_some(),
            (Controller::Pids, _) => wanted.pids_max.is_some(),
            (Controller::Hugetlb, _) => !wanted.hugetlb.is_empty(),
            (_, "cpu.idle") => wanted.cpu_idle.is_some(),
            (_, "memory.memsw.limit_in_bytes") => wanted.memsw_max.is_some(),
            _ => true,
        };
        self.interface
            .read(|controller, file| match is_wanted(controller, file) {
                true => self.read_one(path, controller, file),
                false => Ok(None),
            })
            .map_err(|e| self.located(path, e))
    }

    /// As [`Self::read`], but only these files.
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

/// The errors of reading limits.
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

/// Refuses the root, and a text that is not the path of a cgroup below the mounts.
///
/// # Errors
/// [`CgroupError::Root`], [`CgroupError::Name`].
pub fn check_path(path: &str) -> Result<(), CgroupError> {
    match CgroupName::from_cgroupfs_path(path)?.is_root() {
        true => Err(CgroupError::Root),
        false => Ok(()),
    }
}

/// The text of a cgroup's file; `None` if it or its cgroup does not exist.
///
/// # Errors
/// As of open(2) and read(2).
pub fn read_file(path: &Path) -> Result<Option<String>, CgroupError> {
    // Not by `fs::read_to_string`, which makes two system calls more: for the size, which these files do not
    // have, and for the end.
    let read = |file: File| {
        let mut buffer = Vec::new();
        let length = pread_all(&file, &mut buffer)?.len();
        buffer.truncate(length);
        String::from_utf8(buffer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    };
    match File::open(path).and_then(read) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(CgroupError::file("read", path, source)),
    }
}

/// Writes a cgroup's file in one write(2), as the kernel requires. Never creates a file.
///
/// # Errors
/// As of open(2) and write(2).
pub fn write_file(path: &Path, text: &str) -> Result<(), CgroupError> {
    let write = |mut file: File| file.write_all(text.as_bytes());
    let written = OpenOptions::new().write(true).open(path).and_then(write);
    limit_changes::record();
    written.map_err(|source| CgroupError::Write {
        path: path.to_owned(),
        text: text.trim_end().to_owned(),
        source,
    })
}

/// Removes a cgroup's directory. It is no error if there is none.
///
/// # Errors
/// As of rmdir(2): EBUSY while there are processes or children in it.
pub fn remove_directory(path: &Path) -> Result<(), CgroupError> {
    match fs::remove_dir(path) {
        Err(source) if !is_gone(&source) => Err(CgroupError::file("rmdir", path, source)),
        _ => Ok(()),
    }
}

/// Whether the error means that the file or the whole cgroup does not exist (any more).
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV | libc::ENOTDIR))
}
