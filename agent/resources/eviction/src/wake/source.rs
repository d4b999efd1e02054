//! The kernel files that signal memory pressure, and how they are armed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::sys::epoll::EpollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::Woken;
use crate::gather::{GroupMemory, of_node};
use nodewarden_machine::cgroup::{Controller, Layout, Version, join};

/// One way of being woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
pub enum Kind {
    #[strum(serialize = "psi node")]
    NodePsi,
    #[strum(serialize = "psi kubepods")]
    PodsPsi,
    #[strum(serialize = "memory.events kubepods")]
    PodsEvents,
    #[strum(serialize = "memory threshold node")]
    NodeThreshold,
    #[strum(serialize = "memory threshold kubepods")]
    PodsThreshold,
    #[strum(serialize = "memory.pressure_level node")]
    NodeLevel,
    #[strum(serialize = "memory.oom_control kubepods")]
    PodsOom,
}

impl Kind {
    /// Name for users.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The wake-up that this source causes.
    pub fn woken(self) -> Woken {
        match self {
            Self::NodePsi => Woken::Pressure { scope: "node" },
            Self::PodsPsi => Woken::Pressure { scope: "kubepods" },
            Self::PodsEvents => Woken::MemoryEvents { file: "memory.events" },
            Self::PodsOom => Woken::MemoryEvents { file: "memory.oom_control" },
            Self::NodeThreshold => Woken::Threshold { scope: "node" },
            Self::PodsThreshold => Woken::Threshold { scope: "kubepods" },
            Self::NodeLevel => Woken::V1Pressure,
        }
    }

    /// The epoll events to wait for.
    pub fn flags(self) -> EpollFlags {
        match self {
            Self::NodePsi | Self::PodsPsi | Self::PodsEvents => EpollFlags::EPOLLPRI,
            _ => EpollFlags::EPOLLIN,
        }
    }
}

/// A source with the directory of its cgroup (for the node's PSI, of the file), which need not exist yet.
#[derive(Debug, Clone)]
pub struct Source {
    pub kind: Kind,
    directory: PathBuf,
}

/// The sources that this machine's cgroups can have.
pub fn sources(layout: &Layout, kubepods: &str) -> Vec<Source> {
    let mut found = vec![Source { kind: Kind::NodePsi, directory: "/proc/pressure".into() }];
    let mut add = |kind, mount: &Path, path| found.push(Source { kind, directory: join(mount, path) });
    // The v2 tree of a hybrid machine has no controllers, but it has PSI.
    if let Some(unified) = layout.unified() {
        add(Kind::PodsPsi, &unified.mount, kubepods);
    }
    match layout.hierarchy(Controller::Memory) {
        Some(memory) if memory.version == Version::V1 => {
            add(Kind::NodeThreshold, &memory.mount, "/");
            add(Kind::PodsThreshold, &memory.mount, kubepods);
            add(Kind::NodeLevel, &memory.mount, "/");
            add(Kind::PodsOom, &memory.mount, kubepods);
        }
        Some(memory) => add(Kind::PodsEvents, &memory.mount, kubepods),
        None => {}
    }
    found
}

/// PSI triggers, of which the first that the kernel accepts is used: stall time and window in microseconds.
/// The second is for a process without CAP_SYS_RESOURCE, which may only use multiples of 2 s
/// (Documentation/accounting/psi.rst).
const TRIGGERS: [(&str, &str); 2] =
    [("some 10000 500000", ", 10 ms stalled in 500 ms"), ("some 40000 2000000", ", 40 ms stalled in 2 s")];

impl Source {
    /// Registers the source with the kernel. `usage` is the position of a threshold, in bytes of use.
    ///
    /// # Errors
    /// The kernel refuses, or no threshold is set. Text for users.
    pub fn open(&self, usage: Option<u64>) -> Result<Open, String> {
        let identity = identity(&self.directory).map_err(|error| self.describe_error("", &error))?;
        let open = |watched, detail| Open { watched, directory: self.directory.clone(), identity, detail };
        let (watched, detail) = match self.kind {
            Kind::NodePsi => self.psi("memory")?,
            Kind::PodsPsi => self.psi("memory.pressure")?,
            Kind::PodsEvents => {
                let name = "memory.events";
                let file = File::open(self.directory.join(name))
                    .map_err(|error| self.describe_error(name, &error))?;
                // Only increases after this read are events.
                read_once(&file).map_err(|error| self.describe_error(name, &error))?;
                (Watched::Events(file), String::new())
            }
            Kind::NodeThreshold | Kind::PodsThreshold => {
                let usage = usage.ok_or("no threshold is set")?;
                let at = format!(", at {usage} bytes");
                (self.event("memory.usage_in_bytes", &usage.to_string())?, at)
            }
            // `low` would signal any reclaim, which is nearly constant where much is read from disk.
            Kind::NodeLevel => (self.event("memory.pressure_level", "medium")?, String::new()),
            Kind::PodsOom => (self.event("memory.oom_control", "")?, String::new()),
        };
        Ok(open(watched, detail))
    }

