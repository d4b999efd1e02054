//! Detects when a CPU of this machine stands still: those of a virtual machine run only while the hypervisor
//! lets them.
//!
//! A real-time thread on every CPU wakes every two milliseconds. If it wakes late and the kernel has counted
//! about as much stolen time for that CPU meanwhile (`steal` of /proc/stat,
//! Documentation/filesystems/proc.rst), nothing ran there, neither the agent nor the bench. Delays caused by
//! the guest's own kernel are not excused by this.
//!

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::judge::milliseconds;
use crate::harness::Failure;

const STAT: &str = "/proc/stat";
const PERIOD: Duration = Duration::from_millis(2);
/// Shorter delays are not reported, in milliseconds.
const LATE: f64 = 10.0;
/// The unit of /proc/stat (USER_HZ) in milliseconds.
const TICK: f64 = 10.0;

/// A time in which a CPU did not run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stall {
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Threads that watch the CPUs until they are stopped.
pub struct StallDetector {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Stall>>>,
}

impl StallDetector {
    /// Starts a thread on every CPU that this process may use.
    ///
    /// # Errors
    /// /proc/stat or the CPUs cannot be read.
    pub fn start() -> Result<Self, Failure> {
        let own = Pid::from_raw(0);
        let cpus =
            sched_getaffinity(own).map_err(|errno| Failure::file("sched_getaffinity")(errno.into()))?;
        let mut detector = Self { stop: Arc::default(), threads: Vec::new() };
        for cpu in (0..CpuSet::count()).filter(|cpu| cpus.is_set(*cpu).unwrap_or(false)) {
            let (file, stop) = (File::open(STAT).map_err(Failure::file(STAT))?, Arc::clone(&detector.stop));
            detector.threads.push(std::thread::spawn(move || watch(&file, cpu, &stop)));
        }
        Ok(detector)
    }

    /// Stops the threads. Returns every stall that was seen.
    pub fn stop(mut self) -> Vec<Stall> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).flat_map(|thread| thread.join().unwrap_or_default()).collect()
    }
}

impl Drop for StallDetector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Watches one CPU. If the thread cannot be bound to it, no stalls are reported, so nothing is excused.
fn watch(file: &File, cpu: usize, stop: &AtomicBool) -> Vec<Stall> {
    let mut stalls = Vec::new();
    let mut only = CpuSet::new();
    let on_it = only.set(cpu).and_then(|()| sched_setaffinity(Pid::from_raw(0), &only));
    if on_it.is_err() || set_realtime_priority().is_err() {
        return stalls;
    }
    let mut buffer = vec![0; 64 << 10];
    let mut stolen = |before: Option<f64>| read(file, cpu, &mut buffer).or(before);
    let mut before = (Timestamp::now(), stolen(None));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD);
        let at = Timestamp::now();
        let steal = stolen(before.1);
        let stood = before.1.zip(steal).map_or(0.0, |(from, to)| to - from);
        if is_stall(milliseconds(before.0, at), stood) {
            stalls.push(Stall { from: before.0, to: at });
        }
        before = (Timestamp::now(), steal);
    }
    stalls
}

/// Whether the CPU did not run while a thread slept for `away` milliseconds, with `stolen` milliseconds of
/// stolen time.
fn is_stall(away: f64, stolen: f64) -> bool {
    let late = away - PERIOD.as_secs_f64() * 1e3;
    // The kernel reports stolen time in whole ticks.
    late >= LATE && stolen + TICK >= late && stolen > 0.0
}

fn read(file: &File, cpu: usize, buffer: &mut [u8]) -> Option<f64> {
    let length = file.read_at(buffer, 0).ok()?;
    stolen(std::str::from_utf8(&buffer[..length]).ok()?, cpu)
}

/// Stolen milliseconds of one CPU, from the text of /proc/stat or its beginning.
fn stolen(stat: &str, cpu: usize) -> Option<f64> {
    let name = format!("cpu{cpu}");
    let mut words = stat.lines().map(str::split_ascii_whitespace).find_map(|mut words| {
        let is_it = words.next() == Some(&name);
        is_it.then_some(words)
    })?;
    Some(words.nth(7)?.parse::<u64>().ok()? as f64 * TICK)
}

/// Gives this thread real-time priority, so that it runs as soon as it wakes.
fn set_realtime_priority() -> nix::Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the calling thread (0), and a structure that outlives the call.
    nix::errno::Errno::result(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) }).map(drop)
}

/// The longest stall that overlaps the time from `from` to `to`, in milliseconds; 0 if there is none.
pub fn longest(stalls: &[Stall], from: Timestamp, to: Timestamp) -> f64 {
    let within = stalls.iter().filter(|stall| stall.to >= from && stall.from <= to);
    within.map(|stall| milliseconds(stall.from, stall.to)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_read_per_cpu() {
        let stat =
            "cpu  1 2 3 4 5 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 30 0 0\ncpu1 1 2 3 4 5 6 7 50 0 0\nintr 5\n";
        assert_eq!((stolen(stat, 0), stolen(stat, 1), stolen(stat, 2)), (Some(300.0), Some(500.0), None));
        assert_eq!(stolen("cpu0 1 2 3 4", 0), None);
    }

    #[test]
    fn a_delay_without_stolen_time_is_no_stall() {
        assert!(is_stall(52.0, 50.0));
        assert!(is_stall(13.0, 10.0));
        assert!(!is_stall(11.0, 10.0), "hardly late");
        assert!(!is_stall(52.0, 0.0), "the kernel delayed the thread");
        assert!(!is_stall(52.0, 30.0), "only part of it was stolen");
        assert!(!is_stall(15.0, 0.0), "nothing was stolen");
    }

    #[test]
    fn overlapping_stalls_count() {
        let at = |ms: i64| Timestamp::from_millisecond(1_700_000_000_000 + ms).unwrap();
        let stalls = [(0, 20), (50, 90), (200, 230)].map(|(from, to)| Stall { from: at(from), to: at(to) });
        assert_eq!(longest(&stalls, at(21), at(49)), 0.0);
        assert_eq!(longest(&stalls, at(10), at(49)), 20.0);
        assert_eq!(longest(&stalls, at(60), at(300)), 40.0);
    }

    #[test]
    fn the_threads_end() {
        let detector = StallDetector::start().unwrap();
        assert!(!detector.threads.is_empty());
        std::thread::sleep(Duration::from_millis(30));
        println!("{:?}", detector.stop());
    }
}
