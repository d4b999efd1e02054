//! The least time from a kill to a process that waits for it: a thread that reads the kernel's own records of
//! the same tracepoint (tracefs), without an agent.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};

use crate::harness::Failure;

const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// As the agent's readers.
const NICE: i32 = -20;
/// How long the reader goes on after the last kill.
const REST: Duration = Duration::from_millis(500);

/// Reads until it is finished or dropped.
pub struct BareReader {
    instance: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Seen>>>,
}

/// A kill that was read: the victim, and milliseconds since the kernel recorded it.
pub struct Seen {
    pub pid: u32,
    pub after_ms: f64,
}

impl BareReader {
    /// `None` where tracefs is not mounted.
    pub fn start() -> Result<Option<Self>, Failure> {
        if !Path::new(INSTANCES).is_dir() {
            return Ok(None);
        }
        let instance = Path::new(INSTANCES).join(format!("nodewarden-bench-{}", std::process::id()));
        fs::create_dir(&instance).map_err(Failure::file(&instance))?;
        let mut this = Self { instance, stop: Arc::default(), thread: None };
        this.write("trace_clock", "mono")?;
        this.write("events/oom/mark_victim/enable", "1")?;
        let path = this.instance.join("trace_pipe");
        let mut options = OpenOptions::new();
        let pipe = options.read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let pipe = pipe.map_err(Failure::file(&path))?;
        let stop = this.stop.clone();
        this.thread = Some(thread::spawn(move || read(pipe, &stop)));
        Ok(Some(this))
    }

    /// Every kill since the start.
    pub fn finish(mut self) -> Vec<Seen> {
        thread::sleep(REST);
        self.end()
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Failure> {
        let path = self.instance.join(file);
        fs::write(&path, value).map_err(Failure::file(&path))
    }

    fn end(&mut self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for BareReader {
    fn drop(&mut self) {
        self.end();
        let _ = self.write("events/oom/mark_victim/enable", "0");
        // With its files, which cannot be removed one by one.
        let _ = fs::remove_dir(&self.instance);
    }
}

fn read(mut pipe: fs::File, stop: &AtomicBool) -> Vec<Seen> {
    // SAFETY: plain system call on the calling thread (who 0). Where it is refused the reader is slower.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    let (mut seen, mut buffer) = (Vec::new(), [0; 8192]);
    while !stop.load(Ordering::Acquire) {
        let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut ready, PollTimeout::from(50_u16)), Ok(1)) {
            continue;
        }
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        match pipe.read(&mut buffer) {
            Ok(length) => {
                let text = String::from_utf8_lossy(&buffer[..length]);
                seen.extend(text.lines().filter_map(|line| one(line, now)));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return seen,
        }
    }
    seen
}

/// A line of trace_pipe: `task-pid [cpu] flags seconds.micros: mark_victim: pid=1 …`.
fn one(line: &str, now: Duration) -> Option<Seen> {
    let (head, fields) = line.split_once(": mark_victim: ")?;
    let at: f64 = head.rsplit(' ').next()?.parse().ok()?;
    let pid = fields.split(' ').find_map(|field| field.strip_prefix("pid="))?.parse().ok()?;
    Some(Seen { pid, after_ms: (now.as_secs_f64() - at) * 1e3 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_trace_is_read() {
        let line = "  nodewarden-e2e-412     [001] ..... 70123.250000: mark_victim: pid=415 comm=worker total-vm=1kB";
        let seen = one(line, Duration::from_millis(70_123_251)).unwrap();
        assert_eq!(seen.pid, 415);
        assert!((seen.after_ms - 1.0).abs() < 0.01, "{}", seen.after_ms);
        assert!(one("CPU:1 [LOST 3 EVENTS]", Duration::ZERO).is_none());
    }
}
