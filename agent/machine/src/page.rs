//! The size of the kernel's ordinary pages.

use std::sync::LazyLock;

use nix::unistd::{SysconfVar, sysconf};

/// Bytes of an ordinary page (sysconf(3), `_SC_PAGESIZE`): 4 KiB, 16 KiB or 64 KiB.
pub fn page_bytes() -> u64 {
    static BYTES: LazyLock<u64> = LazyLock::new(|| {
        let bytes = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        // Linux always knows it.
        bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(4096)
    });
    *BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_power_of_two() {
        assert!(page_bytes() >= 4096 && page_bytes().is_power_of_two(), "{}", page_bytes());
    }
}
