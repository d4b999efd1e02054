//! Fills the queues of free slots. The agent has the kernel run this program once for each slot, with one
//! system call (BPF_PROG_TEST_RUN with `repeat`), where it would need one for each slot and space.

use aya_ebpf::{
    macros::{cgroup_skb, map},
    maps::{Array, Queue},
    programs::SkBuffContext,
};

use crate::{
    globals::{HIERARCHY_1, HIERARCHY_2, HIERARCHY_3, get},
    maps::{FREE_0, FREE_1, FREE_2, FREE_3},
};

/// The last slot that is in the queues of all spaces.
#[map]
static FILLED: Array<u32> = Array::with_max_entries(1, 0);

/// Puts the next slot into the queue of each space. Never attached, so that no packet runs it.
#[cgroup_skb]
pub fn fill_free_slots(_: SkBuffContext) -> i32 {
    let Some(filled) = FILLED.get_ptr_mut(0) else { return 0 };
    // SAFETY: a map value, which nothing else writes meanwhile.
    let slot = unsafe { *filled } + 1;
    // The first space is always used, if only for cgroups without a hierarchy. Not in a loop: the verifier
    // must know each queue.
    let used = |hierarchy: u32| hierarchy != u32::MAX;
    if put(&FREE_0, slot, true)
        && put(&FREE_1, slot, used(get(&HIERARCHY_1)))
        && put(&FREE_2, slot, used(get(&HIERARCHY_2)))
        && put(&FREE_3, slot, used(get(&HIERARCHY_3)))
    {
        // SAFETY: as above.
        unsafe { *filled = slot };
    }
    0
}

/// Returns false if the queue is used and has no room.
#[inline(always)]
fn put(queue: &Queue<u32>, slot: u32, used: bool) -> bool {
    !used || queue.push(&slot, 0).is_ok()
}
