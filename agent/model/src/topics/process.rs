//! Topic process: processes that start, execute programs and end, and an event for each that ended
//! abnormally.

use std::sync::Arc;

use nix::sys::signal::Signal;
use nodewarden_ebpf_abi::{CellReader, ExitRecord, GroupCell, Space};
use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use super::fields::{
    CGROUP_KN, CSS_CGROUP, CSSET_DFL, CSSET_SUBSYS, KN_ID, TASK_CGROUPS, TASK_COMM, TASK_FLAGS, TASK_PID,
    TASK_SIGNAL, TASK_TGID,
};
use super::samples::{CgroupFamily, Figure, GROUP};
use super::spec::Argument::{Any, Number, Pointer};
use super::spec::{Need, Program, TopicSpec, field};
use super::{Detail, KernelCounters, Tree, counted};
use crate::event_body::EventBody;
use crate::place::Place;
use crate::text::until_zero;

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "process",
    space: Some(Space::Memory),
    needs: &[
        TASK_CGROUPS,
        TASK_PID,
        TASK_TGID,
        TASK_COMM,
        TASK_FLAGS,
        TASK_SIGNAL,
        field("OFF_TASK_EXIT_CODE", &["task_struct.exit_code"]),
        field("OFF_TASK_THREAD_PID", &["task_struct.thread_pid"]),
        field("OFF_TASK_REAL_PARENT", &["task_struct.real_parent"]),
        field("OFF_TASK_GROUP_LEADER", &["task_struct.group_leader"]),
        field("OFF_TASK_START_TIME", &["task_struct.start_time"]),
        CSSET_SUBSYS,
        CSSET_DFL,
        CSS_CGROUP,
        CGROUP_KN,
        KN_ID,
        field("OFF_SIGNAL_LIVE", &["signal_struct.live"]),
        field("OFF_SIGNAL_THREADS", &["signal_struct.nr_threads"]),
        field("OFF_SIGNAL_FLAGS", &["signal_struct.flags"]),
        field("OFF_SIGNAL_GROUP_EXIT", &["signal_struct.group_exit_code"]),
        field("OFF_PID_LEVEL", &["pid.level"]),
        field("OFF_PID_NUMBERS", &["pid.numbers"]),
        field("OFF_UPID_NS", &["upid.ns"]),
        field("OFF_PIDNS_REAPER", &["pid_namespace.child_reaper"]),
        Need::Size { global: "UPID_SIZE", structure: "upid" },
    ],
    programs: &[
        Program::at("sched_process_fork", "sched_process_fork").reading(&[Any, Pointer("task_struct")]),
        Program::at("sched_process_exec", "sched_process_exec").reading(&[Pointer("task_struct")]),
        Program::at("sched_process_exit", "sched_process_exit")
            .reading(&[Pointer("task_struct"), Number])
            // Before Linux 6.16 the tracepoint did not say whether the thread is the last one.
            .or(&Program::at("sched_process_exit_of_thread", "sched_process_exit")
                .reading(&[Pointer("task_struct")])),
    ],
    // Processes with several threads that can end at once.
    tables: &[("COUNTED_EXITS", 2048)],
    families: FAMILIES,
    put,
    events: |counters| counters.process.map_or(0, |c| c.forks + c.execs + c.exits),
    ..TopicSpec::EMPTY
};

/// Counts of processes (thread groups), not of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessCounters {
    /// Processes that were started by processes of this cgroup.
    pub forks: u64,
    /// Programs that were executed.
    pub execs: u64,
    /// Processes that ended.
    pub exits: u64,
    /// Those of `exits` that ended by a signal.
    pub signal_exits: u64,
}

#[cfg(any(test, feature = "testing"))]
impl ProcessCounters {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self { forks: 9, execs: 5, exits: 8, signal_exits: 1 }
    }
}

pub(super) fn read(cells: &impl CellReader, slot: u32, counters: &mut KernelCounters) {
    let Some(cell) = cells.cell::<GroupCell>(slot) else { return };
    counters.process = Some(ProcessCounters {
        forks: cell.forks,
        execs: cell.execs,
        exits: cell.exits,
        signal_exits: cell.signal_exits,
    });
}

