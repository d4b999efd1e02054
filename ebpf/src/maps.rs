//! All maps. Sizes written here are placeholders: the agent sets them from the configuration and the number of
//! CPUs before loading.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, LruHashMap, Queue, RingBuf},
};
use nodewarden_ebpf_abi::{
    BlockCell, CACHE_ENTRIES, CpuCell, CpuState, DeviceCount, DeviceKey, DeviceTurn, GroupCell, Kind,
    LastTurn, NetworkCell, PLACES, SPACES,
};

/// BPF_F_MMAPABLE: the agent maps the array and reads without a system call.
const MMAPABLE: u32 = 1024;
/// BPF_F_NO_PREALLOC: memory for what is in a table, not for all that could be.
const NO_PREALLOC: u32 = 1;

/// Rare events to the agent.
#[map]
pub static EVENTS: RingBuf = RingBuf::with_byte_size(4096, 0);
/// Events that found the ring full, by kind.
#[map]
pub static LOST: Array<u64> = Array::with_max_entries(Kind::COUNT as u32, MMAPABLE);

/// slot_key → slot.
#[map]
pub static SLOTS: HashMap<u64, u32> = HashMap::with_max_entries(1, 0);
/// Direct-mapped cache in front of it.
#[map]
pub static SLOT_CACHE: Array<u64> = Array::with_max_entries(CACHE_ENTRIES, 0);
/// Slots to give to new cgroups, by space.
#[map]
pub static FREE_0: Queue<u32> = Queue::with_max_entries(1, 0);
#[map]
pub static FREE_1: Queue<u32> = Queue::with_max_entries(1, 0);
#[map]
pub static FREE_2: Queue<u32> = Queue::with_max_entries(1, 0);
#[map]
pub static FREE_3: Queue<u32> = Queue::with_max_entries(1, 0);
/// New cgroups that got no slot, by space.
#[map]
pub static UNTRACKED_GROUPS: Array<u64> = Array::with_max_entries(SPACES as u32, MMAPABLE);

/// By CPU × slot.
#[map]
pub static CPU_CELLS: Array<CpuCell> = Array::with_max_entries(1, MMAPABLE);
/// By CPU.
#[map]
pub static CPU_STATES: Array<CpuState> = Array::with_max_entries(1, MMAPABLE);
/// log2 of the places in `LAST_TURNS`.
pub const LAST_TURNS_BITS: u32 = 13;
/// By a hash of the pid.
#[map]
pub static LAST_TURNS: Array<LastTurn> = Array::with_max_entries(1 << LAST_TURNS_BITS, 0);
/// By CPU × slot.
#[map]
pub static NETWORK_CELLS: Array<NetworkCell> = Array::with_max_entries(1, MMAPABLE);
/// By slot.
#[map]
pub static GROUP_CELLS: Array<GroupCell> = Array::with_max_entries(1, MMAPABLE);
/// By slot.
#[map]
pub static BLOCK_CELLS: Array<BlockCell> = Array::with_max_entries(1, MMAPABLE);

/// When it was last told that a task has to reclaim.
#[map]
pub static RECLAIM_TOLD: Array<u64> = Array::with_max_entries(1, 0);
/// Reclaim under way: task → when it began.
#[map]
pub static RECLAIMS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(4096, 0);
/// Block requests under way: request → when issued, slot and direction.
#[map]
pub static REQUESTS: LruHashMap<u64, [u64; 2]> = LruHashMap::with_max_entries(8192, 0);

/// Where pods are in the unified hierarchy.
#[map]
pub static DEVICE_PLACES: Array<u64> = Array::with_max_entries(PLACES, 0);
/// Pods that are guarded, by their cgroup's id → what is done about accesses that no rule allows.
#[map]
pub static DEVICE_PODS: HashMap<u64, u32> = HashMap::with_max_entries(1, NO_PREALLOC);
/// What pods may open → accesses.
#[map]
pub static DEVICE_RULES: HashMap<DeviceKey, u32> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Accesses that no rule allowed.
#[map]
pub static DEVICE_COUNTS: HashMap<DeviceKey, DeviceCount> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Devices that are counted for themselves, by pod.
#[map]
pub static DEVICES_OF: HashMap<u64, u64> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Turns to tell that are taken.
#[map]
pub static DEVICE_TURNS: LruHashMap<DeviceTurn, u32> = LruHashMap::with_max_entries(1, 0);
