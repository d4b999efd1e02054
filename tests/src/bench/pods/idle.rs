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
    /// Wake-ups of all threads a minute, but for waits for pages of code from the disk.
    pub wakes: f64,
    /// All of the resident memory, in bytes.
    pub resident: u64,
    /// Resident memory without mapped eBPF maps, which belong to the kernel, in bytes.
    pub own: u64,
}

/// Measures the agent for `time`, and prints the CPU time and the wake-ups of each thread.
///
/// # Errors
/// The agent cannot be read.
pub fn cost(run: &Run<'_>, fixture: &PodsFixture<'_>, time: Duration) -> Result<Cost, Failure> {
    std::thread::sleep(REST);
    let agent = fixture.agent();
    let earlier = CpuByThread::of(agent.pid());
    let (before, begun) = (agent.cpu_time()?, Instant::now());
    std::thread::sleep(time);
    let minutes = begun.elapsed().as_secs_f64() / 60.0;
    let cpu = (agent.cpu_time()? - before).as_secs_f64() / minutes;
    let (wakes, _) = earlier.wakes_since(agent.pid());
    let wakes = wakes as f64 / minutes;
    let by_thread = earlier.since(agent.pid(), begun.elapsed());
    run.progress(&format!("CPU by thread, ms a minute (wake-ups): {by_thread}"));
    // From outside: a request would have the agent map code that it does not use when it is idle.
    let (resident, mapped) = agent.resident_bytes()?;
    Ok(Cost { cpu, wakes, resident, own: resident.saturating_sub(mapped) })
}

/// CPU times and wake-ups of a process's threads at one moment.
pub struct CpuByThread(BTreeMap<u32, Ran>);

/// How long a thread has run, and how often it has slept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ran {
    name: String,
    ns: u64,
    /// Voluntary context switches: as often it was woken.
    wakes: u64,
    /// How often it waited for a page of code or constants that the machine had dropped from its page cache
    /// (major faults). Each wait is a voluntary switch too.
    faults: u64,
}

impl CpuByThread {
    pub fn of(pid: u32) -> Self {
        Self(threads(pid))
    }

    /// What each thread has used since then in ms a minute, with its wake-ups a minute, the largest first.
    /// `time` is how long that is.
    pub fn since(&self, pid: u32, time: Duration) -> String {
        grown(&self.0, &threads(pid), time)
    }

    /// What all threads and each of them have used since then in ms, the largest first.
    pub fn used_since(&self, pid: u32) -> String {
        used(differences(&self.0, &threads(pid)))
    }

    /// Wake-ups of all threads since then, and how many more times they waited for a page from the disk.
    pub fn wakes_since(&self, pid: u32) -> (u64, u64) {
        let grown = differences(&self.0, &threads(pid));
        let faults = grown.values().map(|ran| ran.faults).sum();
        (grown.values().map(|ran| ran.wakes).sum::<u64>().saturating_sub(faults), faults)
    }
}

/// What a process's threads have used, by their ids. Threads that have ended are missing.
fn threads(pid: u32) -> BTreeMap<u32, Ran> {
    let mut threads = BTreeMap::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).ok();
        let (Some(name), Some(scheduled)) = (read("comm"), read("schedstat")) else { continue };
        let Some(id) = task.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
        // The first number is the time on a CPU (Documentation/scheduler/sched-stats.rst).
        let on_cpu = scheduled.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
        let wakes = read("status").and_then(|text| voluntary(&text)).unwrap_or(0);
        let faults = read("stat").and_then(|text| major_faults(&text)).unwrap_or(0);
        threads.insert(id, Ran { name: name.trim().to_owned(), ns: on_cpu.unwrap_or(0), wakes, faults });
    }
    threads
}

