//! Writes to limits of cgroups by fanotify(7), for kernels without kprobes: the kernel says which process
//! has changed which file, after it has. What it wrote is then read from the file. A file that is opened with
//! `O_TRUNC` counts as changed, even if the write is refused then.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use nodewarden_ebpf_abi::LIMIT_FILES;
use nodewarden_machine::cgroup::notices::{Notice, NoticeQueue};
use nodewarden_machine::cgroup::{Controller, Hierarchy, Layout, parse_memberships};
use nodewarden_tasks::parts;
use tracing::{error, warn};

/// How long it may take to read what was written.
const LIMIT: Duration = Duration::from_secs(30);
/// Bytes that one read(2) takes at most: of some fifty notices.
const READ_BYTES: usize = 4096;

/// A write to a limit of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenWrite {
    /// Which hierarchy the cgroup is in, by the kernel's number of it.
    pub hierarchy: u32,
    /// The kernel's id of the cgroup.
    pub cgroup: u64,
    /// The file's name.
    pub file: &'static str,
    /// The process.
    pub pid: u32,
    /// Its command name; empty for one that has ended.
    pub command: String,
    /// Path of its memory cgroup; empty for the root, and for one that has ended.
    pub writer_cgroup: String,
}

/// The thread that reads the notices. Dropping this ends it.
#[derive(Debug)]
pub struct WriteNotices {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WriteNotices {
    fn drop(&mut self) {
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl WriteNotices {
    /// Starts the thread, which calls `on_write` for every write to a limit, through any mount of the cgroup
    /// file systems.
    ///
    /// # Errors
    /// As [`NoticeQueue::of_writes`]. The thread cannot be started.
    pub fn start(layout: &Layout, on_write: impl Fn(SeenWrite) + Send + 'static) -> io::Result<Self> {
        let hierarchies = Hierarchies::of(layout);
        let queue = NoticeQueue::of_writes(hierarchies.mounts())?;
        let stop = Arc::new(EventFd::new()?);
        let of_thread = stop.clone();
        let part = parts::register("limit writes", LIMIT);
        let run = move || {
            loop {
                part.waits();
                match wait(&queue, &of_thread) {
                    Ok(true) => {}
                    Ok(false) => return part.end(),
                    Err(cause) => {
                        error!(%cause, "cannot wait for notices of writes: no more will be seen");
                        return part.end();
                    }
                }
                part.progress();
                read(&queue, &hierarchies, &on_write);
            }
        };
        let thread = thread::Builder::new().name("limit-writes".into()).spawn(run)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// The hierarchies with limits.
struct Hierarchies {
    memory: Option<Hierarchy>,
    cpu: Option<Hierarchy>,
}

impl Hierarchies {
    fn of(layout: &Layout) -> Self {
        let of = |controller| layout.hierarchy(controller).cloned();
        Self { memory: of(Controller::Memory), cpu: of(Controller::Cpu) }
    }

    fn mounts(&self) -> Vec<&Path> {
        let mut mounts: Vec<&Path> =
            [&self.memory, &self.cpu].into_iter().flatten().map(|own| &*own.mount).collect();
        mounts.dedup();
        mounts
    }

    /// The number of the hierarchy that has files of this name.
    fn with(&self, file: &str) -> Option<u32> {
        let hierarchy = if file.starts_with("memory.") { &self.memory } else { &self.cpu };
        hierarchy.as_ref().map(|own| own.id)
    }

    /// The path of a process's memory cgroup; `None` for the root.
    fn memory_cgroup(&self, memberships: &str) -> Option<String> {
        let id = self.memory.as_ref()?.id;
        let path = parse_memberships(memberships).into_iter().find(|own| own.id == id)?.path;
        // On v1 a process that ends is moved to the root.
        (path != "/").then_some(path)
    }
}

/// Waits until there are notices. False when the thread is to end.
fn wait(queue: &NoticeQueue, stop: &EventFd) -> nix::Result<bool> {
    let mut wanted =
        [PollFd::new(queue.as_fd(), PollFlags::POLLIN), PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    match poll(&mut wanted, PollTimeout::NONE) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(!wanted[1].any().unwrap_or(true)),
        Err(error) => Err(error),
    }
}

fn read(queue: &NoticeQueue, hierarchies: &Hierarchies, on_write: &impl Fn(SeenWrite)) {
    let mut bytes = [0; READ_BYTES];
    let read = match queue.read(&mut bytes) {
        Ok(read) => read.unwrap_or_default(),
        Err(cause) => return warn!(%cause, "cannot read notices of writes to limits"),
    };
    for Notice { pid, cgroup, name, .. } in read.notices {
        let file = LIMIT_FILES.into_iter().find(|file| file.as_bytes() == name);
        let (Some(file), Ok(pid)) = (file, u32::try_from(pid)) else { continue };
        let Some(hierarchy) = hierarchies.with(file) else { continue };
        let of_process = |file: &str| {
            std::fs::read_to_string(PathBuf::from(format!("/proc/{pid}/{file}"))).unwrap_or_default()
        };
        on_write(SeenWrite {
            hierarchy,
            cgroup,
            file,
            pid,
            command: of_process("comm").trim_end().to_owned(),
            writer_cgroup: hierarchies.memory_cgroup(&of_process("cgroup")).unwrap_or_default(),
        });
    }
}

#[cfg(test)]
mod tests;
