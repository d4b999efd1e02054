//! Adding to counters that several CPUs share, and finding the histogram bucket of a latency.

use core::intrinsics::{AtomicOrdering, atomic_xadd};

use nodewarden_ebpf_abi::{GroupCell, LATENCY_BUCKETS, LATENCY_FIRST_SHIFT};

use crate::{
    globals::{SPACE_MEMORY, get},
    maps::GROUP_CELLS,
    slots::slot_of,
};

/// Adds `n` to a word that other CPUs add to as well.
///
/// # Safety
/// `word` must point into a map value.
#[inline(always)]
pub unsafe fn add(word: *mut u64, n: u64) {
    // SAFETY: aligned, and valid as long as the map value is. This is the intrinsic because core's atomics
    // have no read-modify-write operations for this target.
    unsafe { atomic_xadd::<u64, u64, { AtomicOrdering::Relaxed }>(word, n) };
}

/// The counters of the cgroup with kernel id `id` in the memory controller's hierarchy, or the shared ones of
/// slot `UNTRACKED` if it has no slot.
#[inline(always)]
pub fn group_cell(id: u64) -> Option<*mut GroupCell> {
    GROUP_CELLS.get_ptr_mut(slot_of(get(&SPACE_MEMORY), id))
}

/// Index of the bucket of a latency: the bit length of `ns >> LATENCY_FIRST_SHIFT`, at most the last bucket.
/// eBPF has no instruction for the bit length, so it is found by halving the range.
#[inline(always)]
pub fn bucket(ns: u64) -> usize {
    let mut v = ns >> LATENCY_FIRST_SHIFT;
    let mut b = 0usize;
    if v >= 1 << (LATENCY_BUCKETS - 2) {
        return LATENCY_BUCKETS - 1;
    }
    if v >= 1 << 16 {
        b += 16;
        v >>= 16;
    }
    if v >= 1 << 8 {
        b += 8;
        v >>= 8;
    }
    if v >= 1 << 4 {
        b += 4;
        v >>= 4;
    }
    if v >= 1 << 2 {
        b += 2;
        v >>= 2;
    }
    if v >= 2 {
        b += 1;
        v >>= 1;
    }
    b + v as usize
}
