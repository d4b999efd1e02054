//! Reading the clocks, to see later by how much the wall clock was set.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use nix::time::{ClockId, clock_gettime};

use nodewarden_model::ClockReading;

/// Both clocks now.
pub fn read_clocks() -> ClockReading {
    ClockReading { wall: Timestamp::now(), boot_id: boot_id(), boot_ns: boot_ns() }
}

fn boot_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

/// Which run of the machine this is.
fn boot_id() -> Arc<str> {
    static BOOT_ID: OnceLock<Arc<str>> = OnceLock::new();
    let id = BOOT_ID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        text.trim().into()
    });
    id.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_run() {
        let first = read_clocks();
        std::thread::sleep(Duration::from_millis(20));
        let second = read_clocks();
        assert!(second.boot_ns >= first.boot_ns + 20_000_000);
        assert!(Arc::ptr_eq(&first.boot_id, &second.boot_id), "it is in memory once");
        assert!(first.step_to(&second).is_zero());
        assert_eq!(first.boot_id.len(), 36, "{}", first.boot_id);
    }
}
