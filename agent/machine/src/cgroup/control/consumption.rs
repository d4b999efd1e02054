//! What a cgroup uses right now: few files, for decisions that need a fresh reading.

use std::io;
use std::path::Path;

use super::GroupFiles;
use super::group_files::read_file;
use crate::cgroup::{CgroupError, Controller, Version, parse};

/// Usage of one cgroup with everything below it. `None` where the controller is missing or the cgroup does
/// not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumption {
    /// Bytes: `memory.current`, v1 `memory.usage_in_bytes`.
    pub memory_bytes: Option<u64>,
    /// Nanoseconds since the cgroup was created: `usage_usec` of `cpu.stat`, v1 `cpuacct.usage`.
    pub cpu_ns: Option<u64>,
    /// Threads: `pids.current`.
    pub pids: Option<u64>,
}

impl Consumption {
    /// Reads the usage of a cgroup.
    ///
    /// # Errors
    /// A file exists and cannot be read.
    pub fn read(files: &GroupFiles, path: &str) -> Result<Self, CgroupError> {
        let version = |controller| files.layout().hierarchy(controller).map(|h| h.version);
        let text = |controller, file: &str| match files.directory(controller, path) {
            Some(dir) => read_file(&dir.join(file)),
            None => Ok(None),
        };
        let number = |controller, file: &str| {
            text(controller, file).map(|text| text.and_then(|text| parse::number(text.as_bytes())))
        };
        let cpu_ns = if version(Controller::CpuAcct) == Some(Version::V1) {
            number(Controller::CpuAcct, "cpuacct.usage")?
        } else {
            text(Controller::CpuAcct, "cpu.stat")?.and_then(|text| {
                let usage = parse::pairs(text.as_bytes()).find(|(key, _)| *key == b"usage_usec");
                usage.map(|(_, us)| us * 1000)
            })
        };
        Ok(Self {
            memory_bytes: number(Controller::Memory, memory_file(files))?,
            cpu_ns,
            pids: number(Controller::Pids, "pids.current")?,
        })
    }
    /// Reads the bytes of memory in use. `None` only if nothing is: the cgroup does not exist, or its memory
    /// is not counted.
    ///
    /// # Errors
    /// The file exists and cannot be read, or has no number.
    pub fn read_memory(files: &GroupFiles, path: &str) -> Result<Option<u64>, CgroupError> {
        match files.directory(Controller::Memory, path) {
            Some(dir) => count(&dir.join(memory_file(files))),
            None => Ok(None),
        }
    }
}

fn memory_file(files: &GroupFiles) -> &'static str {
    match files.layout().hierarchy(Controller::Memory).map(|hierarchy| hierarchy.version) {
        Some(Version::V1) => "memory.usage_in_bytes",
        _ => "memory.current",
    }
}

/// The number in a file; `None` if that does not exist.
fn count(file: &Path) -> Result<Option<u64>, CgroupError> {
    let Some(text) = read_file(file)? else { return Ok(None) };
    let unknown = || CgroupError::file("read", file, io::Error::other("no number"));
    parse::number(text.as_bytes()).map(Some).ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_never_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("memory.current");
        assert!(matches!(count(&file), Ok(None)), "no cgroup");
        std::fs::write(&file, "4096\n").unwrap();
        assert!(matches!(count(&file), Ok(Some(4096))));
        std::fs::write(&file, "").unwrap();
        let error = count(&file).unwrap_err().to_string();
        assert!(error.contains("memory.current") && error.contains("no number"), "{error}");
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(count(&file).is_err(), "reading fails");
    }
}
