//! The frequency of this machine's time stamp counter, which is that of its guests too: QEMU passes the
//! counter through (`cpu_get_host_ticks`). A guest's kernel would measure it at boot, against an emulated
//! timer, and on a busy machine it may be wrong by a factor: its clock then runs as much too fast.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// How long it is measured.
const SPAN: Duration = Duration::from_millis(100);
/// How often the two clocks are read together: the readings that took least are used.
const READINGS: usize = 20;

/// The frequency in kHz, measured once; `None` where there is no such counter.
pub fn frequency_khz() -> Option<u64> {
    static FREQUENCY: LazyLock<Option<u64>> = LazyLock::new(measure);
    *FREQUENCY
}

fn measure() -> Option<u64> {
    let (from, began) = both()?;
    std::thread::sleep(SPAN);
    let (to, ended) = both()?;
    let nanos = (ended - began).as_nanos();
    u64::try_from(u128::from(to.checked_sub(from)?) * 1_000_000 / nanos).ok().filter(|khz| *khz > 0)
}

/// The counter, and the time at which it was read.
fn both() -> Option<(u64, Instant)> {
    let readings = (0..READINGS).filter_map(|_| {
        let before = Instant::now();
        let ticks = counter()?;
        let took = before.elapsed();
        Some((took, ticks, before + took / 2))
    });
    readings.min_by_key(|(took, ..)| *took).map(|(_, ticks, at)| (ticks, at))
}

#[cfg(target_arch = "x86_64")]
fn counter() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets processes use it.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> Option<u64> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_frequency_is_measured_twice_alike() {
        let (one, other) = (measure().unwrap(), measure().unwrap());
        assert!((500_000..10_000_000).contains(&one), "{one} kHz");
        assert!(one.abs_diff(other) < one / 500, "{one} and {other} kHz");
    }
}
