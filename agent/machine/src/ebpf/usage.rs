//! What all cgroups have in use, read at once by a BPF iterator (`iter/cgroup`, since Linux 6.1) instead of
//! by two files of each. The figures are those of the files: `memory.current` (v1: `memory.usage_in_bytes`)
//! is `mem_cgroup.memory`, in bytes (`memory_current_read`, `mem_cgroup_usage`), and `pids.current` is
//! `pids_cgroup.counter` (`pids_current_read`).
//!
//! The kernel holds `cgroup_mutex` while it goes over the cgroups, about 0.15 µs for each.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{Ordering, fence};

use aya::programs::{Iter, ProgramError};
use nodewarden_ebpf_abi::{GroupUsage, NOT_COUNTED};

use super::cells::Array;
use super::error::KernelError;
use super::load::Kernel;
use super::programs::chain;
use crate::page::page_bytes;

const PROGRAM: &str = "cgroup_usage";
pub(super) const USAGES: &str = "GROUP_USAGE";
const COUNT: &str = "GROUP_USAGE_COUNT";

/// Why the usage of all cgroups cannot be read at once.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The kernel lacks the iterator over cgroups or a field.
    #[error("this kernel has no {0}")]
    Missing(String),
    /// The kernel refuses the program.
    #[error("iter/cgroup: load: {0}")]
    Program(String),
    /// The root of a hierarchy cannot be opened.
    #[error("cannot open {path}: {source}")]
    Root {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel refuses to iterate over the cgroups below it.
    #[error("bpf({call}) for the cgroups of {path}: {source}")]
    Iterate {
        /// The command.
        call: &'static str,
        /// The hierarchy's root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The maps cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// Reads what the cgroups of some hierarchies have in use.
pub struct GroupUsages {
    usages: Array,
    count: Array,
    capacity: usize,
    /// Of each hierarchy: its root and the link of the iterator over its cgroups.
    links: Vec<(PathBuf, OwnedFd)>,
}

/// What the cgroups had in use at one reading, by their kernel ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UsageReading {
    /// Id and bytes, ordered by id.
    memory: Vec<(u64, u64)>,
    /// Id and threads, ordered by id.
    threads: Vec<(u64, u64)>,
}

impl UsageReading {
    /// The figures of these cgroups, with this size of a page.
    pub fn of(usages: impl IntoIterator<Item = GroupUsage>, page_bytes: u64) -> Self {
        let mut reading = Self::default();
        for GroupUsage { id, pages, threads } in usages {
            if pages != NOT_COUNTED {
                reading.memory.push((id, pages.saturating_mul(page_bytes)));
            }
            if threads != NOT_COUNTED {
                reading.threads.push((id, threads));
            }
        }
        for figures in [&mut reading.memory, &mut reading.threads] {
            figures.sort_unstable();
        }
        reading
    }

    /// Bytes of memory that a cgroup has in use, by its id in the memory controller's hierarchy; `None` if it
    /// was not there.
    pub fn memory_bytes(&self, id: u64) -> Option<u64> {
        find(&self.memory, id)
    }

    /// Threads of a cgroup, with processes that wait to be reaped, by its id in the pids controller's
    /// hierarchy; `None` if it was not there.
    pub fn threads(&self, id: u64) -> Option<u64> {
        find(&self.threads, id)
    }
}

fn find(figures: &[(u64, u64)], id: u64) -> Option<u64> {
    let at = figures.binary_search_by_key(&id, |(own, _)| *own).ok()?;
    figures.get(at).map(|(_, figure)| *figure)
}

impl Kernel {
    /// Prepares to read what the cgroups of the hierarchies with these roots have in use. To be called once,
    /// before `attach`.
    ///
    /// # Errors
    /// What this kernel lacks or refuses: then the cgroups' files are to be read.
    pub fn group_usages(&mut self, roots: &[&Path]) -> Result<GroupUsages, UsageError> {
        if let Some(missing) = &self.layout.no_usages {
            return Err(UsageError::Missing(missing.clone()));
        }
        let Some(btf) = &self.btf else { return Err(UsageError::Missing("types any more".to_owned())) };
        let program = self.ebpf.program_mut(PROGRAM).ok_or(ProgramError::NotLoaded);
        let program: Result<&mut Iter, ProgramError> = program.and_then(TryInto::try_into);
        let refused = |error: ProgramError| UsageError::Program(chain(&error));
        let program = program.map_err(refused)?;
        program.load("cgroup", btf).map_err(refused)?;
        let program = program.fd().map_err(refused)?.as_fd();
        let link = |root: &&Path| Ok((root.to_path_buf(), link(program, root)?));
        let links = roots.iter().map(link).collect::<Result<_, UsageError>>()?;
        let capacity = self.options.max_cgroups as usize + 1;
        Ok(GroupUsages {
            usages: Array::new(&self.ebpf, USAGES, size_of::<GroupUsage>(), capacity)?,
            count: Array::new(&self.ebpf, COUNT, size_of::<u64>(), 1)?,
            capacity,
            links,
        })
    }
}

impl GroupUsages {
    /// Reads all cgroups. One call at a time. Of more cgroups than there is room for, the last ones are
    /// missing.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn read(&mut self) -> Result<UsageReading, UsageError> {
        let mut all = Vec::new();
        for (root, link) in &self.links {
            self.iterate(root, link)?;
            // SAFETY: an integer.
            let count = unsafe { self.count.read::<u64>(0) }.unwrap_or(0);
            // SAFETY: a structure of integers.
            let usage = |at| unsafe { self.usages.read::<GroupUsage>(at) };
            all.extend((0..self.capacity.min(count as usize)).filter_map(usage));
        }
        Ok(UsageReading::of(all, page_bytes()))
    }

    /// Has the kernel run the program for every cgroup of a hierarchy.
    fn iterate(&self, root: &Path, link: &OwnedFd) -> Result<(), UsageError> {
        if let Some(count) = self.count.at(0) {
            // SAFETY: the map's only value; no iteration runs now.
            unsafe { count.cast::<u64>().write_volatile(0) };
        }
        fence(Ordering::SeqCst);
        let refused = |call| move |source| UsageError::Iterate { call, path: root.to_path_buf(), source };
        let link = Iterate { link: link.as_raw_fd() as u32, flags: 0 };
        // SAFETY: what the command reads; it has no addresses.
        let iteration = unsafe { bpf(BPF_ITER_CREATE, &link) }.map_err(refused("BPF_ITER_CREATE"))?;
        let mut iteration = File::from(iteration);
        // The program writes nothing, so the first read goes over all cgroups and is at the end.
        io::copy(&mut iteration, &mut io::sink()).map_err(refused("BPF_ITER_CREATE, read"))?;
        fence(Ordering::SeqCst);
        Ok(())
    }
}

