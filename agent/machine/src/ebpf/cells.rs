//! Reads the counters of the eBPF programs from arrays that are mapped into the agent's memory, so that no
//! system call is needed for each cgroup.

use std::mem::size_of;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use aya::Ebpf;
use aya::maps::Map;
use memmap2::{MmapOptions, MmapRaw};
use nodewarden_ebpf_abi::{
    CELL_ARRAYS, Cell, CellReader, CpuCell, CpuState, Index, Kind, LATENCY_BUCKETS, NO_SLOT, SPACES, Space,
};

use super::error::KernelError;

/// One mapped array of values of the same size.
pub(super) struct Array {
    map: MmapRaw,
    len: usize,
    value_bytes: usize,
}

impl Array {
    pub(super) fn new(
        ebpf: &Ebpf,
        name: &'static str,
        value_bytes: usize,
        len: usize,
    ) -> Result<Self, KernelError> {
        let Some(Map::Array(data)) = ebpf.map(name) else { return Err(KernelError::NoMap(name)) };
        // The kernel rounds each value up to 8 bytes; these are multiples already.
        debug_assert_eq!(value_bytes % 8, 0);
        let bytes = len * value_bytes;
        let fd = data.fd().as_fd();
        let map = MmapOptions::new().len(bytes).map_raw(&fd).map_err(|source| KernelError::Mmap {
            map: name,
            bytes,
            source,
        })?;
        Ok(Self { map, len, value_bytes })
    }

    pub(super) fn at(&self, i: usize) -> Option<*mut u8> {
        // SAFETY: the mapping has `len` values from its start and lives as long as `self`.
        (i < self.len).then(|| unsafe { self.map.as_mut_ptr().add(i * self.value_bytes) })
    }

    /// A copy of value `i`, which the kernel may write at the same time; `None` when there is no such value.
    ///
    /// # Safety
    /// Any bytes must be a value of `T`.
    pub(super) unsafe fn read<T: Copy>(&self, i: usize) -> Option<T> {
        debug_assert_eq!(self.value_bytes, size_of::<T>());
        // SAFETY: in bounds; aligned, since the mapping is page aligned and values are multiples of 8 bytes;
        // volatile, since the kernel changes it. A copy that is half old and half new is fine: each word is a
        // counter of its own.
        self.at(i).map(|p| unsafe { ptr::read_volatile(p.cast::<T>()) })
    }

    fn word(&self, i: usize) -> Option<u64> {
        // SAFETY: an integer.
        unsafe { self.read(i) }
    }

    fn zero(&self, i: usize) {
        if let Some(p) = self.at(i) {
            // SAFETY: in bounds; nothing counts into a slot that is being given back.
            unsafe { ptr::write_bytes(p, 0, self.value_bytes) };
        }
    }
}

// SAFETY: the mapping is shared memory that both the kernel and any thread may read at any time; writing
// (`zero`) touches only slots that nothing counts into.
unsafe impl Send for Array {}
// SAFETY: as above.
unsafe impl Sync for Array {}

/// CPU counters of a slot, added up over the CPUs. The buckets wrap around at 32 bits as the kernel's do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCpu {
    /// Time that the tasks ran on a CPU, in nanoseconds.
    pub on_cpu_ns: u64,
    /// Time that the tasks were runnable and waited for a CPU, in nanoseconds.
    pub wait_ns: u64,
    /// Number of times that a task gave up its CPU by itself.
    pub voluntary: u64,
    /// Number of times that a runnable task lost its CPU.
    pub preempted: u64,
    /// Number of waits by length, in the buckets of the eBPF programs.
    pub wait: [u32; LATENCY_BUCKETS],
}

impl RawCpu {
    /// How often the tasks were switched out.
    pub fn switches(&self) -> u64 {
        self.voluntary + self.preempted
    }
}

/// All counters of all cgroups.
pub struct Cells {
    cpus: usize,
    capacity: usize,
    /// One for each of `CELL_ARRAYS`.
    cells: Vec<Array>,
    states: Array,
    lost: Array,
    untracked: Array,
}

