//! Workloads that run out of memory.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::signal::Signal;

use super::report::{End, Took, Victim};
use super::{WorkError, child, say, wait_for_line};
use crate::page::page_bytes;

/// Name of a process that uses up memory, as `comm` shows it.
pub const EATER: &std::ffi::CStr = c"nw-eater";

/// Maps `bytes` of anonymous memory and touches it page by page. The memory stays in use.
pub fn eat(bytes: u64) -> Result<(), WorkError> {
    prctl::set_name(EATER).map_err(WorkError::system("prctl"))?;
    let length = bytes as usize;
    let start = map(length)?;
    for offset in (0..length).step_by(page_bytes()) {
        // SAFETY: within the mapping.
        unsafe { start.add(offset).write_volatile(1) };
    }
    Ok(())
}

/// The same by one system call (Linux 5.14), which takes a fraction of the time where page faults are slow.
fn eat_at_once(bytes: u64) -> Result<(), WorkError> {
    prctl::set_name(EATER).map_err(WorkError::system("prctl"))?;
    let length = bytes as usize;
    let start = map(length)?;
    // SAFETY: the range of the mapping.
    let made = unsafe { libc::madvise(start.cast(), length, libc::MADV_POPULATE_WRITE) };
    if made != 0 {
        return Err(WorkError::system("madvise")(std::io::Error::last_os_error()));
    }
    Ok(())
}

/// Maps anonymous memory of small pages, which stays mapped.
fn map(length: usize) -> Result<*mut u8, WorkError> {
    // SAFETY: a fresh private mapping at an address of the kernel's choice.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(WorkError::system("mmap")(std::io::Error::last_os_error()));
    }
    // Small pages, so that memory grows evenly up to the limit. Kernels without huge pages return an error,
    // which does no harm.
    // SAFETY: the range mapped above.
    unsafe { libc::madvise(start, length, libc::MADV_NOHUGEPAGE) };
    Ok(start.cast())
}

/// Victims of the OOM killer, one after the other.
#[derive(clap::Args)]
pub struct Victims {
    /// How many victims must die.
    count: u32,
    /// How many bytes each tries to use: more than the limit allows.
    bytes: u64,
    /// Every second victim is a grandchild of the worker
    #[arg(long)]
    grandchildren: bool,
    /// Waits for a line of input before each victim but the first
    #[arg(long)]
    on_demand: bool,
    /// A victim gets its memory by one system call instead of page by page
    #[arg(long)]
    at_once: bool,
    /// How many bytes the worker keeps in a file in memory: a victim is at the limit so much sooner
    #[arg(long, default_value_t = 0)]
    hold: u64,
}

impl Victims {
    /// Forks the victims one after the other and reports each when it is dead.
    pub fn run(&self) -> Result<(), WorkError> {
        let _held = hold(self.hold)?;
        for i in 0..self.count {
            if self.on_demand && i > 0 && !wait_for_line() {
                break;
            }
            let depth = if self.grandchildren && i % 2 == 1 { 2 } else { 1 };
            say(&self.one(depth)?)?;
        }
        Ok(())
    }

    fn one(&self, depth: u32) -> Result<Victim, WorkError> {
        let (bytes, at_once) = (self.bytes, self.at_once);
        if depth == 1 {
            return kill_one(bytes, at_once, depth);
        }
        // The victim is the child's own child. The child reports it through a pipe.
        let (mut reader, writer) = std::io::pipe().map_err(WorkError::system("pipe"))?;
        let middle = child::spawn(|| {
            let sent = kill_one(bytes, at_once, depth)
                .and_then(|victim| Ok(serde_json::to_writer(writer, &victim)?));
            i32::from(sent.is_err())
        })?;
        // The parent's copy of the pipe's writing end was moved into the closure and dropped with it.
        let mut line = String::new();
        reader.read_to_string(&mut line).map_err(WorkError::system("read"))?;
        match child::wait(middle)? {
            End::Code(0) => Ok(serde_json::from_str(&line)?),
            other => Err(WorkError::Child(other)),
        }
    }
}

/// A file in memory of so many bytes. Unlike memory of the process it is not copied by a fork.
fn hold(bytes: u64) -> Result<Option<OwnedFd>, WorkError> {
    if bytes == 0 {
        return Ok(None);
    }
    let file = memfd_create(c"held", MFdFlags::MFD_CLOEXEC).map_err(WorkError::system("memfd_create"))?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes as i64).map_err(WorkError::system("fallocate"))?;
    Ok(Some(file))
}

/// Forks a child that uses up memory until the kernel kills it.
fn kill_one(bytes: u64, at_once: bool, depth: u32) -> Result<Victim, WorkError> {
    let victim = child::spawn(|| {
        // Makes this process the preferred victim; any process may raise its own score.
        let preferred = std::fs::write("/proc/self/oom_score_adj", "1000");
        let eaten = if at_once { eat_at_once(bytes) } else { eat(bytes) };
        if preferred.is_err() || eaten.is_err() { 1 } else { 0 }
    })?;
    match child::wait(victim)? {
        End::Signal(signal) if signal == Signal::SIGKILL as i32 => {
            Ok(Victim { pid: victim.as_raw() as u32, depth, seen_dead_ns: child::now_ns() })
        }
        other => Err(WorkError::Child(other)),
    }
}

/// Reads a file `passes` times and returns how long that took.
pub fn read_file(path: &Path, passes: u32) -> Result<Took, WorkError> {
    let error = |path: PathBuf| move |source| WorkError::File { path, source };
    let begun = Instant::now();
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..passes {
        let mut file = File::open(path).map_err(error(path.to_owned()))?;
        while file.read(&mut buffer).map_err(error(path.to_owned()))? > 0 {}
    }
    Ok(Took { took_ns: Duration::as_nanos(&begun.elapsed()) as u64 })
}
