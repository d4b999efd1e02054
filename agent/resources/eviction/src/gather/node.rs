//! Reads memory and processes of the node.

use std::path::PathBuf;

use super::GatherError;
use super::memory::{GroupMemory, Memory, of_node, text};
use super::open_file::OpenFile;
use crate::{Observations, Observed};
use nodewarden_config::Signal;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::parse::number;

/// Reads the current `memory.available`, `allocatableMemory.available` and `pid.available`. The kubelet's
/// `makeSignalObservations` takes them from its summary.
#[derive(Debug)]
pub struct Node {
    meminfo: OpenFile,
    /// The cgroup kubepods, whose limit is what pods may use.
    pods: Option<GroupMemory>,
    loadavg: OpenFile,
    pid_max: OpenFile,
    threads_max: OpenFile,
    buffer: Vec<u8>,
}

impl Node {
    /// `kubepods` is the path of the pods' cgroup, relative to the mounts; it need not exist yet.
    ///
    /// # Errors
    /// /proc/meminfo cannot be read, or lacks a line.
    pub fn new(layout: &Layout, kubepods: &str) -> Result<Self, GatherError> {
        let kept = |path: &str| OpenFile::new(PathBuf::from(path));
        let mut node = Self {
            meminfo: kept("/proc/meminfo"),
            pods: GroupMemory::of(layout, kubepods),
            loadavg: kept("/proc/loadavg"),
            pid_max: kept("/proc/sys/kernel/pid_max"),
            threads_max: kept("/proc/sys/kernel/threads-max"),
            buffer: Vec::new(),
        };
        node.node_memory()?;
        Ok(node)
    }

    /// Reads all three. A signal that cannot be read is missing, as is `allocatableMemory.available` if
    /// kubepods has no limit.
    pub fn read(&mut self) -> Observations {
        let memory = match self.node_memory() {
            Ok(memory) => Some(memory),
            Err(error) => {
                tracing::warn!(%error, "memory.available is not known");
                None
            }
        };
        let pods_memory = self.pods.as_mut().and_then(|pods| pods.read(&mut self.buffer));
        let seen = [
            (Signal::MemoryAvailable, memory.and_then(Memory::observed)),
            (Signal::AllocatableMemoryAvailable, pods_memory.and_then(Memory::observed)),
            (Signal::PidAvailable, self.pids()),
        ];
        seen.into_iter().filter_map(|(signal, observed)| Some((signal, observed?))).collect()
    }

    fn node_memory(&mut self) -> Result<Memory, GatherError> {
        let path = self.meminfo.path().to_owned();
        let text = self.meminfo.read(&mut self.buffer);
        let text = text.map_err(|source| GatherError::Read { path: path.clone(), source })?;
        of_node(text.unwrap_or_default()).map_err(|missing| GatherError::Lacks { path, missing })
    }

    /// Existing threads and the largest possible number (kubelet pkg/kubelet/stats/pidlimit).
    fn pids(&mut self) -> Option<Observed> {
        let buffer = &mut self.buffer;
        let running = text(&mut self.loadavg, buffer).and_then(threads)?;
        let most = text(&mut self.pid_max, buffer).and_then(number)?;
        let capacity = text(&mut self.threads_max, buffer).and_then(number).map_or(most, |n| n.min(most));
        Some(Observed { available: capacity.saturating_sub(running), capacity })
    }
}

/// The second number of the fourth word of /proc/loadavg: `0.20 0.18 0.12 1/80 11206`.
fn threads(loadavg: &[u8]) -> Option<u64> {
    let word = loadavg.split(|byte| *byte == b' ').nth(3)?;
    number(word.rsplit(|byte| *byte == b'/').next()?)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use nodewarden_machine::cgroup::fixture::TestTree;
    use nodewarden_machine::cgroup::{Controller, Version, join};

    #[test]
    fn threads_of_loadavg() {
        assert_eq!(threads(b"0.20 0.18 0.12 1/80 11206\n"), Some(80));
        assert_eq!(threads(b"0.20 0.18"), None);
    }

    #[test]
    fn reading_this_node_takes_a_fraction_of_a_millisecond() {
        let Some(tree) = TestTree::make("node") else { return };
        let path = tree.group("pods");
        let mut node = Node::new(&tree.layout, &path).unwrap();
        let first = node.read();
        let memory = first[&Signal::MemoryAvailable];
        assert!(memory.available > 0 && memory.available <= memory.capacity, "{memory:?}");
        let pids = first[&Signal::PidAvailable];
        assert!(pids.available > 0 && pids.available < pids.capacity, "{pids:?}");
        assert!(!first.contains_key(&Signal::AllocatableMemoryAvailable), "no limit");

        let (limit, version) = match tree.layout.hierarchy(Controller::Memory).map(|h| h.version) {
            Some(Version::V1) => ("memory.limit_in_bytes", Version::V1),
            _ => ("memory.max", Version::V2),
        };
        tree.write(Controller::Memory, "pods", limit, "67108864");
        tree.run("pods", "x=$(head -c 8000000 /dev/zero | tr '\\0' x); sleep 60");
        let deadline = Instant::now() + std::time::Duration::from_secs(20);
        let used = loop {
            let pods = node.read()[&Signal::AllocatableMemoryAvailable];
            assert_eq!(pods.capacity, 67_108_864);
            if pods.capacity - pods.available >= 8_000_000 {
                break pods.capacity - pods.available;
            }
            assert!(Instant::now() < deadline, "{pods:?}");
        };
        assert!(used < 67_108_864, "{used}");
        // The kernel's own figure for the v1 root is the same.
        if version == Version::V1 {
            let root = &tree.layout.hierarchy(Controller::Memory).unwrap().mount;
            let near = (0..100).any(|_| {
                let memory = node.node_memory().unwrap();
                let usage = std::fs::read(join(root, "/").join("memory.usage_in_bytes")).unwrap();
                number(&usage).unwrap().abs_diff(memory.usage) < 4 << 20
            });
            assert!(near, "{:?}", node.node_memory());
        }

        let mut times: Vec<_> = (0..300)
            .map(|_| {
                let begun = Instant::now();
                node.read();
                begun.elapsed()
            })
            .collect();
        times.sort();
        let (median, p99) = (times[150], times[297]);
        println!("a reading takes {median:?}, 99 of 100 at most {p99:?}");
        assert!(median.as_micros() < 200, "{median:?}");
    }
}
