//! What the agent holds of the node's memory, kept small: one heap, and given back what is no longer used.

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

/// Lets go of the program's own code and constants as mapped until now: half of it only starts the agent, and of the rest much runs
/// once in hours. What runs on is mapped again at its next use, from the page cache (some hundred faults, well below a
/// millisecond).
pub fn forget_code() {
    let Ok(maps) = procfs::process::Process::myself().and_then(|own| own.maps()) else { return };
    let Ok(program) = std::env::current_exe() else { return };
    for map in maps {
        use procfs::process::{MMPermissions, MMapPath};
        let constant = MMPermissions::READ | MMPermissions::PRIVATE;
        let code = constant | MMPermissions::EXECUTE;
        // What the linker's relocations wrote to is read-only too by now, and lies further back in the file.
        let is_untouched = map.perms == code || (map.perms == constant && map.offset == 0);
        if is_untouched && matches!(&map.pathname, MMapPath::Path(path) if *path == program) {
            let (from, to) = map.address;
            let (Ok(start), Ok(length)) = (usize::try_from(from), usize::try_from(to - from)) else {
                continue;
            };
            // SAFETY: a private mapping of a file that is not writable and so has no page of its own: each is read
            // again as it was (madvise(2), MADV_DONTNEED).
            let _ = unsafe { libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED) };
        }
    }
}
