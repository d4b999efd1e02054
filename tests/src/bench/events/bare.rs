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

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::harness::Failure;

/// Where tracefs is usually mounted.
const TRACEFS: &str = "/sys/kernel/tracing";
/// As the agent's readers.
const NICE: i32 = -20;
/// How long the reader goes on after the last kill.
const REST: Duration = Duration::from_millis(500);

/// A mounted tracefs; one that was mounted for it is unmounted when this is dropped.
struct Tracefs {
    path: PathBuf,
    own: Option<TempDir>,
}

impl Tracefs {
    /// That of the machine, or else one of our own; `None` where the kernel has none.
    fn find() -> Option<Self> {
        if Path::new(TRACEFS).join("instances").is_dir() {
            return Some(Self { path: TRACEFS.into(), own: None });
        }
        let dir = tempfile::tempdir().ok()?;
        let (kind, nothing) = (Some("tracefs"), None::<&str>);
        mount(kind, dir.path(), kind, MsFlags::empty(), nothing).ok()?;
        Some(Self { path: dir.path().to_owned(), own: Some(dir) })
    }
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        if let Some(dir) = &self.own {
            let _ = umount2(dir.path(), MntFlags::MNT_DETACH);
        }
    }
}

/// Reads until it is dropped.
pub struct BareReader {
    instance: PathBuf,
    _tracefs: Tracefs,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A kill that was read.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// The victim.
    pub pid: u32,
    /// When the kernel recorded it, by CLOCK_MONOTONIC.
    pub at: Duration,
}

impl Kill {
    /// Milliseconds since then.
    pub fn age_ms(self) -> f64 {
        (now().as_secs_f64() - self.at.as_secs_f64()) * 1e3
    }

    /// As [`Kill::from_text`] reads it.
    pub fn to_text(self) -> String {
        format!("{} {}", self.pid, self.at.as_nanos())
    }

    /// Of [`Kill::to_text`].
    pub fn from_text(text: &str) -> Option<Self> {
        let (pid, nanos) = text.split_once(' ')?;
        Some(Self { pid: pid.parse().ok()?, at: Duration::from_nanos(nanos.parse().ok()?) })
    }
}

impl BareReader {
    /// Calls `seen` with each kill as soon as it is read; `None` where there is no tracefs.
    pub fn start(seen: impl FnMut(Kill) + Send + 'static) -> Result<Option<Self>, Failure> {
        let Some(tracefs) = Tracefs::find() else { return Ok(None) };
        let instance = tracefs.path.join(format!("instances/nodewarden-bench-{}", std::process::id()));
        fs::create_dir(&instance).map_err(Failure::file(&instance))?;
        let mut this = Self { instance, _tracefs: tracefs, stop: Arc::default(), thread: None };
        this.write("trace_clock", "mono")?;
        this.write("events/oom/mark_victim/enable", "1")?;
        let path = this.instance.join("trace_pipe");
        let mut options = OpenOptions::new();
        let pipe = options.read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let pipe = pipe.map_err(Failure::file(&path))?;
        let stop = this.stop.clone();
        this.thread = Some(thread::spawn(move || read(pipe, &stop, seen)));
        Ok(Some(this))
    }

    /// Reads what is still on its way, and ends.
    pub fn finish(self) {
        thread::sleep(REST);
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Failure> {
        let path = self.instance.join(file);
        fs::write(&path, value).map_err(Failure::file(&path))
    }
}

impl Drop for BareReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = self.write("events/oom/mark_victim/enable", "0");
        // With its files, which cannot be removed one by one.
        let _ = fs::remove_dir(&self.instance);
    }
}

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

fn read(mut pipe: fs::File, stop: &AtomicBool, mut seen: impl FnMut(Kill)) {
    // SAFETY: plain system call on the calling thread (who 0). Where it is refused the reader is slower.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    let mut buffer = [0; 8192];
    while !stop.load(Ordering::Acquire) {
        let mut ready = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut ready, PollTimeout::from(50_u16)), Ok(1)) {
            continue;
        }
        match pipe.read(&mut buffer) {
            Ok(length) => {
                let text = String::from_utf8_lossy(&buffer[..length]);
                text.lines().filter_map(one).for_each(&mut seen);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return,
        }
    }
}

/// A line of trace_pipe: `task-pid [cpu] flags seconds.micros: mark_victim: pid=1 …`.
fn one(line: &str) -> Option<Kill> {
    let (head, fields) = line.split_once(": mark_victim: ")?;
    let at: f64 = head.rsplit(' ').next()?.parse().ok()?;
    let pid = fields.split(' ').find_map(|field| field.strip_prefix("pid="))?.parse().ok()?;
    Some(Kill { pid, at: Duration::try_from_secs_f64(at).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_trace_is_read() {
        let line = "  nodewarden-e2e-412     [001] ..... 70123.250000: mark_victim: pid=415 comm=worker total-vm=1kB";
        let kill = one(line).unwrap();
        assert_eq!((kill.pid, kill.at), (415, Duration::from_millis(70_123_250)));
        let again = Kill::from_text(&kill.to_text()).unwrap();
        assert_eq!((again.pid, again.at), (kill.pid, kill.at));
        assert!(one("CPU:1 [LOST 3 EVENTS]").is_none());
    }
}
