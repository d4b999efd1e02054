//! Topic network: IP packets and their bytes (with headers) by the cgroup of their socket. Counted by two
//! programs at the root of the unified hierarchy, one for each direction.

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, generated::bpf_skb_cgroup_id},
    macros::{cgroup_skb, map},
    maps::Array,
    programs::SkBuffContext,
};
use nodewarden_ebpf_abi::NetworkCell;

use crate::{
    count::add,
    globals::{CAPACITY, SPACE_UNIFIED, get},
    maps::MMAPABLE,
    slots::slot_of,
};

/// Network counters, indexed by CPU × capacity + slot.
#[map]
static NETWORK_CELLS: Array<NetworkCell> = Array::with_max_entries(1, MMAPABLE);

/// Return value: let the packet pass.
const PASS: i32 = 1;

/// The counters of the packet's cgroup on this CPU.
#[inline(always)]
fn cell(ctx: &SkBuffContext) -> Option<*mut NetworkCell> {
    // SAFETY: the context's own skb.
    let id = unsafe { bpf_skb_cgroup_id(ctx.skb.skb) };
    // SAFETY: no arguments.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    NETWORK_CELLS.get_ptr_mut(cpu * get(&CAPACITY) + slot_of(get(&SPACE_UNIFIED), id))
}

#[cgroup_skb]
pub fn network_ingress(ctx: SkBuffContext) -> i32 {
    if let Some(cell) = cell(&ctx) {
        // SAFETY: a map value. Atomic because an interrupt may count on the same CPU.
        unsafe {
            add(&raw mut (*cell).rx_packets, 1);
            add(&raw mut (*cell).rx_bytes, ctx.len().into());
        }
    }
    PASS
}

#[cgroup_skb]
pub fn network_egress(ctx: SkBuffContext) -> i32 {
    if let Some(cell) = cell(&ctx) {
        // SAFETY: as above.
        unsafe {
            add(&raw mut (*cell).tx_packets, 1);
            add(&raw mut (*cell).tx_bytes, ctx.len().into());
        }
    }
    PASS
}
