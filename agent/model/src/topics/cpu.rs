//! Topic cpu: time on CPU, waits for a CPU, context switches.

use nodewarden_ebpf_abi::Space;
use nodewarden_proto::nodewarden::v1 as proto;

use super::fields::{
    CGROUP_KN, CSS_CGROUP, CSSET_DFL, CSSET_SUBSYS, KN_ID, RUN_QUEUE_CLOCK, TASK_CGROUPS, TASK_LAST_ARRIVAL,
    TASK_PID,
};
use super::samples::{CgroupFamily, Figure, GROUP, GROUP_KIND};
use super::spec::Argument::{Number, Pointer};
use super::spec::{Program, TopicSpec, field};
use super::{KernelCounters, counted};
use crate::Log2Histogram;

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "cpu",
    space: Some(Space::Cpu),
    needs: &[
        TASK_CGROUPS,
        TASK_PID,
        field("OFF_TASK_RUN_DELAY", &["task_struct.sched_info.run_delay"]),
        TASK_LAST_ARRIVAL,
        field("OFF_TASK_STATE", &["task_struct.__state", "task_struct.state"]),
        CSSET_SUBSYS,
        CSSET_DFL,
        CSS_CGROUP,
        CGROUP_KN,
        KN_ID,
    ],
    wants: RUN_QUEUE_CLOCK,
    programs: &[Program::at("sched_switch", "sched_switch")
        .reading(&[Number, Pointer("task_struct"), Pointer("task_struct"), Number])
        // Before Linux 5.18 the state of the task that leaves the CPU was not an argument.
        .or(&Program::at("sched_switch_without_state", "sched_switch").reading(&[
            Number,
            Pointer("task_struct"),
            Pointer("task_struct"),
        ]))],
    families: FAMILIES,
    put,
    events: |counters| counters.cpu.map_or(0, |c| c.voluntary_switches + c.preempted_switches),
    ..TopicSpec::EMPTY
};

/// How the tasks of a cgroup used the CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuCounters {
    /// Nanoseconds that tasks ran on a CPU.
    pub on_cpu_ns: u64,
    /// Time spent runnable but waiting for a CPU, one value each time a task got one.
    pub wait: Log2Histogram,
    /// Switches at which the task gave up the CPU itself (blocked, slept, exited).
    pub voluntary_switches: u64,
    /// Switches at which the task was still runnable.
    pub preempted_switches: u64,
}

impl CpuCounters {
    /// How often its tasks were switched out.
    pub fn switches(&self) -> u64 {
        self.voluntary_switches + self.preempted_switches
    }
}

#[cfg(any(test, feature = "testing"))]
impl CpuCounters {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self {
            on_cpu_ns: 20_000_000,
            wait: Log2Histogram::example(),
            voluntary_switches: 40,
            preempted_switches: 2,
        }
    }
}

const FAMILIES: &[CgroupFamily] = &[
    CgroupFamily::histogram(
        "nodewarden_cgroup_cpu_wait_seconds",
        GROUP,
        "Time tasks of the cgroup itself waited runnable for a CPU, each time one got it.",
        |counters, sample| {
            if let Some(cpu) = of(counters) {
                sample(None, Figure::Histogram(&cpu.wait));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_on_cpu_seconds_total",
        GROUP,
        "Time tasks of the cgroup itself ran on a CPU, as the scheduler switched them.",
        |counters, sample| {
            if let Some(cpu) = of(counters) {
                sample(None, Figure::Nanos(cpu.on_cpu_ns));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_cpu_switches_total",
        GROUP_KIND,
        "Times a task of the cgroup itself left the CPU: voluntary or preempted.",
        |counters, sample| {
            if let Some(cpu) = of(counters) {
                sample(Some(("kind", "voluntary")), Figure::Count(cpu.voluntary_switches));
                sample(Some(("kind", "preempted")), Figure::Count(cpu.preempted_switches));
            }
        },
    ),
];

fn of(counters: &KernelCounters) -> Option<&CpuCounters> {
    counted(counters.cpu.as_ref())
}

fn put(counters: &KernelCounters, out: &mut proto::Cgroup) {
    if let Some(cpu) = &counters.cpu {
        out.on_cpu_ns = Some(cpu.on_cpu_ns);
        out.cpu_wait = Some(cpu.wait.to_proto());
        out.voluntary_switches = Some(cpu.voluntary_switches);
        out.preempted_switches = Some(cpu.preempted_switches);
    }
}
