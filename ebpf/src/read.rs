//! Reading kernel structures, in two ways: `field` is a plain load through a typed pointer of a BTF
//! tracepoint, which the verifier checks against the kernel's BTF and the JIT turns into one instruction;
//! `probe` copies from anywhere with a helper call, for pointers the verifier has no type for.

use core::ptr;

use aya_ebpf::helpers::bpf_probe_read_kernel;

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
