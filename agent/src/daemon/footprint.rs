//! The heap: one for all threads, and free memory given back to the kernel.

/// Size from which on a block is no part of the heap, in bytes: glibc's value at the start of a process.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// Has all threads use one heap: readings are made and dropped by several threads, and glibc would keep a
/// heap for each. Large blocks (lists of the runtime, texts of scrapes) stay out of it as long as the agent
/// runs: glibc would put those into the heap that are no larger than one that was freed, and what is small
/// and stays comes to lie between them.
pub fn shape_heap() {
    // SAFETY: no preconditions; glibc only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
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
