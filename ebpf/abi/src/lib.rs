//! The plain records that the kernel programs and the agent share, defined once.
//!
//! Everything is `repr(C)` with explicit padding, so that both sides agree byte for byte and the verifier
//! never sees an uninitialised one.

#![no_std]
#![deny(missing_docs)]

mod cells;
mod devices;
mod exclusive_cpus;
mod neighbours;
mod records;
mod topics;
mod usage;

pub use cells::{Cell, CellArray, CellReader, Index, LATENCY_BUCKETS, LATENCY_FIRST_SHIFT};
pub use devices::{
    ANY_MINOR, DEFAULT_DEVICES, DEVICE_AUDIT, DEVICE_BLOCK, DEVICE_CHAR, DEVICE_ENFORCE,
    DEVICE_HAS_ANY_MINOR, DEVICE_MKNOD, DEVICE_ONLY_WATCHED, DEVICE_READ, DEVICE_WRITE, DEVICES_COUNTED,
    DeviceCount, DeviceKey, DeviceTurn, PLACE_CLASSES, PLACE_LEVEL, PLACES, WATCHED, is_default_device,
};
pub use exclusive_cpus::{
    BY_IDLE, BY_KERNEL_THREAD, BY_OTHER, BY_OWNER, ExclusiveCpu, LONGEST_INTERRUPT, LONGEST_KERNEL_THREAD,
    LONGEST_KINDS, LONGEST_OTHER, LONGEST_SOFTIRQ, LongestTurn, TASK_KINDS, VECTOR, owner_id, owner_level,
    owner_word,
};
pub use neighbours::{
    EARLIER, NODE, NeighbourCpu, TURNS, Turn, Turns, WAIT_CPU, WAIT_DISK, WAIT_MEMORY, WaitKey,
};
pub use records::{COMMAND_LEN, Header};
pub use topics::*;
pub use usage::{GroupUsage, NOT_COUNTED};

/// Largest number of spaces, which are hierarchies that something is counted in: those of the memory, cpu and
/// io controllers, and the unified one.
pub const SPACES: usize = 4;

/// The hierarchy in which cgroups are counted for a topic, by what is on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// OOM, reclaim, processes, cgroup lifecycle: the memory controller's hierarchy.
    Memory,
    /// CPU time, wait and switches: the cpu controller's.
    Cpu,
    /// Block requests: the io (v1 blkio) controller's.
    Io,
    /// Network and devices: the unified hierarchy.
    Unified,
}

impl Space {
    /// What is said to be missing where there is no such hierarchy.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Io => "io (v1: blkio)",
            Self::Unified => "unified",
        }
    }
}

/// The slot that all cgroups without a slot of their own share: those beyond the capacity.
pub const UNTRACKED: u32 = 0;
/// No slot at all: for the idle task.
pub const NO_SLOT: u32 = u32::MAX;
/// Largest number of cgroups with slots in one hierarchy: slots have 16 bits in the cache, and slot 0 is
/// `UNTRACKED`.
pub const MAX_CAPACITY: u32 = 65_535;

/// Entries of the direct-mapped cache in front of the slot table; a power of two.
pub const CACHE_ENTRIES: u32 = 32_768;

/// Key of a cgroup in the slot table: its space and its kernel id, which is unique only within its hierarchy.
pub const fn slot_key(space: u32, id: u64) -> u64 {
    (id << 2) | (space as u64 & 3)
}

/// Index in the cache of the entry for `key`.
pub const fn cache_index(key: u64) -> u32 {
    ((key.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 49) as u32
}

/// A cache entry: the key's low 48 bits and the slot.
pub const fn cache_entry(key: u64, slot: u32) -> u64 {
    (key << 16) | (slot as u64 & 0xffff)
}
