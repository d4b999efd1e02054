//! How long each part of `cargo xtask test` took, and how busy the CPUs were meanwhile.

use std::fs;
use std::time::{Duration, Instant};

/// The time of one run of `cargo xtask test`.
#[derive(Debug, Clone)]
pub struct Clock {
    begun: Instant,
    cpus_then: Option<CpuTime>,
    parts: Vec<Part>,
}

/// One part of the run.
#[derive(Debug, Clone, Copy)]
struct Part {
    name: &'static str,
    took: Duration,
    /// Share of the CPUs' time that was used, in percent, by whatever ran on the machine.
    busy: Option<u64>,
}

/// What `/proc/stat` shows of all CPUs together, in ticks since the start of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTime {
    used: u64,
    all: u64,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self { begun: Instant::now(), cpus_then: CpuTime::now(), parts: Vec::new() }
    }

    /// A part has ended, and the next begins.
    pub fn ended(&mut self, name: &'static str) {
        let (now, cpus) = (Instant::now(), CpuTime::now());
        let busy = self.cpus_then.zip(cpus).and_then(|(then, now)| now.busy_since(then));
        self.parts.push(Part { name, took: now - self.begun, busy });
        (self.begun, self.cpus_then) = (now, cpus);
    }

    /// What took how long, on one line.
    pub fn summary(&self) -> String {
        let parts = self.parts.iter().map(|part| {
            let busy = part.busy.map(|percent| format!(" (CPUs {percent} % busy)")).unwrap_or_default();
            format!("{} {}{busy}", part.name, span(part.took))
        });
        let whole = self.parts.iter().map(|part| part.took).sum::<Duration>();
        format!("took {}: {}\n", span(whole), parts.collect::<Vec<_>>().join(", "))
    }
}

impl CpuTime {
    fn now() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the line of all CPUs: user, nice, system, idle, iowait, irq, softirq, steal, and guest times
    /// that are part of the first two (proc_stat(5)).
    fn read(stat: &str) -> Option<Self> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8);
        let numbers = numbers.map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let all = numbers.iter().sum::<u64>();
        Some(Self { used: all - numbers.get(3)? - numbers.get(4)?, all })
    }

    fn busy_since(self, then: Self) -> Option<u64> {
        (100 * self.used.checked_sub(then.used)?).checked_div(self.all.checked_sub(then.all)?)
    }
}

/// Minutes and seconds.
fn span(took: Duration) -> String {
    let seconds = took.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_their_sum() {
        let mut clock = Clock::start();
        let part = |name, millis, busy| Part { name, took: Duration::from_millis(millis), busy };
        clock.parts = vec![part("setup", 61_000, Some(98)), part("unit tests", 59_600, None)];
        assert_eq!(clock.summary(), "took 2:01: setup 1:01 (CPUs 98 % busy), unit tests 1:00\n");
        clock.ended("nothing");
        assert_eq!(clock.parts.len(), 3);
    }

    #[test]
    fn waiting_for_disks_is_idle_time() {
        let then = CpuTime::read("cpu  10 0 10 70 10 0 0 0 5 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!(then, CpuTime { used: 20, all: 100 });
        let now = CpuTime::read("cpu  40 0 20 110 20 5 3 2 5 0\n").unwrap();
        assert_eq!(now.busy_since(then), Some(50));
        assert_eq!(then.busy_since(then), None);
        assert_eq!(then.busy_since(now), None);
        assert_eq!(CpuTime::read("intr 5\n"), None);
    }
}
