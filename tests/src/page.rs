//! Pages of this machine's kernel: 4 KiB on most machines, 16 or 64 KiB on some.

use nix::unistd::{SysconfVar, sysconf};

/// Bytes of an ordinary page.
pub fn page_bytes() -> usize {
    let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).expect("_SC_PAGESIZE is known on every Linux")
}

/// `bytes` as the kernel's page counters keep them: rounded down to whole pages.
pub fn whole_pages(bytes: u64) -> u64 {
    let page = page_bytes() as u64;
    bytes / page * page
}