/// Links the program to an iterator over the cgroups at and below `root`.
fn link(program: BorrowedFd<'_>, root: &Path) -> Result<OwnedFd, UsageError> {
    let directory = File::open(root).map_err(|source| UsageError::Root { path: root.into(), source })?;
    let below = CgroupIterator { order: DESCENDANTS_PRE, fd: directory.as_raw_fd() as u32, id: 0 };
    let link = Link {
        program: program.as_raw_fd() as u32,
        target: 0,
        attach_type: BPF_TRACE_ITER,
        flags: 0,
        iterator: &raw const below as u64,
        iterator_bytes: size_of::<CgroupIterator>() as u32,
        padding: 0,
    };
    let refused = |source| UsageError::Iterate { call: "BPF_LINK_CREATE", path: root.into(), source };
    // SAFETY: what the command reads; `below` lives longer.
    unsafe { bpf(BPF_LINK_CREATE, &link) }.map_err(refused)
}

// aya attaches iterators without saying which cgroups they are for, which the kernel refuses
// (bpf_iter_attach_cgroup). What follows is of include/uapi/linux/bpf.h.

const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_ITER_CREATE: libc::c_long = 33;
const BPF_TRACE_ITER: u32 = 28;
/// BPF_CGROUP_ITER_DESCENDANTS_PRE
const DESCENDANTS_PRE: u32 = 2;

/// The beginning of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct Link {
    program: u32,
    target: u32,
    attach_type: u32,
    flags: u32,
    /// Address of a `CgroupIterator`.
    iterator: u64,
    iterator_bytes: u32,
    padding: u32,
}

/// The beginning of `union bpf_attr` for BPF_ITER_CREATE.
#[repr(C)]
struct Iterate {
    link: u32,
    flags: u32,
}

/// `union bpf_iter_link_info`, for cgroups.
#[repr(C)]
struct CgroupIterator {
    order: u32,
    fd: u32,
    id: u64,
}

/// bpf(2), for a command that returns a new descriptor. The kernel takes what follows `attributes` for zeros.
///
/// # Safety
/// `attributes` must be what the command reads, and the addresses in it valid.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    let size = size_of::<T>() as libc::c_uint;
    // SAFETY: as the caller says.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_ref(attributes), size) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests;
