//! Memory of the node and of cgroups, from the kernel's text files.

use std::path::{Path, PathBuf};

use super::open_file::OpenFile;
use crate::Observed;
use nodewarden_machine::cgroup::parse::{lines, number, pairs};
use nodewarden_machine::cgroup::{Controller, Layout, Version, join};

/// A limit this large means no limit: `maxMemorySize` of the kubelet's stats (pkg/kubelet/stats/helper.go).
/// v1 shows the largest number of pages.
const NO_LIMIT: u64 = 1 << 62;

/// Memory in use of the node or of one cgroup, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub usage: u64,
    /// File pages that were not used lately, the first to be reclaimed.
    pub inactive_file: u64,
    /// Memory of the node or limit of the cgroup; `None` for no limit.
    pub limit: Option<u64>,
}

impl Memory {
    /// Usage less inactive file pages (kubelet `WorkingSetBytes`).
    pub fn working_set(self) -> u64 {
        self.usage.saturating_sub(self.inactive_file)
    }

    /// What is available below the limit; `None` without a limit (kubelet `cadvisorInfoToMemoryStats`).
    pub fn observed(self) -> Option<Observed> {
        let capacity = self.limit?;
        Some(Observed { available: capacity.saturating_sub(self.working_set()), capacity })
    }

    /// The usage at which the working set is `working_set`, with as many inactive file pages as now.
    pub fn usage_at(self, working_set: u64) -> u64 {
        working_set.saturating_add(self.inactive_file)
    }
}

/// Memory of the node from /proc/meminfo: usage is anonymous and file pages, swap cache among the latter.
/// That is what a v1 root's `memory.usage_in_bytes` counts (`mem_cgroup_usage` in mm/memcontrol-v1.c), and
/// what runc's library, and with it the kubelet, take for a v2 root, which has no such file
/// (`rootStatsFromMeminfo`). Those two read inactive file pages from `memory.stat`, which may be seconds
/// behind. The error is the key of a missing line.
pub fn of_node(meminfo: &[u8]) -> Result<Memory, &'static str> {
    let bytes = |key: &'static str| {
        let of_line = |line: &[u8]| {
            let text = line.strip_prefix(key.as_bytes())?.strip_prefix(b":")?;
            Some(number(text.trim_ascii().strip_suffix(b" kB")?)?.saturating_mul(1024))
        };
        lines(meminfo).find_map(of_line).ok_or(key)
    };
    let (cached, buffers, swap_cached) = (bytes("Cached")?, bytes("Buffers")?, bytes("SwapCached")?);
    Ok(Memory {
        usage: bytes("AnonPages")?.saturating_add(cached).saturating_add(buffers).saturating_add(swap_cached),
        inactive_file: bytes("Inactive(file)")?,
        limit: Some(bytes("MemTotal")?),
    })
}

/// The memory files of one cgroup.
#[derive(Debug)]
pub struct GroupMemory {
    usage: OpenFile,
    stat: OpenFile,
    limit: OpenFile,
    /// Key of the line in `stat` that includes descendants.
    inactive_file: &'static [u8],
}

impl GroupMemory {
    /// The cgroup `path`; `None` if no hierarchy has the memory controller.
    pub fn of(layout: &Layout, path: &str) -> Option<Self> {
        let (dir, version) = directory(layout, Controller::Memory, path)?;
        Some(Self::at(&dir, version))
    }

    /// The cgroup with this directory.
    pub fn at(dir: &Path, version: Version) -> Self {
        let (usage, limit, inactive_file): (_, _, &[u8]) = match version {
            Version::V1 => ("memory.usage_in_bytes", "memory.limit_in_bytes", b"total_inactive_file"),
            Version::V2 => ("memory.current", "memory.max", b"inactive_file"),
        };
        let kept = |name| OpenFile::new(dir.join(name));
        Self { usage: kept(usage), stat: kept("memory.stat"), limit: kept(limit), inactive_file }
    }

