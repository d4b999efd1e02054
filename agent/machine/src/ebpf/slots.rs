//! The slots of cgroups, from the agent's side: assigning them to cgroups that existed before the programs
//! were attached, and freeing those of removed cgroups.

use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, MapError, Queue};
use aya::programs::{CgroupSkb, ProgramError, TestRun, TestRunOptions};
use nodewarden_ebpf_abi::{UNTRACKED, cache_entry, cache_index, slot_key};
use tracing::debug;

use super::error::KernelError;
use super::programs::chain;

/// BPF_NOEXIST
const NO_EXIST: u64 = 1;

/// The last slot that is in the queues of all spaces.
const FILLED: &str = "FILLED";
const FREE: [&str; 4] = ["FREE_0", "FREE_1", "FREE_2", "FREE_3"];

/// Slot table and queues of free slots, shared with the kernel programs.
pub struct SlotPool {
    slots: HashMap<MapData, u64, u32>,
    /// The programs' cache in front of `slots`.
    cache: Array<MapData, u64>,
    free: Vec<Queue<MapData, u32>>,
}

impl SlotPool {
    /// Takes the maps and fills the queues of `spaces` spaces with `capacity` − 1 slots each: slot 0 is for
    /// all cgroups without one.
    ///
    /// # Errors
    /// A map is missing, or the kernel refuses a call.
    pub fn new(ebpf: &mut Ebpf, spaces: usize, capacity: u32) -> Result<Self, KernelError> {
        let slots = ebpf.take_map("SLOTS").ok_or(KernelError::NoMap("SLOTS"))?;
        let slots = HashMap::try_from(slots).map_err(|source| KernelError::Map { map: "SLOTS", source })?;
        let cache = ebpf.take_map("SLOT_CACHE").ok_or(KernelError::NoMap("SLOT_CACHE"))?;
        let cache =
            Array::try_from(cache).map_err(|source| KernelError::Map { map: "SLOT_CACHE", source })?;
        let filled = fill(ebpf, capacity - 1)?;
        let mut free = Vec::with_capacity(FREE.len());
        for (space, name) in FREE.into_iter().enumerate() {
            let map = ebpf.take_map(name).ok_or(KernelError::NoMap(name))?;
            let mut queue = Queue::try_from(map).map_err(|source| KernelError::Map { map: name, source })?;
            if space < spaces {
                for slot in filled + 1..capacity {
                    queue.push(slot, 0).map_err(|source| KernelError::Map { map: name, source })?;
                }
            }
            free.push(queue);
        }
        Ok(Self { slots, cache, free })
    }

    /// The slot of a cgroup, assigned now if it has none; `UNTRACKED` when no slot is free.
    ///
    /// # Errors
    /// When the kernel refuses for another reason than a full map.
    pub fn acquire(&mut self, space: usize, id: u64) -> Result<u32, KernelError> {
        let key = slot_key(space as u32, id);
        if let Some(slot) = self.get(key)? {
            return Ok(slot);
        }
        let name = FREE[space];
        let slot = match self.free[space].pop(0) {
            Ok(slot) => slot,
            Err(error) if is_empty(&error) => return Ok(UNTRACKED),
            Err(source) => return Err(KernelError::Map { map: name, source }),
        };
        match self.slots.insert(key, slot, NO_EXIST) {
            Ok(()) => Ok(slot),
            // A program has assigned one meanwhile, or the table is full.
            Err(_) => {
                self.give_back(space, slot)?;
                Ok(self.get(key)?.unwrap_or(UNTRACKED))
            }
        }
    }

    /// The slot of a key (see `slot_key`), if it has one.
    fn get(&self, key: u64) -> Result<Option<u32>, KernelError> {
        match self.slots.get(&key, 0) {
            Ok(slot) => Ok(Some(slot)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(source) => Err(KernelError::Map { map: "SLOTS", source }),
        }
    }

    /// Removes a cgroup from the table, if the programs could not record its removal, and then from the
    /// cache. A program that looked the cgroup up while it was removed may have put it into the cache
    /// afterwards: what it does later, with sockets or pages that outlive it, would count in its former slot
    /// for ever.
    pub fn forget(&mut self, space: usize, id: u64) {
        let key = slot_key(space as u32, id);
        let _ = self.slots.remove(&key);
        let index = cache_index(key);
        // If a program replaces the entry in between, that cgroup's next look-up takes the longer way.
        if self.cache.get(&index, 0).is_ok_and(|entry| entry >> 16 == cache_entry(key, 0) >> 16) {
            let _ = self.cache.set(index, 0, 0);
        }
    }

    /// The cache's entry in the place of a key.
    #[cfg(test)]
    pub fn cached(&self, key: u64) -> u64 {
        self.cache.get(&cache_index(key), 0).expect("an index of the cache")
    }

    /// Writes the cache's entry in the place of a key.
    #[cfg(test)]
    pub fn set_cached(&mut self, key: u64, entry: u64) {
        self.cache.set(cache_index(key), entry, 0).expect("an index of the cache");
    }

    /// Puts a zeroed slot back into the queue, after `forget`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn give_back(&mut self, space: usize, slot: u32) -> Result<(), KernelError> {
        self.free[space].push(slot, 0).map_err(|source| KernelError::Map { map: FREE[space], source })
    }

    /// Every cgroup that has a slot: space, id and slot. Takes a system call for each: only for use after
    /// records were lost.
    pub fn entries(&self) -> Vec<(usize, u64, u32)> {
        self.slots.iter().flatten().map(|(key, slot)| ((key & 3) as usize, key >> 2, slot)).collect()
    }
}

/// Has the kernel put the slots 1 to `last` into the queues of all spaces, with one system call instead of
/// `last` for each space. Returns the last slot that it has put there: 0 if it refuses that.
fn fill(ebpf: &mut Ebpf, last: u32) -> Result<u32, KernelError> {
    if let Err(error) = run_fill(ebpf, last) {
        debug!(error = chain(&error), "the slots are put into their queues one by one");
    }
    let map = ebpf.map(FILLED).ok_or(KernelError::NoMap(FILLED))?;
    let filled = Array::<_, u32>::try_from(map).and_then(|filled| filled.get(&0, 0));
    filled.map_err(|source| KernelError::Map { map: FILLED, source })
}

fn run_fill(ebpf: &mut Ebpf, times: u32) -> Result<(), ProgramError> {
    let program = ebpf.program_mut("fill_free_slots").ok_or(ProgramError::NotLoaded)?;
    let program: &mut CgroupSkb = program.try_into()?;
    program.load()?;
    // The kernel wants a packet to run it with: an Ethernet header and something behind it.
    let packet = [0; 64];
    let run =
        program.test_run(TestRunOptions { data_in: Some(&packet), repeat: times, ..TestRunOptions::new() });
    program.unload()?;
    run.map(drop)
}

fn is_empty(error: &MapError) -> bool {
    match error {
        MapError::SyscallError(e) => e.io_error.raw_os_error() == Some(libc::ENOENT),
        MapError::KeyNotFound | MapError::ElementNotFound => true,
        _ => false,
    }
}
