//! Topic by topic: the cells that its programs count into and the records that they send. A new topic's
//! structures are here, with a line in each of the two tables.

use crate::cells::{Cell, CellArray, Index, LATENCY_BUCKETS, cell_arrays};
use crate::records::{COMMAND_LEN, Header, records};
use crate::{DeviceKey, Space};

cell_arrays! {
    CpuCell: "CPU_CELLS" CpuAndSlot Cpu;
    NetworkCell: "NETWORK_CELLS" CpuAndSlot Unified;
    GroupCell: "GROUP_CELLS" Slot Memory;
    BlockCell: "BLOCK_CELLS" Slot Io;
}

records! {
    /// A cgroup was created.
    Created(CgroupRecord);
    /// A cgroup was removed.
    Removed(CgroupLifecycleRecord);
    /// The first process entered a cgroup or one of its descendants.
    Populated(CgroupLifecycleRecord);
    /// The last process of a cgroup and its descendants left or ended.
    Emptied(CgroupLifecycleRecord);
    /// A process was moved to another cgroup.
    Moved(CgroupLifecycleRecord);
    /// The OOM killer chose a victim.
    Oom(OomRecord);
    /// A process ended by a signal; or a container's main process, or process 1 of a pid namespace, ended
    /// with an exit code other than 0.
    Exit(ExitRecord);
    /// A pod opened a device that no rule allows.
    Device(DeviceRecord);
    /// A task has to reclaim memory itself. There is at most one record in a few milliseconds.
    Reclaim(ReclaimRecord);
    /// A process writes a limit of a cgroup. The kernel may still refuse the value.
    LimitWrite(LimitWriteRecord);
}

// ---- cpu

/// CPU use of one cgroup on one CPU: two cache lines, written only by that CPU. The buckets are 32 bits wide
/// and wrap around; the agent adds up the differences between its readings.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CpuCell {
    /// Time on the CPU, without the turn that is still running.
    pub on_cpu_ns: u64,
    /// Time that tasks were runnable and waited in a run queue.
    pub wait_ns: u64,
    /// Switches away from a task that blocked.
    pub voluntary: u64,
    /// Switches away from a task that could have run on.
    pub preempted: u64,
    /// Waits before each turn, by length.
    pub wait: [u32; LATENCY_BUCKETS],
}

/// Which task runs on one CPU, and since when.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct CpuState {
    /// Begin of its turn, in ns, by the scheduler's clock where the program can read it, else by
    /// CLOCK_MONOTONIC; 0 before the first switch.
    pub since_ns: u64,
    /// The running task's `sched_info.run_delay` before its present turn.
    pub run_delay_ns: u64,
    /// The running task's slot, or `NO_SLOT`.
    pub slot: u32,
    /// The running task; 0 is the idle task.
    pub pid: u32,
    /// The clock of `since_ns` minus CLOCK_MONOTONIC, in ns; wraps around below 0.
    pub clock_offset_ns: u64,
    /// When that was measured, by the scheduler's clock.
    pub offset_at_ns: u64,
    /// Kernel id of the running task's cgroup; 0 for the idle task.
    pub cgroup: u64,
    /// Number of switches that the kernel made without calling the tracepoint.
    pub untraced: u64,
}

/// How long a task had waited in total when its last turn on a CPU ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LastTurn {
    /// The task; 0 for none.
    pub pid: u64,
    /// Its `sched_info.run_delay`.
    pub run_delay_ns: u64,
}

// ---- oom, reclaim and process

/// Counters of one cgroup of the memory controller's hierarchy, shared by all CPUs. "Direct" is reclaim
/// because the node is short of memory, "memcg" because a memory cgroup reached its limit.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupCell {
    /// Victims of the OOM killer.
    pub oom_kills: u64,
    /// Direct reclaims by tasks of the cgroup.
    pub direct_count: u64,
    /// Time that tasks spent in them.
    pub direct_stall_ns: u64,
    /// Pages that they freed.
    pub direct_pages: u64,
    /// Memcg reclaims by tasks of the cgroup.
    pub memcg_count: u64,
    /// Time that tasks spent in them.
    pub memcg_stall_ns: u64,
    /// Pages that they freed.
    pub memcg_pages: u64,
    /// New processes (not threads).
    pub forks: u64,
    /// Successful execve(2) calls.
    pub execs: u64,
    /// Ends of processes.
    pub exits: u64,
    /// Of these, ends by a signal.
    pub signal_exits: u64,
    /// Unused.
    pub pad: u64,
}

