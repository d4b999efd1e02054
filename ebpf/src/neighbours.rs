//! Topic neighbours: whom tasks of a cgroup waited for. [`cpu`]: who ran on a CPU while they waited in its
//! run queue; [`disk`]: whose requests a disk served first; [`reclaim`]: for whose limit they reclaimed
//! memory.
//!
//! Each sum has two cgroups, by their kernel ids and not by slots, so that no sum is ever another cgroup's.

mod cpu;
mod disk;
mod reclaim;

use aya_ebpf::{
    bindings::BPF_NOEXIST,
    macros::map,
    maps::{Array, HashMap},
};
use nodewarden_ebpf_abi::{EARLIER, TURNS, Turn, Turns, WaitKey};

use crate::count::add;

/// Time in ns that tasks of one cgroup waited for another.
#[map]
static NEIGHBOUR_WAITS: HashMap<WaitKey, u64> = HashMap::with_max_entries(1, 0);
/// Time in ns for which there was no room in `NEIGHBOUR_WAITS`.
#[map]
static NEIGHBOURS_LOST: Array<u64> = Array::with_max_entries(1, 0);

const MASK: u64 = TURNS as u64 - 1;

/// Adds a turn, or prolongs the last one if it is of the same cgroup.
///
/// # Safety
/// `turns` must be in a map value.
#[inline(always)]
unsafe fn remember(turns: *mut Turns, cgroup: u64, end_ns: u64) {
    // SAFETY: as the caller says; the indexes are bounded.
    unsafe {
        let last = &raw mut (*turns).turns[((*turns).count.wrapping_sub(1) & MASK) as usize];
        if (*last).cgroup == cgroup && (*last).end_ns != 0 {
            (*last).end_ns = end_ns;
            return;
        }
        let next = &raw mut (*turns).turns[((*turns).count & MASK) as usize];
        next.write(Turn { cgroup, end_ns });
        (*turns).count += 1;
    }
}

/// Divides a wait of a task of `cgroup`, from `begin` to the end of the last turn, among the turns that lie
/// in it, the newest first. Those of the cgroup itself and of none are left out.
///
/// # Safety
/// `turns` must be in a map value.
#[inline(always)]
unsafe fn divide(turns: *const Turns, resource: u64, cgroup: u64, begin: u64) {
    // SAFETY: as the caller says; the indexes are bounded.
    let at = |back: u64| unsafe { (*turns).turns[((*turns).count.wrapping_sub(back) & MASK) as usize] };
    let mut turn = at(1);
    // The begin of the oldest turn is not known.
    for back in 2..=TURNS as u64 {
        if begin >= turn.end_ns {
            return;
        }
        let before = at(back);
        let from = if before.end_ns > begin { before.end_ns } else { begin };
        if turn.cgroup != 0 && turn.cgroup != cgroup && from < turn.end_ns {
            count(WaitKey { waiting: cgroup, neighbour: turn.cgroup, resource }, turn.end_ns - from);
        }
        turn = before;
    }
    if begin < turn.end_ns {
        count(WaitKey { waiting: cgroup, neighbour: EARLIER, resource }, turn.end_ns - begin);
    }
}

/// Adds to a sum.
#[inline(always)]
fn count(key: WaitKey, ns: u64) {
    if let Some(sum) = NEIGHBOUR_WAITS.get_ptr_mut(&key) {
        // SAFETY: a map value.
        unsafe { add(sum, ns) };
        return;
    }
    if NEIGHBOUR_WAITS.insert(&key, &ns, BPF_NOEXIST.into()).is_ok() {
        return;
    }
    // Another CPU has inserted it meanwhile, or there is no room.
    if let Some(sum) = NEIGHBOUR_WAITS.get_ptr_mut(&key).or_else(|| NEIGHBOURS_LOST.get_ptr_mut(0)) {
        // SAFETY: a map value.
        unsafe { add(sum, ns) };
    }
}