/// What the threads have used between two readings, by name.
fn differences(before: &BTreeMap<u32, Ran>, after: &BTreeMap<u32, Ran>) -> BTreeMap<String, Ran> {
    let mut all = BTreeMap::<String, Ran>::new();
    for (id, now) in after {
        let then = before.get(id).cloned().unwrap_or_default();
        let sum = all.entry(now.name.clone()).or_default();
        sum.ns += now.ns.saturating_sub(then.ns);
        sum.wakes += now.wakes.saturating_sub(then.wakes);
        sum.faults += now.faults.saturating_sub(then.faults);
    }
    all
}

/// The sum and each thread's part, the largest first.
fn used(differences: BTreeMap<String, Ran>) -> String {
    let ms = |ns: u64| ns as f64 / 1e6;
    let all: u64 = differences.values().map(|ran| ran.ns).sum();
    let mut parts: Vec<_> = differences.into_iter().filter(|(_, ran)| ran.ns >= 1_000_000).collect();
    parts.sort_by_key(|(_, ran)| std::cmp::Reverse(ran.ns));
    let parts: Vec<_> = parts.into_iter().map(|(name, ran)| format!("{name} {:.0}", ms(ran.ns))).collect();
    format!("{:.0} ({})", ms(all), parts.join(", "))
}

fn voluntary(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// `majflt` of proc_pid_stat(5). The name before it, in parentheses, may have any character.
fn major_faults(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(9)?.parse().ok()
}

/// What each thread has used between two readings, per minute, the largest first.
fn grown(before: &BTreeMap<u32, Ran>, after: &BTreeMap<u32, Ran>, time: Duration) -> String {
    let minutes = time.as_secs_f64() / 60.0;
    let grown = differences(before, after).into_iter();
    let grown = grown.map(|(name, ran)| (ran.ns as f64 / 1e6 / minutes, ran.wakes as f64 / minutes, name));
    let mut grown = grown.filter(|(ms, ..)| *ms >= 0.1).collect::<Vec<_>>();
    grown.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = grown.into_iter().map(|(ms, wakes, name)| format!("{name} {ms:.1} ({wakes:.0})"));
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
        let of = |list: &[(u32, &str, u64, u64)]| {
            let ran = |name: &str, ns, wakes| Ran { name: name.to_owned(), ns, wakes, faults: 0 };
            list.iter().map(|(id, name, ns, wakes)| (*id, ran(name, *ns, *wakes))).collect()
        };
        // Of two threads of one name the one that had used most has ended.
        let (before, after) = (
            of(&[(1, "a", 1_000_000, 3), (2, "a", 90_000_000, 99), (3, "c", 5, 0)]),
            of(&[(1, "a", 2_000_000, 7), (4, "b", 5_000_000, 2), (3, "c", 6, 0)]),
        );
        assert_eq!(grown(&before, &after, Duration::from_secs(30)), "b 10.0 (4), a 2.0 (8)");
        assert!(threads(std::process::id()).values().any(|ran| ran.ns > 0));
    }

    #[test]
    fn what_threads_used_is_added_up() {
        let ran = |ns| Ran { ns, ..Ran::default() };
        let parts = [("a", 600_000), ("b", 2_000_000), ("c", 5_000_000)];
        let parts = parts.map(|(name, ns)| (name.to_owned(), ran(ns)));
        assert_eq!(used(BTreeMap::from(parts)), "8 (c 5, b 2)");
    }

    #[test]
    fn wake_ups_are_read_from_the_status() {
        let text = "Threads:\t3\nvoluntary_ctxt_switches:\t77\nnonvoluntary_ctxt_switches:\t5\n";
        assert_eq!(voluntary(text), Some(77));
        assert_eq!(voluntary("Threads:\t3\n"), None);
        assert_eq!(major_faults("7 (a) b) S 1 2 3 0 -1 4 10 0 55 0 6"), Some(55));
        assert_eq!(major_faults("7 (a) S 1 2"), None);
    }

    #[test]
    fn resident_memory_is_read_from_the_status() {
        assert_eq!(parse("VmHWM:\t  9 kB\nVmRSS:\t   20 kB\n"), Some(20 * 1024));
        assert_eq!(parse("VmHWM:\t  9 kB\n"), None);
    }
}
