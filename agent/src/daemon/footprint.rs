//! The heap: one for all threads, and free memory given back to the kernel.

/// Has all threads use one heap: readings are made and dropped by several threads, and glibc would keep a
/// heap for each.
pub fn use_one_heap() {
    // SAFETY: no preconditions; glibc only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives free memory back to the kernel: what loading the programs needed (the kernel's types take tens of
/// megabytes while they are parsed), and what a burst of pods or readings left.
pub fn trim() {
    // SAFETY: no preconditions; glibc only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
