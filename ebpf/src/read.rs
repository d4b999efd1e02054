//! Reading kernel structures, in two ways: `field` is a plain load through a typed pointer of a BTF
//! tracepoint, which the verifier checks against the kernel's BTF and the JIT turns into one instruction;
//! `probe` copies from anywhere with a helper call, for pointers the verifier has no type for.

use core::ptr;

use aya_ebpf::helpers::{
    bpf_probe_read_kernel, generated::bpf_probe_read_kernel as bpf_probe_read_kernel_raw,
};

use crate::globals::get;

/// A pointer to kernel memory.
pub type Ptr = *const u8;

/// Loads a field of the structure that a BTF-typed pointer points to; `offset` is the global with the field's
/// offset.
///
/// # Safety
/// `base` must be a pointer whose type the verifier knows.
#[inline(always)]
pub unsafe fn field<T: Copy>(base: Ptr, offset: &u32) -> T {
    // SAFETY: the verifier refuses the program unless this is a member of the pointer's type; a bad address
    // reads as 0 through the kernel's exception table.
    unsafe { ptr::read_volatile(base.add(get(offset) as usize).cast::<T>()) }
}

/// Copies a `T` from `base + offset`; `None` if the address is not valid.
#[inline(always)]
pub fn probe<T: Copy>(base: Ptr, offset: u32) -> Option<T> {
    if base.is_null() {
        return None;
    }
    // SAFETY: the helper checks the address itself.
    unsafe { bpf_probe_read_kernel(base.wrapping_add(offset as usize).cast::<T>()).ok() }
}

/// The 64 bits at `base + offset`; 0 if the address is not valid. Unlike [`probe`] it has no branch, which
/// the verifier would follow in each round of a loop.
#[inline(always)]
pub fn probe_or_zero(base: Ptr, offset: u32) -> u64 {
    let mut value = 0u64;
    // SAFETY: the helper checks the address itself, writes 8 bytes, and writes zeros when it fails.
    unsafe {
        let from = base.wrapping_add(offset as usize).cast();
        bpf_probe_read_kernel_raw((&raw mut value).cast(), size_of::<u64>() as u32, from);
    }
    value
}
