//! The counters, read where the kernel writes them: arrays mapped into the agent's memory, no system call per
//! cgroup.

use std::mem::size_of;
use std::os::fd::AsFd;
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use aya::Ebpf;
use aya::maps::Map;
use memmap2::{MmapOptions, MmapRaw};
use nodewarden_ebpf_abi::{
    BlockCell, CpuCell, CpuState, GroupCell, Kind, LATENCY_BUCKETS, NO_SLOT, NetworkCell, SPACES,
};

use super::error::KernelError;

/// One mapped array.
struct Array<T> {
    map: MmapRaw,
    len: usize,
    of: std::marker::PhantomData<T>,
}

impl<T: Copy> Array<T> {
    fn new(ebpf: &Ebpf, name: &'static str, len: usize) -> Result<Self, KernelError> {
        let Some(Map::Array(data)) = ebpf.map(name) else { return Err(KernelError::NoMap(name)) };
        // The kernel rounds each value up to 8 bytes; ours are multiples already.
        debug_assert_eq!(size_of::<T>() % 8, 0);
        let bytes = len * size_of::<T>();
        let fd = data.fd().as_fd();
        let map = MmapOptions::new().len(bytes).map_raw(&fd).map_err(|source| KernelError::Mmap {
            map: name,
            bytes,
            source,
        })?;
        Ok(Self { map, len, of: std::marker::PhantomData })
    }

    fn at(&self, i: usize) -> Option<*mut T> {
        // SAFETY: the mapping has `len` values from its start and lives as long as `self`.
        (i < self.len).then(|| unsafe { self.map.as_mut_ptr().cast::<T>().add(i) })
    }

    /// A copy of value `i`, word by word as the kernel writes it meanwhile.
    fn read(&self, i: usize) -> Option<T> {
        // SAFETY: in bounds; aligned, since the mapping is page aligned and values are multiples of 8 bytes;
        // volatile, since the kernel changes it. A value that is half new is fine: each word counts on its own.
        self.at(i).map(|p| unsafe { ptr::read_volatile(p) })
    }

    fn zero(&self, i: usize) {
        if let Some(p) = self.at(i) {
            // SAFETY: in bounds; nobody counts into a slot that is being given back.
            unsafe { ptr::write_bytes(p, 0, 1) };
        }
    }
}

// SAFETY: the mapping is shared memory that both the kernel and any thread may read at any time; writing (`zero`)
// touches only slots that nothing counts into.
unsafe impl<T> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Array<T> {}

/// CPU counters of a slot added up over the CPUs. The buckets wrap at 32 bits as the kernel's do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCpu {
    pub on_cpu_ns: u64,
    pub wait_ns: u64,
    pub voluntary: u64,
    pub preempted: u64,
    pub wait: [u32; LATENCY_BUCKETS],
}

/// All counters of all cgroups.
pub struct Cells {
    cpus: usize,
    capacity: usize,
    cpu: Array<CpuCell>,
    states: Array<CpuState>,
    network: Array<NetworkCell>,
    group: Array<GroupCell>,
    block: Array<BlockCell>,
    lost: Array<u64>,
    untracked: Array<u64>,
}

impl Cells {
    /// Maps the arrays of a loaded object. `capacity` slots, `cpus` possible CPUs.
    ///
    /// # Errors
    /// When a map is missing or cannot be mapped.
    pub fn new(ebpf: &Ebpf, capacity: usize, cpus: usize) -> Result<Self, KernelError> {
        Ok(Self {
            cpus,
            capacity,
            cpu: Array::new(ebpf, "CPU_CELLS", capacity * cpus)?,
            states: Array::new(ebpf, "CPU_STATES", cpus)?,
            network: Array::new(ebpf, "NETWORK_CELLS", capacity * cpus)?,
            group: Array::new(ebpf, "GROUP_CELLS", capacity)?,
            block: Array::new(ebpf, "BLOCK_CELLS", capacity)?,
            lost: Array::new(ebpf, "LOST", Kind::COUNT)?,
            untracked: Array::new(ebpf, "UNTRACKED_GROUPS", SPACES)?,
        })
    }

    /// Bytes mapped into this process: they count as resident, though they are the kernel's.
    pub fn mapped_bytes(&self) -> u64 {
        let bytes = self.cpu.map.len()
            + self.states.map.len()
            + self.network.map.len()
            + self.group.map.len()
            + self.block.map.len()
            + self.lost.map.len()
            + self.untracked.map.len();
        bytes as u64
    }

    /// CPU counters of a slot, without the turns that are still running.
    pub fn cpu(&self, slot: u32) -> RawCpu {
        let mut sum = RawCpu::default();
        for cpu in 0..self.cpus {
            let Some(cell) = self.cpu.read(cpu * self.capacity + slot as usize) else { continue };
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

    /// The tasks on the CPUs now: slot and since when (CLOCK_MONOTONIC, ns). Read after the counters, so that a
    /// turn that ends in between is missed for once rather than counted twice.
    pub fn running(&self) -> Vec<(u32, u64)> {
        fence(Ordering::SeqCst);
        (0..self.cpus)
            .filter_map(|cpu| {
                let before = self.states.read(cpu)?;
                fence(Ordering::SeqCst);
                let after = self.states.read(cpu)?;
                // The program writes the time before the slot: equal times, so the slot read last is its own.
                (before.since_ns == after.since_ns && after.slot != NO_SLOT)
                    .then_some((after.slot, after.since_ns))
            })
            .collect()
    }

    /// Network counters of a slot: rx packets, rx bytes, tx packets, tx bytes.
    pub fn network(&self, slot: u32) -> NetworkCell {
        let mut sum = NetworkCell { rx_packets: 0, rx_bytes: 0, tx_packets: 0, tx_bytes: 0 };
        for cpu in 0..self.cpus {
            let Some(cell) = self.network.read(cpu * self.capacity + slot as usize) else { continue };
            sum.rx_packets += cell.rx_packets;
            sum.rx_bytes += cell.rx_bytes;
            sum.tx_packets += cell.tx_packets;
            sum.tx_bytes += cell.tx_bytes;
        }
        sum
    }

    pub fn group(&self, slot: u32) -> Option<GroupCell> {
        self.group.read(slot as usize)
    }

    pub fn block(&self, slot: u32) -> Option<BlockCell> {
        self.block.read(slot as usize)
    }

    /// Records of a kind that found the ring full.
    pub fn lost(&self, kind: Kind) -> u64 {
        self.lost.read(kind as usize).unwrap_or(0)
    }

    /// New cgroups that got no slot, in the hierarchy where most did not.
    pub fn untracked(&self) -> u64 {
        (0..SPACES).filter_map(|i| self.untracked.read(i)).max().unwrap_or(0)
    }

    /// Zeroes a slot's CPU counters before it is given away again.
    pub fn zero_cpu(&self, slot: u32) {
        (0..self.cpus).for_each(|cpu| self.cpu.zero(cpu * self.capacity + slot as usize));
    }

    pub fn zero_network(&self, slot: u32) {
        (0..self.cpus).for_each(|cpu| self.network.zero(cpu * self.capacity + slot as usize));
    }

    pub fn zero_group(&self, slot: u32) {
        self.group.zero(slot as usize);
    }

    pub fn zero_block(&self, slot: u32) {
        self.block.zero(slot as usize);
    }
}
