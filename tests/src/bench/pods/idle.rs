//! Measures what the agent uses while pods just run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::fixture::PodsFixture;
use crate::bench::Run;
use crate::harness::Failure;

/// Pause before the measurement.
const REST: Duration = Duration::from_secs(5);

/// What the agent uses.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// CPU seconds per minute.
    pub cpu: f64,
    /// `VmRSS` in bytes.
    pub resident: u64,
    /// Resident memory without the mapped eBPF arrays, which belong to the kernel, in bytes: as the agent's
    /// status reports it.
    pub own: u64,
}

/// Measures the agent for `time`, and prints the CPU time of each thread.
///
/// # Errors
/// The agent cannot be read.
pub fn cost(run: &Run<'_>, fixture: &PodsFixture<'_>, time: Duration) -> Result<Cost, Failure> {
    std::thread::sleep(REST);
    let agent = fixture.agent();
    let earlier = CpuByThread::of(agent.pid());
    let (before, begun) = (agent.cpu_time()?, Instant::now());
    std::thread::sleep(time);
    let cpu = (agent.cpu_time()? - before).as_secs_f64() * 60.0 / begun.elapsed().as_secs_f64();
    run.progress(&format!("CPU by thread, ms a minute: {}", earlier.since(agent.pid(), begun.elapsed())));
    let resident = resident(agent.pid())?;
    Ok(Cost { cpu, resident, own: agent.client()?.status()?.resident_bytes })
}

/// CPU times of a process's threads at one moment.
pub struct CpuByThread(BTreeMap<String, u64>);

impl CpuByThread {
    pub fn of(pid: u32) -> Self {
        Self(threads(pid))
    }

    /// What each thread has used since then in ms a minute, the largest first. `time` is how long that is.
    pub fn since(&self, pid: u32, time: Duration) -> String {
        grown(&self.0, &threads(pid), time)
    }
}

/// CPU time of a process's threads in nanoseconds, by name. Threads that have ended are missing.
fn threads(pid: u32) -> BTreeMap<String, u64> {
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        let (Some(name), Some(scheduled)) = (read("comm"), read("schedstat")) else { continue };
        // The first number is the time on a CPU (Documentation/scheduler/sched-stats.rst).
        let on_cpu = scheduled.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
        *threads.entry(name.trim().to_owned()).or_default() += on_cpu.unwrap_or(0);
    }
    threads
}

/// The CPU time of each thread between two readings in ms per minute, the largest first.
fn grown(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>, time: Duration) -> String {
    let grown = after.iter().map(|(name, now)| {
        let took = now.saturating_sub(before.get(name).copied().unwrap_or(0));
        (took as f64 / 1e6 * 60.0 / time.as_secs_f64(), name)
    });
    let mut grown = grown.filter(|(ms, _)| *ms >= 0.1).collect::<Vec<_>>();
    grown.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = grown.into_iter().map(|(ms, name)| format!("{name} {ms:.1}"));
    words.collect::<Vec<_>>().join(", ")
}

/// `VmRSS` of a process in bytes.
///
/// # Errors
/// It has ended.
pub fn resident(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    parse(&text).ok_or_else(|| Failure::Unexpected(format!("{path} has no VmRSS")))
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_sorted_by_cpu_time() {
        let of = |list: &[(&str, u64)]| list.iter().map(|(name, ns)| (name.to_string(), *ns)).collect();
        let (before, after) =
            (of(&[("a", 1_000_000), ("c", 5)]), of(&[("a", 2_000_000), ("b", 5_000_000), ("c", 6)]));
        assert_eq!(grown(&before, &after, Duration::from_secs(30)), "b 10.0, a 2.0");
        assert!(threads(std::process::id()).values().any(|ns| *ns > 0));
    }

    #[test]
    fn resident_memory_is_read_from_the_status() {
        assert_eq!(parse("VmHWM:\t  9 kB\nVmRSS:\t   20 kB\n"), Some(20 * 1024));
        assert_eq!(parse("VmHWM:\t  9 kB\n"), None);
    }
}
