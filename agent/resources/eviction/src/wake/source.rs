//! Where the kernel speaks, and how it is asked to.

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
    pub fn name(self) -> &'static str {
        self.into()
    }

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

    /// What is polled for.
    pub fn flags(self) -> EpollFlags {
        match self {
            Self::NodePsi | Self::PodsPsi | Self::PodsEvents => EpollFlags::EPOLLPRI,
            _ => EpollFlags::EPOLLIN,
        }
    }
}

/// A source with the directory of its cgroup (for the node's PSI that of the file), whether it is there or not.
#[derive(Debug, Clone)]
pub struct Source {
    pub kind: Kind,
    directory: PathBuf,
}

/// Those that this machine's cgroups can have.
pub fn sources(layout: &Layout, kubepods: &str) -> Vec<Source> {
    let mut found = vec![Source { kind: Kind::NodePsi, directory: "/proc/pressure".into() }];
    let mut add = |kind, mount: &Path, path| found.push(Source { kind, directory: join(mount, path) });
    // The v2 tree of a hybrid machine has no controllers, but PSI.
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

/// PSI triggers, the first that the kernel takes: stalled for so long, in microseconds, of a window. The second is for one
/// who lacks CAP_SYS_RESOURCE, to whom only whole multiples of 2 s are given (Documentation/accounting/psi.rst).
const TRIGGERS: [(&str, &str); 2] =
    [("some 10000 500000", ", 10 ms stalled in 500 ms"), ("some 40000 2000000", ", 40 ms stalled in 2 s")];

impl Source {
    /// Asks the kernel to tell. `usage` is a threshold's, in bytes.
    ///
    /// # Errors
    /// Why it does not, for people.
    pub fn open(&self, usage: Option<u64>) -> Result<Open, String> {
        let identity = identity(&self.directory).map_err(|error| self.said("", &error))?;
        let open = |watched, detail| Open { watched, directory: self.directory.clone(), identity, detail };
        let (watched, detail) = match self.kind {
            Kind::NodePsi => self.psi("memory")?,
            Kind::PodsPsi => self.psi("memory.pressure")?,
            Kind::PodsEvents => {
                let name = "memory.events";
                let file = File::open(self.directory.join(name)).map_err(|error| self.said(name, &error))?;
                // Only what rises from here on is an event.
                read_once(&file).map_err(|error| self.said(name, &error))?;
                (Watched::Events(file), String::new())
            }
            Kind::NodeThreshold | Kind::PodsThreshold => {
                let usage = usage.ok_or("no threshold is set")?;
                let at = format!(", at {usage} bytes");
                (self.event("memory.usage_in_bytes", &usage.to_string())?, at)
            }
            // As `low` it would tell of any reclaim, which is most of the time where much is read from disk.
            Kind::NodeLevel => (self.event("memory.pressure_level", "medium")?, String::new()),
            Kind::PodsOom => (self.event("memory.oom_control", "")?, String::new()),
        };
        Ok(open(watched, detail))
    }

    /// The use in bytes, as the kernel counts it for its thresholds, that has this working set now. None when it cannot be
    /// read, or nothing here has thresholds.
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
            // One descriptor takes one trigger. The kernel overwrites the last byte with the end of its string.
            let set =
                file.and_then(|mut file| file.write_all(format!("{trigger}\0").as_bytes()).map(|()| file));
            match set {
                Ok(file) => return Ok((Watched::Psi(file), detail.to_owned())),
                Err(error) => refused = self.said(name, &error),
            }
        }
        Err(refused)
    }

    /// v1: an eventfd for a file (Documentation/admin-guide/cgroup-v1/memory.rst, 9 and following).
    fn event(&self, name: &str, arguments: &str) -> Result<Watched, String> {
        let said = |error: &io::Error| self.said(name, error);
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK);
        let event = event.map_err(|errno| said(&errno.into()))?;
        let file = File::open(self.directory.join(name)).map_err(|error| said(&error))?;
        let order = format!("{} {} {arguments}", event.as_fd().as_raw_fd(), file.as_raw_fd());
        let control = OpenOptions::new().write(true).open(self.directory.join("cgroup.event_control"));
        control.and_then(|mut control| control.write_all(order.as_bytes())).map_err(|error| said(&error))?;
        // `file` was only to name it: the kernel keeps the eventfd, and lets go of it when the cgroup goes.
        Ok(Watched::Event(event))
    }

    fn said(&self, name: &str, error: &io::Error) -> String {
        format!("{}: {error}", self.directory.join(name).display())
    }
}

/// What is polled of a source. Closing it ends it in the kernel too.
#[derive(Debug)]
pub struct Open {
    watched: Watched,
    directory: PathBuf,
    /// Inode of the directory: a cgroup of the same name may be another one.
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
    /// Makes it ready for the next time.
    ///
    /// # Errors
    /// Its cgroup is gone: it would tell for ever.
    pub fn take(&mut self, flags: EpollFlags) -> Result<(), String> {
        let gone = || "its cgroup was removed".to_owned();
        match &self.watched {
            // A trigger that has lost its file answers so.
            Watched::Psi(_) if flags.contains(EpollFlags::EPOLLERR) => Err(gone()),
            Watched::Psi(_) => Ok(()),
            // Told until it is read.
            Watched::Events(file) => read_once(file).map_err(|_| gone()),
            Watched::Event(event) => {
                // EAGAIN: somebody has read it before, which is as good.
                let _ = event.read();
                // A cgroup that goes tells this way too.
                if self.is_current() { Ok(()) } else { Err(gone()) }
            }
        }
    }

    /// Whether its cgroup is still the one of this name.
    pub fn is_current(&self) -> bool {
        identity(&self.directory).is_ok_and(|now| now == self.identity)
    }

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
