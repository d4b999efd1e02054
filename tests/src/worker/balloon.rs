//! A worker that holds a known amount of each kind of memory before it runs out of memory.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::memory::EATER;
use super::report::Ready;
use super::{WorkError, say, wait_for_line};
use crate::page::page_bytes;

/// How many bytes of each kind of memory to hold.
#[derive(clap::Args)]
pub struct Balloon {
    /// Private anonymous memory.
    anonymous: u64,
    /// Shared memory, which the kernel counts as shmem.
    shared: u64,
    /// Mapped pages of this program's file, at most its length.
    file: u64,
    /// Anonymous memory to touch after the next line of input. It is mapped from the start.
    then: u64,
}

impl Balloon {
    /// Touches all memory but the last kind and reports that, waits for a line, then touches the last kind
    /// too.
    pub fn run(&self) -> Result<(), WorkError> {
        nix::sys::prctl::set_name(EATER).map_err(WorkError::system("prctl"))?;
        let own = File::open("/proc/self/exe").map_err(WorkError::system("open"))?;
        let length = own.metadata().map_err(WorkError::system("stat"))?.len();
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let anonymous = map(self.anonymous, writable, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None)?;
        let shared = map(self.shared, writable, libc::MAP_SHARED | libc::MAP_ANONYMOUS, None)?;
        let file = self.file.min(length);
        let mapped = map(file, libc::PROT_READ, libc::MAP_PRIVATE, Some(&own))?;
        let then = map(self.then, writable, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, None)?;
        touch(anonymous, self.anonymous);
        touch(shared, self.shared);
        for offset in (0..file as usize).step_by(page_bytes()) {
            // SAFETY: within the mapping made above; the file is as long.
            std::hint::black_box(unsafe { mapped.add(offset).read_volatile() });
        }
        say(&Ready { ready: std::process::id() })?;
        if wait_for_line() {
            touch(then, self.then);
        }
        Ok(())
    }
}

/// Maps `bytes` at an address that the kernel chooses. The mapping is never removed.
fn map(
    bytes: u64,
    protection: libc::c_int,
    flags: libc::c_int,
    file: Option<&File>,
) -> Result<*mut u8, WorkError> {
    let fd = file.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: a fresh mapping; no address is asked for.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes as usize, protection, flags, fd, 0) };
    if start == libc::MAP_FAILED {
        return Err(WorkError::system("mmap")(std::io::Error::last_os_error()));
    }
    // Small pages, so that memory grows evenly. Kernels without huge pages return an error, which does no
    // harm.
    // SAFETY: the range mapped above.
    unsafe { libc::madvise(start, bytes as usize, libc::MADV_NOHUGEPAGE) };
    Ok(start.cast())
}

fn touch(start: *mut u8, bytes: u64) {
    for offset in (0..bytes as usize).step_by(page_bytes()) {
        // SAFETY: within a writable mapping of so many bytes.
        unsafe { start.add(offset).write_volatile(1) };
    }
}
