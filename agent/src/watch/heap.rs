//! The agent's heap: one, and no larger than what is in it.

/// Keeps the heap together: readings are made and dropped by several threads, and glibc would let each keep a heap
/// of its own.
pub fn keep_together() {
    // SAFETY: no preconditions; glibc only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives free memory back to the kernel: what loading needed, where the kernel's types are tens of megabytes while they
/// are parsed, and what a hundred pods that came or went at once have left between the blocks that stay. glibc by itself
/// gives back only what is free at the heap's end.
pub fn trim() {
    // SAFETY: no preconditions; glibc only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
