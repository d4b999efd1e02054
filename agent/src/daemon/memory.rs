//! What the agent holds of the node's memory, kept small: one heap, and given back what is no longer used.

mod code;

pub use code::{forget_code, map_what_runs};

/// Keeps the heap together: readings are made and dropped by several threads, and glibc would let each keep a heap
/// of its own.
pub fn one_heap() {
    // SAFETY: no preconditions; glibc only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives free memory back to the kernel: what loading needed (the kernel's types are tens of megabytes while they are
/// parsed), and what a burst of pods or readings left.
pub fn trim() {
    // SAFETY: no preconditions; glibc only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
