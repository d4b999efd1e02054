//! The cgroup hierarchies in which something is counted. Each is a *space*; on pure v2 there is one, on
//! hybrid up to four.

use nodewarden_ebpf_abi::{SPACES, Space};

/// The hierarchies in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spaces {
    /// Kernel's hierarchy id of each space in use (0 is the unified one).
    pub hierarchies: Vec<u32>,
    /// Index into `hierarchies` of the memory controller's; `None` when the node has no such hierarchy.
    pub memory: Option<usize>,
    /// Index into `hierarchies` of the cpu controller's; `None` when the node has no such hierarchy.
    pub cpu: Option<usize>,
    /// Index into `hierarchies` of the one in which I/O is counted; `None` when the node has no such
    /// hierarchy.
    pub io: Option<usize>,
    /// Index into `hierarchies` of the v2 hierarchy; `None` when it is not mounted.
    pub unified: Option<usize>,
}

impl Spaces {
    /// The spaces for the hierarchy id of each controller (0 for the unified hierarchy), as
    /// `/proc/self/cgroup` numbers them. Uses of the same hierarchy share a space; the memory controller's
    /// comes first: pods are identified in it.
    pub fn new(memory: Option<u32>, cpu: Option<u32>, io: Option<u32>, unified: bool) -> Self {
        let mut hierarchies = Vec::with_capacity(SPACES);
        let mut place = |id: Option<u32>| {
            let id = id?;
            Some(hierarchies.iter().position(|h| *h == id).unwrap_or_else(|| {
                hierarchies.push(id);
                hierarchies.len() - 1
            }))
        };
        let memory = place(memory);
        let cpu = place(cpu);
        let io = place(io);
        let unified = place(unified.then_some(0));
        Self { hierarchies, memory, cpu, io, unified }
    }

    /// Index into `hierarchies` of a space, if the node has such a hierarchy.
    pub fn of(&self, space: Space) -> Option<usize> {
        match space {
            Space::Memory => self.memory,
            Space::Cpu => self.cpu,
            Space::Io => self.io,
            Space::Unified => self.unified,
        }
    }

    /// Whether a use is on a v1 hierarchy of its own.
    pub fn is_v1(&self, space: Space) -> bool {
        self.of(space).is_some_and(|i| self.hierarchies[i] != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pure_v2_is_one_space() {
        let s = Spaces::new(Some(0), Some(0), Some(0), true);
        assert_eq!(s.hierarchies, [0]);
        assert_eq!((s.memory, s.cpu, s.io, s.unified), (Some(0), Some(0), Some(0), Some(0)));
        assert!(!s.is_v1(Space::Cpu));
    }

    #[test]
    fn hybrid_keeps_controllers_apart() {
        let s = Spaces::new(Some(4), Some(1), Some(7), true);
        assert_eq!(s.hierarchies, [4, 1, 7, 0]);
        assert_eq!((s.memory, s.cpu, s.io, s.unified), (Some(0), Some(1), Some(2), Some(3)));
        assert!(s.is_v1(Space::Memory) && !s.is_v1(Space::Unified));
    }

    #[test]
    fn v1_without_unified_or_io() {
        let s = Spaces::new(Some(4), Some(4), None, false);
        assert_eq!(s.hierarchies, [4]);
        assert_eq!((s.cpu, s.io, s.unified), (Some(0), None, None));
    }
}
