//! The maps that topics share; those of one topic are in its own file. Most sizes here are placeholders: the
//! agent sets them from the configuration and the number of CPUs before it loads the programs.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, Queue, RingBuf},
};
use nodewarden_ebpf_abi::{CACHE_ENTRIES, GroupCell, Kind, SPACES};

/// BPF_F_MMAPABLE: the agent maps the array into its memory and reads it without system calls.
pub const MMAPABLE: u32 = 1024;

/// Records of rare events, for the agent.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(4096, 0);
/// Number of records lost because the ring was full, by kind.
#[map]
pub static LOST: Array<u64> = Array::with_max_entries(Kind::COUNT as u32, MMAPABLE);

/// `slot_key` → slot.
#[map]
pub static SLOTS: HashMap<u64, u32> = HashMap::with_max_entries(1, 0);
/// Direct-mapped cache in front of `SLOTS`, see `cache_entry`.
#[map]
pub static SLOT_CACHE: Array<u64> = Array::with_max_entries(CACHE_ENTRIES, 0);
/// Free slots for new cgroups; one queue for each space.
#[map]
pub static FREE_0: Queue<u32> = Queue::with_max_entries(1, 0);
#[map]
pub static FREE_1: Queue<u32> = Queue::with_max_entries(1, 0);
#[map]
pub static FREE_2: Queue<u32> = Queue::with_max_entries(1, 0);
#[map]
pub static FREE_3: Queue<u32> = Queue::with_max_entries(1, 0);
/// Number of new cgroups that got no slot, by space.
#[map]
pub static UNTRACKED_GROUPS: Array<u64> = Array::with_max_entries(SPACES as u32, MMAPABLE);

/// Counters of the memory controller's hierarchy, indexed by slot.
#[map]
pub static GROUP_CELLS: Array<GroupCell> = Array::with_max_entries(1, MMAPABLE);