    /// The use in bytes, as the kernel counts it for its thresholds, at which the working set would be this
    /// large. `None` if it cannot be read or this kind of source has no threshold.
    pub fn usage_at(&self, working_set: u64) -> Option<u64> {
        let memory = match self.kind {
            Kind::NodeThreshold => of_node(&fs::read("/proc/meminfo").ok()?).ok(),
            Kind::PodsThreshold => GroupMemory::at(&self.directory, Version::V1).read_use(&mut Vec::new()),
            _ => None,
        };
        memory.map(|memory| memory.usage_at(working_set))
    }

    fn psi(&self, name: &str) -> Result<(Watched, String), String> {
        let path = self.directory.join(name);
        let mut refused = String::new();
        for (trigger, detail) in TRIGGERS {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc::O_NONBLOCK);
            let file = options.open(&path);
            // One descriptor takes one trigger. The kernel overwrites the last byte with its string
            // terminator.
            let set =
                file.and_then(|mut file| file.write_all(format!("{trigger}\0").as_bytes()).map(|()| file));
            match set {
                Ok(file) => return Ok((Watched::Psi(file), detail.to_owned())),
                Err(error) => refused = self.describe_error(name, &error),
            }
        }
        Err(refused)
    }

    /// v1: registers an eventfd for a file (Documentation/admin-guide/cgroup-v1/memory.rst, 9 and following).
    fn event(&self, name: &str, arguments: &str) -> Result<Watched, String> {
        let describe = |error: &io::Error| self.describe_error(name, error);
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let event = event.map_err(|errno| describe(&errno.into()))?;
        let file = File::open(self.directory.join(name)).map_err(|error| describe(&error))?;
        let order = format!("{} {} {arguments}", event.as_fd().as_raw_fd(), file.as_raw_fd());
        let control = OpenOptions::new().write(true).open(self.directory.join("cgroup.event_control"));
        control
            .and_then(|mut control| control.write_all(order.as_bytes()))
            .map_err(|error| describe(&error))?;
        // `file` only named it: the kernel holds the eventfd and drops it when the cgroup is removed.
        Ok(Watched::Event(event))
    }

    fn describe_error(&self, name: &str, error: &io::Error) -> String {
        format!("{}: {error}", self.directory.join(name).display())
    }
}

/// The open descriptor of a source. Closing it also unregisters it in the kernel.
#[derive(Debug)]
pub struct Open {
    watched: Watched,
    directory: PathBuf,
    /// Inode of the directory, which distinguishes a re-created cgroup of the same name.
    identity: u64,
    detail: String,
}

#[derive(Debug)]
enum Watched {
    Psi(File),
    Events(File),
    Event(EventFd),
}

impl Open {
    /// Consumes the event, so that the next one can be seen.
    ///
    /// # Errors
    /// Its cgroup is gone: the descriptor would stay ready forever.
    pub fn take(&mut self, flags: EpollFlags) -> Result<(), String> {
        let gone = || "its cgroup was removed".to_owned();
        match &self.watched {
            // A trigger whose file was removed reports this.
            Watched::Psi(_) if flags.contains(EpollFlags::EPOLLERR) => Err(gone()),
            Watched::Psi(_) => Ok(()),
            // Stays ready until it is read.
            Watched::Events(file) => read_once(file).map_err(|_| gone()),
            Watched::Event(event) => {
                // EAGAIN: it was already read.
                let _ = event.read();
                // Removing the cgroup signals the eventfd too.
                if self.is_current() { Ok(()) } else { Err(gone()) }
            }
        }
    }

    /// Whether the cgroup of this name is still the one that was opened.
    pub fn is_current(&self) -> bool {
        identity(&self.directory).is_ok_and(|now| now == self.identity)
    }

    /// What the source waits for, for users; starts with a comma if not empty.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl AsFd for Open {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.watched {
            Watched::Psi(file) | Watched::Events(file) => file.as_fd(),
            Watched::Event(event) => event.as_fd(),
        }
    }
}

fn identity(directory: &Path) -> io::Result<u64> {
    fs::metadata(directory).map(|found| found.ino())
}

fn read_once(file: &File) -> io::Result<()> {
    let mut buffer = [0; 1024];
    file.read_at(&mut buffer, 0).map(drop)
}