// ---- oom

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

// ---- reclaim

/// `Kind::Reclaim`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReclaimRecord {
    /// All of it. The cgroup is not known.
    pub header: Header,
}

// ---- process

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

// ---- network

/// Network use of one cgroup on one CPU: IP packets, and their bytes with headers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NetworkCell {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
}

// ---- block

/// Latency of block requests for one cgroup of the io controller's hierarchy, shared by all CPUs. Index 0 is
/// for reads, 1 for writes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BlockCell {
    /// Requests by latency, from issue to completion.
    pub buckets: [[u64; LATENCY_BUCKETS]; 2],
    /// All latencies added up.
    pub sum_ns: [u64; 2],
}

// ---- cgroup

/// Bytes of a cgroup's own name with the terminating zero: NAME_MAX + 1.
pub const NAME_LEN: usize = 256;

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

// ---- device; its tables are in `devices`

/// `Kind::Device`: an access to a device that no rule of the pod allows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceRecord {
    /// The cgroup of the process.
    pub header: Header,
    /// The device, and the pod's cgroup.
    pub device: DeviceKey,
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

// ---- limit_writes

/// Files of cgroups whose writes are recorded: those whose values mode augment compares with the pods' specs.
pub const LIMIT_FILES: [&str; 4] = ["memory.max", "memory.limit_in_bytes", "cpu.max", "cpu.cfs_quota_us"];

/// Words of a file's name that the program compares: the longest of `LIMIT_FILES` with the zero that ends it.
pub const LIMIT_FILE_WORDS: usize = 3;

/// The name of a file in `LIMIT_FILES`, filled up with zeros.
pub const fn limit_file_words(name: &str) -> [u64; LIMIT_FILE_WORDS] {
    let (bytes, mut words, mut at) = (name.as_bytes(), [[0u8; 8]; LIMIT_FILE_WORDS], 0);
    assert!(bytes.len() < LIMIT_FILE_WORDS * 8);
    while at < bytes.len() {
        words[at / 8][at % 8] = bytes[at];
        at += 1;
    }
    [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1]), u64::from_ne_bytes(words[2])]
}

/// Bytes of what is written, with the terminating zero. A longer text is cut.
pub const LIMIT_TEXT_LEN: usize = 32;

/// `Kind::LimitWrite`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LimitWriteRecord {
    /// The cgroup whose file is written.
    pub header: Header,
    /// Kernel id of the writer's cgroup in the memory controller's hierarchy; 0 if it cannot be read.
    pub writer_cgroup: u64,
    /// The process that writes.
    pub pid: u32,
    /// The file: an index of `LIMIT_FILES`.
    pub file: u32,
    /// The writer's command.
    pub command: [u8; COMMAND_LEN],
    /// What is written, ended by a zero.
    pub text: [u8; LIMIT_TEXT_LEN],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_compared_whole() {
        for (i, name) in LIMIT_FILES.iter().enumerate() {
            let bytes = limit_file_words(name).map(u64::to_ne_bytes);
            assert!(bytes.as_flattened().starts_with(name.as_bytes()), "{name}");
            assert_eq!(bytes.as_flattened()[name.len()], 0, "{name}");
            let same = LIMIT_FILES.iter().filter(|other| limit_file_words(other) == limit_file_words(name));
            assert_eq!(same.count(), 1, "{i}");
        }
    }

    #[test]
    fn short_and_foreign_bytes_are_refused() {
        assert!(Record::decode(&[]).is_none());
        assert!(Record::decode(&99u32.to_ne_bytes()).is_none());
        assert!(Record::decode(&(Kind::Oom as u32).to_ne_bytes()).is_none());
    }

    #[test]
    fn a_record_is_decoded() {
        let mut bytes = [0u8; size_of::<CgroupLifecycleRecord>()];
        bytes[0] = Kind::Moved as u8;
        bytes[16] = 7;
        let record = Record::decode(&bytes);
        assert!(matches!(record, Some(Record::Moved(r)) if r.header.cgroup == 7));
        assert!(record.is_some_and(|record| record.kind() == Kind::Moved));
    }
}
