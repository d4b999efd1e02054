//! The device programs that apply to a cgroup of the unified hierarchy, those that a runtime or systemd
//! attached among them. The kernel lists them with CAP_NET_ADMIN and shows their instructions with
//! CAP_SYS_ADMIN.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::device_filter::{DeviceQuestion, allows};

/// Commands of the system call, and the kind of attachment (include/uapi/linux/bpf.h).
const PROG_GET_FD_BY_ID: u32 = 13;
const OBJ_GET_INFO_BY_FD: u32 = 15;
const PROG_QUERY: u32 = 16;
const CGROUP_DEVICE: u32 = 6;
const QUERY_EFFECTIVE: u32 = 1;
/// More programs than that apply to no cgroup (BPF_CGROUP_MAX_PROGS at each level).
const MOST: usize = 256;
/// The longest program, in instructions.
const LONGEST: u32 = 1_000_000;
/// This agent's own programs begin so; what they decide is known without a look at them.
const OWN: &str = "device_access";

/// Why the kernel does not say.
#[derive(Debug, thiserror::Error)]
pub enum DeviceProgramsError {
    /// The cgroup cannot be opened.
    #[error("open {path}: {source}")]
    Open {
        /// Its directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A call is refused.
    #[error("{call} for the device programs of {path}: {source}")]
    Call {
        /// The command.
        call: &'static str,
        /// The directory of the cgroup.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A program that applies to a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProgram {
    /// The kernel's id.
    pub id: u32,
    /// Its name; empty for many.
    pub name: String,
    /// When it was loaded, since the boot.
    pub loaded: Duration,
    code: Vec<u8>,
}

impl DeviceProgram {
    /// Whether it allows to open a device; `None` if it is not understood.
    pub fn allows(&self, question: DeviceQuestion) -> Option<bool> {
        let mut answers = question.of_opening().map(|one| allows(&self.code, one));
        answers.try_fold(true, |all, one| one.map(|one| all && one))
    }
}

/// The programs that apply to the cgroup of this directory, its ancestors' too, without this agent's own.
///
/// # Errors
/// The cgroup is gone, or the kernel refuses.
pub fn effective(cgroup: &Path) -> Result<Vec<DeviceProgram>, DeviceProgramsError> {
    let open = |source| DeviceProgramsError::Open { path: cgroup.to_owned(), source };
    let directory = File::open(cgroup).map_err(open)?;
    let failed = |call| move |source| DeviceProgramsError::Call { call, path: cgroup.to_owned(), source };
    let ids = query(&directory).map_err(failed("BPF_PROG_QUERY"))?;
    let mut programs = Vec::new();
    for id in ids {
        match program(id) {
            Ok(program) if program.name.starts_with(OWN) => {}
            Ok(program) => programs.push(program),
            // It was detached meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(failed("BPF_OBJ_GET_INFO_BY_FD")(error)),
        }
    }
    Ok(programs)
}

/// `union bpf_attr` for BPF_PROG_QUERY.
#[repr(C)]
#[derive(Default)]
struct Query {
    target: u32,
    attach_type: u32,
    flags: u32,
    attach_flags: u32,
    ids: u64,
    count: u32,
    pad: u32,
}

/// The same for BPF_PROG_GET_FD_BY_ID.
#[repr(C)]
#[derive(Default)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

/// The same for BPF_OBJ_GET_INFO_BY_FD.
#[repr(C)]
#[derive(Default)]
struct InfoOf {
    fd: u32,
    length: u32,
    info: u64,
}

/// The beginning of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Default)]
struct Info {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_length: u32,
    code_length: u32,
    jited: u64,
    code: u64,
    loaded: u64,
    uid: u32,
    maps: u32,
    map_ids: u64,
    name: [u8; 16],
}

/// # Safety
/// `attribute` is what `command` takes, and the addresses in it are valid for as much as the kernel writes
/// there.
unsafe fn bpf<T>(command: u32, attribute: &mut T) -> io::Result<i64> {
    // SAFETY: see above; the size is that of the attribute.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attribute, size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn query(directory: &File) -> io::Result<Vec<u32>> {
    let mut ids = vec![0_u32; MOST];
    let mut attribute = Query {
        target: directory.as_raw_fd().cast_unsigned(),
        attach_type: CGROUP_DEVICE,
        flags: QUERY_EFFECTIVE,
        ids: ids.as_mut_ptr() as u64,
        count: MOST as u32,
        ..Query::default()
    };
    // SAFETY: the kernel writes `count` ids at most.
    unsafe { bpf(PROG_QUERY, &mut attribute)? };
    ids.truncate(attribute.count as usize);
    Ok(ids)
}

fn program(id: u32) -> io::Result<DeviceProgram> {
    let mut attribute = ById { id, ..ById::default() };
    // SAFETY: there are no addresses in it.
    let fd = unsafe { bpf(PROG_GET_FD_BY_ID, &mut attribute)? };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened it for this process.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let length = info(&fd, Info::default())?.code_length;
    if length > LONGEST * 8 {
        return Err(io::Error::other("the program is too long"));
    }
    let mut code = vec![0_u8; length as usize];
    let wanted = Info { code_length: length, code: code.as_mut_ptr() as u64, ..Info::default() };
    let own = info(&fd, wanted)?;
    if own.code == 0 {
        // Hidden (net.core.bpf_jit_harden): it is not understood.
        code.clear();
    }
    code.truncate(own.code_length as usize);
    let name = own.name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(DeviceProgram {
        id,
        name: String::from_utf8_lossy(name).into_owned(),
        loaded: Duration::from_nanos(own.loaded),
        code,
    })
}

fn info(fd: &OwnedFd, mut info: Info) -> io::Result<Info> {
    let mut attribute = InfoOf {
        fd: fd.as_raw_fd().cast_unsigned(),
        length: size_of::<Info>() as u32,
        info: &raw mut info as u64,
    };
    // SAFETY: the kernel writes `length` bytes at most, and `code_length` bytes of code, for which there is
    // room.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attribute)? };
    Ok(info)
}

#[cfg(test)]
mod tests;