    /// Reads use and limit. `None` if the cgroup does not exist or cannot be read, which is logged.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> Option<Memory> {
        let memory = self.read_use(buffer)?;
        let limit = text(&mut self.limit, buffer).and_then(number).filter(|bytes| *bytes < NO_LIMIT);
        Some(Memory { limit, ..memory })
    }

    /// Reads use without the limit.
    pub fn read_use(&mut self, buffer: &mut Vec<u8>) -> Option<Memory> {
        let usage = self.read_usage(buffer)?;
        let inactive_file = self.read_inactive_file(buffer)?;
        Some(Memory { usage, inactive_file, limit: None })
    }

    /// Reads usage alone, inactive file pages included: a fraction of the time of [`Self::read_use`].
    pub fn read_usage(&mut self, buffer: &mut Vec<u8>) -> Option<u64> {
        text(&mut self.usage, buffer).and_then(number)
    }

    /// Keeps only the file of the usage open.
    pub fn close_stat(&mut self) {
        self.stat.close();
    }

    /// Whether the file of the usage is open.
    pub fn is_open(&self) -> bool {
        self.usage.is_open()
    }

    /// Reads the bytes of file pages that were not used lately.
    pub fn read_inactive_file(&mut self, buffer: &mut Vec<u8>) -> Option<u64> {
        let stat = text(&mut self.stat, buffer)?;
        pairs(stat).find(|(key, _)| *key == self.inactive_file).map(|(_, bytes)| bytes)
    }
}

/// The content of a file; `None` if it does not exist or cannot be read, which is logged.
pub fn text<'b>(file: &mut OpenFile, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
    match file.read(buffer) {
        Ok(text) => text,
        Err(error) => {
            tracing::debug!(file = %file.path().display(), %error, "cannot read");
            None
        }
    }
}

/// The directory of a cgroup in the hierarchy of a controller.
pub fn directory(layout: &Layout, controller: Controller, path: &str) -> Option<(PathBuf, Version)> {
    let hierarchy = layout.hierarchy(controller)?;
    Some((join(&hierarchy.mount, path), hierarchy.version))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MEMINFO: &[u8] = b"MemTotal:       1000 kB\nMemFree:   1 kB\nBuffers:  10 kB\nCached:  200 kB\n\
        SwapCached:  3 kB\nInactive:  900 kB\nInactive(file):  50 kB\nAnonPages:  400 kB\n";

    #[test]
    fn the_nodes_memory_from_meminfo() {
        let memory = of_node(MEMINFO).unwrap();
        let expected = Memory { usage: 613 * 1024, inactive_file: 50 * 1024, limit: Some(1000 * 1024) };
        assert_eq!(memory, expected);
        let observed = Observed { available: (1000 - 563) * 1024, capacity: 1000 * 1024 };
        assert_eq!(memory.observed(), Some(observed));
        assert_eq!(of_node(b"MemTotal: 5 kB\n"), Err("Cached"));
    }

    #[test]
    fn memory_of_a_v1_and_a_v2_cgroup() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(GroupMemory::at(dir.path(), Version::V1).read(&mut buffer), None);
        write("memory.usage_in_bytes", "100\n");
        write("memory.stat", "inactive_file 5\ntotal_inactive_file 30\n");
        write("memory.limit_in_bytes", "9223372036854771712\n");
        let mut v1 = GroupMemory::at(dir.path(), Version::V1);
        let unlimited = v1.read(&mut buffer).unwrap();
        assert_eq!((unlimited.working_set(), unlimited.observed()), (70, None));
        write("memory.limit_in_bytes", "90\n");
        let observed = Observed { available: 20, capacity: 90 };
        assert_eq!(v1.read(&mut buffer).unwrap().observed(), Some(observed));
        write("memory.current", "100\n");
        write("memory.max", "max\n");
        let mut v2 = GroupMemory::at(dir.path(), Version::V2);
        assert_eq!(v2.read(&mut buffer).unwrap().working_set(), 95);
        write("memory.max", "50\n");
        assert_eq!(v2.read(&mut buffer).unwrap().observed(), Some(Observed { available: 0, capacity: 50 }));
    }

    proptest! {
        /// At the usage that `usage_at` returns, the working set is exactly the requested one.
        #[test]
        fn usage_at_is_where_it_crosses(working_set: u64, inactive_file in 0u64..1 << 40) {
            let memory = Memory { usage: 0, inactive_file, limit: None };
            let there = Memory { usage: memory.usage_at(working_set), ..memory };
            prop_assert_eq!(there.working_set(), working_set.min(u64::MAX - inactive_file));
        }
    }
}