const FAMILIES: &[CgroupFamily] = &[
    CgroupFamily::counter(
        "nodewarden_cgroup_process_forks_total",
        GROUP,
        "Processes that processes of the cgroup itself started.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(None, Figure::Count(c.forks));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_process_execs_total",
        GROUP,
        "Programs that processes of the cgroup itself executed.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(None, Figure::Count(c.execs));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_process_exits_total",
        GROUP,
        "Processes of the cgroup itself that ended.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(None, Figure::Count(c.exits));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_process_signal_exits_total",
        GROUP,
        "Processes of the cgroup itself that ended by a signal.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(None, Figure::Count(c.signal_exits));
            }
        },
    ),
];

fn of(counters: &KernelCounters) -> Option<&ProcessCounters> {
    counted(counters.process.as_ref())
}

fn put(counters: &KernelCounters, out: &mut proto::Cgroup) {
    if let Some(process) = &counters.process {
        out.forks = Some(process.forks);
        out.execs = Some(process.execs);
        out.exits = Some(process.exits);
        out.signal_exits = Some(process.signal_exits);
    }
}

/// A process that ended abnormally.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    /// Its number in the machine's first pid namespace.
    pub pid: u32,
    /// Its number in its own pid namespace.
    pub namespace_pid: u32,
    /// Its command name.
    pub command: String,
    /// Exit code; 0 when a signal ended it.
    pub code: u32,
    /// Signal number; 0 when it exited itself.
    pub signal: u32,
    /// Whether it was the first process of its cgroup: its parent lives in another one. A command that the
    /// runtime runs in the container also has its parent elsewhere; it is recognised by process 1 of its pid
    /// namespace, which lives in the same cgroup. Where containers share a pid namespace such commands count
    /// as main processes.
    pub main: bool,
}

#[cfg(any(test, feature = "testing"))]
impl Exit {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self { pid: 1, namespace_pid: 2, command: "e".into(), code: 3, signal: 0, main: true }
    }
}

/// The event of a record, and the path of the process's cgroup.
pub(super) fn event(r: &ExitRecord, tree: &mut dyn Tree) -> (Arc<str>, Detail) {
    let path = tree.path_or_id(r.header.space as usize, r.header.cgroup);
    let detail = Detail::Exit(Exit {
        pid: r.pid,
        namespace_pid: r.namespace_pid,
        command: until_zero(&r.command),
        // wait(2): the low 7 bits are the signal, the next byte the exit code.
        code: (r.status >> 8) & 0xff,
        signal: r.status & 0x7f,
        main: r.main != 0,
    });
    (path, detail)
}

impl EventBody for Exit {
    fn line(&self, place: &Place<'_>) -> String {
        let how = if self.signal != 0 {
            format!("died by {}", signal(self.signal))
        } else {
            format!("exited with {}", self.code)
        };
        let inside = match self.namespace_pid {
            0 => String::new(),
            same if same == self.pid => String::new(),
            inner => format!(", {inner} inside"),
        };
        let main = if self.main { ", main process" } else { "" };
        format!("{} (pid {}{inside}{main}) {how} in {place}", self.command, self.pid)
    }

    fn to_proto(&self) -> ProtoDetail {
        ProtoDetail::Exit(proto::Exit {
            pid: self.pid,
            namespace_pid: self.namespace_pid,
            command: self.command.clone(),
            code: self.code,
            signal: self.signal,
            main: self.main,
        })
    }

    fn from_proto(detail: ProtoDetail) -> Option<Self> {
        let ProtoDetail::Exit(e) = detail else { return None };
        Some(Self {
            pid: e.pid,
            namespace_pid: e.namespace_pid,
            command: e.command,
            code: e.code,
            signal: e.signal,
            main: e.main,
        })
    }
}

fn signal(number: u32) -> String {
    let known = i32::try_from(number).ok().and_then(|n| Signal::try_from(n).ok());
    known.map_or_else(|| format!("signal {number}"), |s| s.as_str().to_owned())
}
