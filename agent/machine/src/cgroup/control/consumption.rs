//! What a cgroup uses right now: few files, for decisions that need a fresh reading.

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
        let memory = match version(Controller::Memory) {
            Some(Version::V1) => "memory.usage_in_bytes",
            _ => "memory.current",
        };
        Ok(Self {
            memory_bytes: number(Controller::Memory, memory)?,
            cpu_ns,
            pids: number(Controller::Pids, "pids.current")?,
        })
    }
}
