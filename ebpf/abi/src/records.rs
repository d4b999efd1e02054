//! The records that the programs send through the ring buffer.

/// Bytes of a task's command, as the kernel keeps it.
pub const COMMAND_LEN: usize = 16;
/// Bytes of a cgroup's own name with the terminating zero: NAME_MAX + 1.
pub const NAME_LEN: usize = 256;

/// What a record is about. Also the index of its loss counter.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A cgroup was created.
    Created = 0,
    /// A cgroup was removed.
    Removed = 1,
    /// The first process entered a cgroup or one of its descendants.
    Populated = 2,
    /// The last process of a cgroup and its descendants left or ended.
    Emptied = 3,
    /// A process was moved to another cgroup.
    Moved = 4,
    /// The OOM killer chose a victim.
    Oom = 5,
    /// A process ended by a signal; or a container's main process, or process 1 of a pid namespace, ended
    /// with an exit code other than 0.
    Exit = 6,
    /// A pod opened a device that no rule allows.
    Device = 7,
    /// A task has to reclaim memory itself. The record is a header only; there is at most one in a few
    /// milliseconds.
    Reclaim = 8,
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = 9;
    /// All kinds, in the order of their numbers.
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

/// The beginning of every record.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Header {
    /// Number of the `Kind`.
    pub kind: u32,
    /// The space of the hierarchy that the record's cgroup is in.
    pub space: u32,
    /// CLOCK_MONOTONIC, ns.
    pub time_ns: u64,
    /// Kernel id of the cgroup that the record is about.
    pub cgroup: u64,
}

/// `Kind::Created`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CgroupRecord {
    /// The new cgroup.
    pub header: Header,
    /// Kernel id of its parent; 0 if unknown.
    pub parent: u64,
    /// Its slot, or `UNTRACKED`.
    pub slot: u32,
    /// Unused; 0.
    pub pad: u32,
    /// Its own name, ended by a zero.
    pub name: [u8; NAME_LEN],
}

/// `Kind::Removed`, `Populated`, `Emptied`, `Moved`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CgroupLifecycleRecord {
    /// The cgroup; for a move, the one that the process is in now.
    pub header: Header,
    /// `Kind::Removed`: the slot that the cgroup had. Otherwise `UNTRACKED`.
    pub slot: u32,
    /// `Kind::Moved`: the process. Otherwise 0.
    pub pid: u32,
    /// `Kind::Moved`: its command.
    pub command: [u8; COMMAND_LEN],
}

/// It is not known: this kernel does not have the symbols.
pub const SCOPE_UNKNOWN: u32 = 0;
/// A memory cgroup reached its limit.
pub const SCOPE_CGROUP: u32 = 1;
/// The node ran out of memory.
pub const SCOPE_GLOBAL: u32 = 2;

/// `Kind::Oom`. Amounts of memory are in pages.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct OomRecord {
    /// The victim's cgroup.
    pub header: Header,
    /// Kernel id of the cgroup whose limit was reached; 0 if none was.
    pub limit_cgroup: u64,
    /// That limit.
    pub limit_pages: u64,
    /// The victim's virtual memory.
    pub total_vm: u64,
    /// Its resident file pages.
    pub file_rss: u64,
    /// Its resident anonymous pages.
    pub anon_rss: u64,
    /// Its resident shared memory.
    pub shmem_rss: u64,
    /// Kernel id of the cgroup of the task that asked for memory.
    pub trigger_cgroup: u64,
    /// The victim.
    pub pid: u32,
    /// The process that asked for memory.
    pub trigger_pid: u32,
    /// The victim's `oom_score_adj`.
    pub oom_score_adj: i32,
    /// `SCOPE_UNKNOWN`, `SCOPE_CGROUP` or `SCOPE_GLOBAL`.
    pub scope: u32,
    /// The victim's command.
    pub command: [u8; COMMAND_LEN],
    /// The command of the task that asked for memory.
    pub trigger_command: [u8; COMMAND_LEN],
}

/// `Kind::Exit`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ExitRecord {
    /// The cgroup of the process.
    pub header: Header,
    /// The process.
    pub pid: u32,
    /// Its number in its own pid namespace; 0 if unknown.
    pub namespace_pid: u32,
    /// Status as wait(2) returns it: the signal in the low 7 bits, the exit code in bits 8 to 15.
    pub status: u32,
    /// 1 for a container's main process: its parent is in another cgroup, and process 1 of its pid namespace
    /// either is in another cgroup too or is this process. Otherwise 0.
    pub main: u32,
    /// Its command.
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
    /// Such accesses since the last record of this pod and device, including this one.
    pub count: u64,
    /// The process.
    pub pid: u32,
    /// `DEVICE_READ`, `DEVICE_WRITE` or both.
    pub wanted: u32,
    /// `DEVICE_AUDIT` or `DEVICE_ENFORCE`.
    pub mode: u32,
    /// 1 if a program of a cgroup further down (the runtime's, on the container's cgroup) had refused it
    /// already.
    pub refused_before: u32,
    /// Its command.
    pub command: [u8; COMMAND_LEN],
}
