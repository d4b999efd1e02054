//! All maps. Most sizes here are placeholders: the agent sets them from the configuration and the number of
//! CPUs before it loads the programs.

use aya_ebpf::{
    macros::map,
    maps::{Array, HashMap, LruHashMap, Queue, RingBuf},
};
use nodewarden_ebpf_abi::{
    BlockCell, CACHE_ENTRIES, CpuCell, CpuState, DeviceCount, DeviceKey, DeviceTurn, GroupCell, Kind,
    LastTurn, NetworkCell, PLACES, SPACES,
};

/// BPF_F_MMAPABLE: the agent maps the array into its memory and reads it without system calls.
const MMAPABLE: u32 = 1024;
/// BPF_F_NO_PREALLOC: allocates memory for the entries in the table, not for the largest number of them.
const NO_PREALLOC: u32 = 1;

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

/// CPU counters, indexed by CPU × capacity + slot.
#[map]
pub static CPU_CELLS: Array<CpuCell> = Array::with_max_entries(1, MMAPABLE);
/// The running task, indexed by CPU.
#[map]
pub static CPU_STATES: Array<CpuState> = Array::with_max_entries(1, MMAPABLE);
/// log2 of the number of entries of `LAST_TURNS`.
pub const LAST_TURNS_BITS: u32 = 13;
/// Last turns of tasks, indexed by a hash of the pid.
#[map]
pub static LAST_TURNS: Array<LastTurn> = Array::with_max_entries(1 << LAST_TURNS_BITS, 0);
/// Network counters, indexed by CPU × capacity + slot.
#[map]
pub static NETWORK_CELLS: Array<NetworkCell> = Array::with_max_entries(1, MMAPABLE);
/// Counters of the memory controller's hierarchy, indexed by slot.
#[map]
pub static GROUP_CELLS: Array<GroupCell> = Array::with_max_entries(1, MMAPABLE);
/// Block latencies, indexed by slot.
#[map]
pub static BLOCK_CELLS: Array<BlockCell> = Array::with_max_entries(1, MMAPABLE);

/// Time of the last `Kind::Reclaim` record (CLOCK_MONOTONIC, ns).
#[map]
pub static RECLAIM_REPORTED: Array<u64> = Array::with_max_entries(1, 0);
/// Reclaims in progress: pid_tgid of the task → when it began (CLOCK_MONOTONIC, ns).
#[map]
pub static RECLAIMS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(4096, 0);
/// Block requests in progress: address of the request → when it was issued (CLOCK_MONOTONIC, ns); slot × 2 +
/// direction.
#[map]
pub static REQUESTS: LruHashMap<u64, [u64; 2]> = LruHashMap::with_max_entries(8192, 0);

/// Where pods are in the unified hierarchy: see `PLACE_LEVEL` and `PLACE_CLASSES`.
#[map]
pub static DEVICE_PLACES: Array<u64> = Array::with_max_entries(PLACES, 0);
/// Pods whose accesses are checked: kernel id of the pod's cgroup → mode (`DEVICE_AUDIT`, `DEVICE_ENFORCE`).
#[map]
pub static DEVICE_PODS: HashMap<u64, u32> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Rules: pod and device → accesses that are allowed.
#[map]
pub static DEVICE_RULES: HashMap<DeviceKey, u32> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Counts of accesses that no rule allowed.
#[map]
pub static DEVICE_COUNTS: HashMap<DeviceKey, DeviceCount> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Kernel id of the pod's cgroup → number of its devices that have a count of their own.
#[map]
pub static DEVICES_OF: HashMap<u64, u64> = HashMap::with_max_entries(1, NO_PREALLOC);
/// Records that some CPU sends or has sent: see `DeviceTurn`.
#[map]
pub static DEVICE_TURNS: LruHashMap<DeviceTurn, u32> = LruHashMap::with_max_entries(1, 0);
