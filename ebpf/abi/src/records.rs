//! What goes through the ring buffer.

/// Bytes of a task's command, as the kernel keeps it.
pub const COMMAND_LEN: usize = 16;
/// Bytes of a cgroup's own name with its end: NAME_MAX + 1.
pub const NAME_LEN: usize = 256;

/// What a record is about. Also the index of its loss counter.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Created = 0,
    Removed = 1,
    Populated = 2,
    Emptied = 3,
    Moved = 4,
    Oom = 5,
    Exit = 6,
    Device = 7,
    /// Some task has to free memory itself; the header is all of it. At most one every few milliseconds.
    Reclaim = 8,
}

impl Kind {
    pub const COUNT: usize = 9;
    pub const ALL: [Self; Self::COUNT] = [
        Self::Created,
        Self::Removed,
        Self::Populated,
        Self::Emptied,
        Self::Moved,
        Self::Oom,
        Self::Exit,
        Self::Device,
        Self::Reclaim,
    ];
}

/// First in every record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Header {
    /// A `Kind`.
    pub kind: u32,
    /// Which hierarchy the record's cgroup is in: its space.
    pub space: u32,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Kernel id of the cgroup it happened to.
    pub cgroup: u64,
}

/// `Kind::Created`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CgroupRecord {
    pub header: Header,
    pub parent: u64,
    pub slot: u32,
    pub pad: u32,
    pub name: [u8; NAME_LEN],
}

/// `Kind::Removed`, `Populated`, `Emptied`, `Moved`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LifeRecord {
    pub header: Header,
    pub slot: u32,
    /// Of the moved process.
    pub pid: u32,
    pub command: [u8; COMMAND_LEN],
}

/// The kernel does not let it be told.
pub const SCOPE_UNKNOWN: u32 = 0;
/// A memory cgroup reached its limit.
pub const SCOPE_CGROUP: u32 = 1;
/// The node ran out of memory.
pub const SCOPE_GLOBAL: u32 = 2;

/// `Kind::Oom`. Memory in pages.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OomRecord {
    pub header: Header,
    pub limit_cgroup: u64,
    pub limit_pages: u64,
    pub total_vm: u64,
    pub file_rss: u64,
    pub anon_rss: u64,
    pub shmem_rss: u64,
    pub trigger_cgroup: u64,
    pub pid: u32,
    pub trigger_pid: u32,
    pub oom_score_adj: i32,
    pub scope: u32,
    pub command: [u8; COMMAND_LEN],
    pub trigger_command: [u8; COMMAND_LEN],
}

/// `Kind::Exit`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExitRecord {
    pub header: Header,
    pub pid: u32,
    pub namespace_pid: u32,
    /// As wait(2) gives it: signal in the low 7 bits, exit code in the next 8.
    pub status: u32,
    /// 1 when its parent lives in another cgroup, and process 1 of its pid namespace does too or is itself.
    pub main: u32,
    pub command: [u8; COMMAND_LEN],
}

/// `Kind::Device`: an access to a device that no rule of the pod allows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceRecord {
    /// The cgroup of the process.
    pub header: Header,
    /// The device, and the pod's cgroup.
    pub device: crate::DeviceKey,
    /// Such accesses since the last record of this pod and device, this one among them.
    pub count: u64,
    pub pid: u32,
    /// `DEVICE_READ`, `DEVICE_WRITE`.
    pub wanted: u32,
    /// `DEVICE_AUDIT` or `DEVICE_ENFORCE`.
    pub mode: u32,
    /// 1 when a program below (the runtime's, on the container's cgroup) had refused it already.
    pub refused_before: u32,
    pub command: [u8; COMMAND_LEN],
}