impl Cells {
    /// Maps the arrays of a loaded object. `capacity` slots, `cpus` possible CPUs.
    ///
    /// # Errors
    /// When a map is missing or cannot be mapped.
    pub fn new(ebpf: &Ebpf, capacity: usize, cpus: usize) -> Result<Self, KernelError> {
        let cells = CELL_ARRAYS.iter().map(|array| {
            let len = match array.index {
                Index::Slot => capacity,
                Index::CpuAndSlot => capacity * cpus,
            };
            Array::new(ebpf, array.name, array.bytes, len)
        });
        Ok(Self {
            cpus,
            capacity,
            cells: cells.collect::<Result<_, _>>()?,
            states: Array::new(ebpf, "CPU_STATES", size_of::<CpuState>(), cpus)?,
            lost: Array::new(ebpf, "LOST", size_of::<u64>(), Kind::COUNT)?,
            untracked: Array::new(ebpf, "UNTRACKED_GROUPS", size_of::<u64>(), SPACES)?,
        })
    }

    /// Bytes mapped into this process: they count as its resident memory, though they are the kernel's.
    pub fn mapped_bytes(&self) -> u64 {
        let arrays = self.cells.iter().chain([&self.states, &self.lost, &self.untracked]);
        arrays.map(|array| array.map.len() as u64).sum()
    }

    /// CPU counters of a slot, without the time of tasks since they were last switched in.
    pub fn cpu(&self, slot: u32) -> RawCpu {
        let mut sum = RawCpu::default();
        for cell in self.cells::<CpuCell>(slot) {
            sum.on_cpu_ns += cell.on_cpu_ns;
            sum.wait_ns += cell.wait_ns;
            sum.voluntary += cell.voluntary;
            sum.preempted += cell.preempted;
            for (total, n) in sum.wait.iter_mut().zip(cell.wait) {
                *total = total.wrapping_add(n);
            }
        }
        sum
    }

    /// How often tasks of a slot were switched out: as long as it stays the same and none of its tasks is on
    /// a CPU, nothing has run.
    pub fn switches(&self, slot: u32) -> u64 {
        self.cells::<CpuCell>(slot).map(|cell| cell.voluntary + cell.preempted).sum()
    }

    /// The tasks on the CPUs now: slot, and since when (CLOCK_MONOTONIC, ns). To be called after the counters
    /// are read, so that the time of a task that is switched out in between is missing from this reading
    /// rather than counted twice.
    pub fn running(&self) -> Vec<(u32, u64)> {
        fence(Ordering::SeqCst);
        (0..self.cpus)
            .filter_map(|cpu| {
                let before = self.state(cpu)?;
                fence(Ordering::SeqCst);
                let after = self.state(cpu)?;
                // The program writes the time before the slot: equal times, so the slot read last is its own.
                (before.since_ns == after.since_ns && after.slot != NO_SLOT)
                    .then_some((after.slot, after.since_ns.wrapping_sub(after.clock_offset_ns)))
            })
            .collect()
    }

    /// Whether a task of this slot is on a CPU now, by the programs: its turn will be counted there.
    pub fn is_running(&self, slot: u32) -> bool {
        (0..self.cpus).filter_map(|cpu| self.state(cpu)).any(|state| state.slot == slot)
    }

    fn state(&self, cpu: usize) -> Option<CpuState> {
        // SAFETY: a structure of integers.
        unsafe { self.states.read(cpu) }
    }

    /// Number of records of a kind that were lost because the ring was full.
    pub fn lost(&self, kind: Kind) -> u64 {
        self.lost.word(kind as usize).unwrap_or(0)
    }

    /// Number of new cgroups that got no slot, in the hierarchy with the most of them.
    pub fn untracked(&self) -> u64 {
        (0..SPACES).filter_map(|i| self.untracked.word(i)).max().unwrap_or(0)
    }

    /// Zeroes the counters of a slot in the arrays of a space, before the slot is given away again.
    pub fn zero(&self, space: Space, slot: u32) {
        let of_space = CELL_ARRAYS.iter().zip(&self.cells).filter(|(array, _)| array.space == space);
        for (array, cells) in of_space {
            match array.index {
                Index::Slot => cells.zero(slot as usize),
                Index::CpuAndSlot => (0..self.cpus).for_each(|cpu| cells.zero(self.at(cpu, slot))),
            }
        }
    }

    fn at(&self, cpu: usize, slot: u32) -> usize {
        cpu * self.capacity + slot as usize
    }
}

impl CellReader for Cells {
    fn cell<T: Cell>(&self, slot: u32) -> Option<T> {
        // SAFETY: any bytes are a value of a cell.
        unsafe { self.cells[T::ARRAY].read(slot as usize) }
    }

    fn cells<T: Cell>(&self, slot: u32) -> impl Iterator<Item = T> {
        let array = &self.cells[T::ARRAY];
        // SAFETY: as above.
        (0..self.cpus).filter_map(move |cpu| unsafe { array.read(self.at(cpu, slot)) })
    }
}
