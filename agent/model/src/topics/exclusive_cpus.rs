//! Topic exclusive_cpus: who runs on the CPUs that one container has for itself. Its programs are attached
//! while there are such CPUs, and its counters are by CPU, not by cgroup: see
//! `nodewarden_machine::ebpf::ExclusiveCpus`.

use nodewarden_ebpf_abi::Space;

use super::fields::{
    CGROUP_KN, CGROUP_LEVEL, CSS_CGROUP, CSSET_DFL, CSSET_SUBSYS, KN_ID, TASK_CGROUPS, TASK_COMM, TASK_FLAGS,
    TASK_LAST_ARRIVAL, TASK_PID,
};
use super::spec::Argument::{Any, Number, Pointer};
use super::spec::{Program, TopicSpec, field};

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "exclusive_cpus",
    space: Some(Space::Cpu),
    needs: &[
        TASK_CGROUPS,
        TASK_PID,
        TASK_COMM,
        TASK_FLAGS,
        TASK_LAST_ARRIVAL,
        CSSET_SUBSYS,
        CSSET_DFL,
        CSS_CGROUP,
        CGROUP_KN,
        CGROUP_LEVEL,
        // Pointers since Linux 6.1, before that ids.
        field("OFF_CGROUP_ANCESTRY", &["cgroup.ancestors", "cgroup.ancestor_ids"]),
        KN_ID,
    ],
    wants: &[field("OFF_CGROUP_ANCESTOR_IDS", &["cgroup.ancestor_ids"])],
    programs: PROGRAMS,
    on_request: true,
    ..TopicSpec::EMPTY
};

/// The entry of each pair comes last: then no handler is ended whose begin was missed.
#[cfg(not(target_arch = "x86_64"))]
const PROGRAMS: &[Program] = &[SWITCH, IRQ_EXIT, IRQ_ENTRY, SOFTIRQ_EXIT, SOFTIRQ_ENTRY];

/// On x86 interrupts with vectors of their own do not pass `irq_handler_entry`, the timer's tick among them.
#[cfg(target_arch = "x86_64")]
const PROGRAMS: &[Program] = &[
    SWITCH,
    IRQ_EXIT,
    IRQ_ENTRY,
    SOFTIRQ_EXIT,
    SOFTIRQ_ENTRY,
    vector("exclusive_timer_exit", "local_timer_exit"),
    vector("exclusive_timer_entry", "local_timer_entry"),
    vector("exclusive_reschedule_exit", "reschedule_exit"),
    vector("exclusive_reschedule_entry", "reschedule_entry"),
    vector("exclusive_call_exit", "call_function_exit"),
    vector("exclusive_call_entry", "call_function_entry"),
    vector("exclusive_call_one_exit", "call_function_single_exit"),
    vector("exclusive_call_one_entry", "call_function_single_entry"),
    vector("exclusive_irq_work_exit", "irq_work_exit"),
    vector("exclusive_irq_work_entry", "irq_work_entry"),
];

const SWITCH: Program = Program::at("exclusive_sched_switch", "sched_switch").reading(&[
    Any,
    Pointer("task_struct"),
    Pointer("task_struct"),
]);
const IRQ_EXIT: Program = Program::at("exclusive_irq_exit", "irq_handler_exit").reading(&[Number]);
const IRQ_ENTRY: Program = Program::at("exclusive_irq_entry", "irq_handler_entry");
const SOFTIRQ_EXIT: Program = Program::at("exclusive_softirq_exit", "softirq_exit").reading(&[Number]);
const SOFTIRQ_ENTRY: Program = Program::at("exclusive_softirq_entry", "softirq_entry");

#[cfg(target_arch = "x86_64")]
const fn vector(name: &'static str, tracepoint: &'static str) -> Program {
    Program { optional: true, ..Program::at(name, tracepoint).reading(&[Number]) }
}
