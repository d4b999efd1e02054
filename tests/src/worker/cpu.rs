//! Workloads that keep a CPU busy.

use std::time::{Duration, Instant};

use super::WorkError;
use super::report::{Pauses, Pulsed, Scheduled};

/// Uses a CPU for `milliseconds` and returns what `/proc/self/schedstat` counted meanwhile.
pub fn spin(milliseconds: u64) -> Result<Scheduled, WorkError> {
    let before = schedstat()?;
    let end = Instant::now() + Duration::from_millis(milliseconds);
    busy_until(end);
    // The kernel accounts the time on the CPU when the task leaves it.
    std::thread::sleep(Duration::from_millis(1));
    let after = schedstat()?;
    Ok(Scheduled {
        on_cpu_ns: after.on_cpu_ns.saturating_sub(before.on_cpu_ns),
        waited_ns: after.waited_ns.saturating_sub(before.waited_ns),
        on_cpu_in_all_ns: after.on_cpu_ns,
        waited_in_all_ns: after.waited_ns,
    })
}

/// Sleeps for `every_us` and works for `busy_us` by turns, for `milliseconds` in all. Returns how long it
/// waited for a CPU in each turn.
pub fn pulse(milliseconds: u64, every_us: u64, busy_us: u64) -> Result<Pulsed, WorkError> {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let mut waited_ns = Vec::new();
    let mut before = schedstat()?.waited_ns;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_micros(every_us));
        busy_until(Instant::now() + Duration::from_micros(busy_us));
        let now = schedstat()?.waited_ns;
        waited_ns.push(now.saturating_sub(before));
        before = now;
    }
    Ok(Pulsed { waited_ns })
}

/// Looks at the clock for `milliseconds` without doing anything else. What lies between two looks and is more
/// than [`LOOK`] is a pause: something else had the CPU.
pub fn pauses(milliseconds: u64) -> Pauses {
    let begun = Instant::now();
    let end = begun + Duration::from_millis(milliseconds);
    let mut pauses = Pauses::default();
    let mut last = begun;
    while last < end {
        let now = Instant::now();
        let pause = now - last;
        last = now;
        if pause > LOOK {
            let ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
            pauses.worst_ns = pauses.worst_ns.max(ns);
            pauses.total_ns += ns;
            pauses.count += 1;
        }
    }
    pauses.in_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    pauses
}

/// Two looks at the clock are no further apart than this unless something else had the CPU.
const LOOK: Duration = Duration::from_micros(20);

fn busy_until(end: Instant) {
    let mut x = 1u64;
    while Instant::now() < end {
        for _ in 0..1_000 {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Reads this process's schedstat: time on a CPU, time waiting for one (both in ns), number of time slices
/// (Documentation/scheduler/sched-stats.rst).
fn schedstat() -> Result<Times, WorkError> {
    let text = std::fs::read_to_string("/proc/self/schedstat").map_err(WorkError::system("schedstat"))?;
    let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
    Ok(Times { on_cpu_ns: numbers.next().unwrap_or(0), waited_ns: numbers.next().unwrap_or(0) })
}

struct Times {
    on_cpu_ns: u64,
    waited_ns: u64,
}
