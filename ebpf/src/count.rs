//! Adding to counters that several CPUs share, and finding the histogram bucket of a latency.

use core::{
    arch::asm,
    intrinsics::{AtomicOrdering, atomic_xadd},
};

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

/// By the hash of a power of two in [`bucket`]: its exponent.
static EXPONENTS: [u8; 32] = [
    0, 1, 28, 2, 29, 14, 24, 3, 30, 22, 20, 15, 25, 17, 4, 8, 31, 27, 13, 23, 21, 19, 16, 7, 26, 12, 18, 6,
    11, 5, 10, 9,
];

/// Index of the bucket of a latency: the bit length of `ns >> LATENCY_FIRST_SHIFT`, at most the last bucket.
/// eBPF has no instruction for the bit length. All bits below the highest are set, which makes one less than
/// a power of two, whose exponent is found by multiplying with a de Bruijn sequence: branches would be
/// mispredicted.
#[inline(always)]
pub fn bucket(ns: u64) -> usize {
    let units = ns >> LATENCY_FIRST_SHIFT;
    if units >= 1 << (LATENCY_BUCKETS - 2) {
        return LATENCY_BUCKETS - 1;
    }
    let mut bits = units as u32;
    bits |= bits >> 1;
    bits |= bits >> 2;
    bits |= bits >> 4;
    bits |= bits >> 8;
    bits |= bits >> 16;
    let hash = (bits + 1).wrapping_mul(0x077C_B531) >> 27;
    // SAFETY: 5 bits.
    let mut exponent = u64::from(unsafe { *EXPONENTS.get_unchecked(hash as usize & 31) });
    // SAFETY: plain arithmetic. It changes nothing, and keeps the compiler from comparing a copy of the value
    // in place of the value, which the verifier would not understand.
    unsafe { asm!("{0} &= 31", inout(reg) exponent, options(pure, nomem, nostack)) };
    exponent as usize
}
