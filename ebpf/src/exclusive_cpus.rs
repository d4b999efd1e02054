//! Topic exclusive_cpus: who runs on a CPU that one container has for itself, and for how long: its own
//! tasks, kernel threads, tasks of other cgroups, nothing, interrupts and softirqs.
//!
//! The agent says by CPU whose it is (`EXCLUSIVE_CPU_OWNERS`). The programs are attached only while some CPU
//! is exclusive, so that other machines pay nothing for them; on the CPUs that are not exclusive they end
//! after one look-up. That is also why switches are counted here by a program of their own and not in `cpu`,
//! which runs everywhere and always.
//!
//! A turn on the CPU is the time from one switch to the next; what interrupts and softirqs took of it is
//! taken off. So the times of all kinds together are the time that has passed. An interrupt may come in a
//! softirq, which then counts less by that time; handlers do not interrupt each other.
//!
//! Interrupts that cannot be masked pass no tracepoint and count for what they interrupt. On a kernel with
//! PREEMPT_RT softirqs run in kernel threads and may be switched away: what is left of one then counts for
//! its thread.

use core::ptr;

use aya_ebpf::{
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::{btf_tracepoint, map},
    maps::Array,
    programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{
    BY_IDLE, BY_KERNEL_THREAD, BY_OTHER, BY_OWNER, COMMAND_LEN, ExclusiveCpu, LONGEST_INTERRUPT,
    LONGEST_KERNEL_THREAD, LONGEST_OTHER, LONGEST_SOFTIRQ, LongestTurn, TASK_KINDS, VECTOR, owner_id,
    owner_level,
};

use crate::{
    globals::*,
    maps::MMAPABLE,
    read::{Ptr, field, probe},
    ring::command,
    slots::{cgroup_id, cpu_cgroup},
};

/// Whose a CPU is (see `owner_word`), indexed by CPU; 0 for a CPU that is not exclusive. Written by the
/// agent.
#[map]
static EXCLUSIVE_CPU_OWNERS: Array<u64> = Array::with_max_entries(1, 0);
/// What is counted, indexed by CPU.
#[map]
static EXCLUSIVE_CPUS: Array<ExclusiveCpu> = Array::with_max_entries(1, MMAPABLE);
/// The number of the running period, see `LongestTurn`. Written by the agent.
#[map]
static EXCLUSIVE_CPU_PERIOD: Array<u64> = Array::with_max_entries(1, 0);

globals! {
    /// cgroup: `ancestors` (pointers), before Linux 6.1 `ancestor_ids`; by level, the cgroup itself at its
    /// own.
    OFF_CGROUP_ANCESTRY: u32 = 0;
    /// The same, if they are ids; else u32::MAX.
    OFF_CGROUP_ANCESTOR_IDS: u32 = u32::MAX;
}

#[btf_tracepoint(function = "sched_switch")]
pub fn exclusive_sched_switch(ctx: BtfTracePointContext) -> i32 {
    let (prev, next): (Ptr, Ptr) = (ctx.arg(1), ctx.arg(2));
    // SAFETY: no arguments.
    let number = unsafe { bpf_get_smp_processor_id() };
    let Some(owner) = EXCLUSIVE_CPU_OWNERS.get(number) else { return 0 };
    // SAFETY: one aligned word of the map, which the agent writes whole.
    let owner = unsafe { ptr::from_ref(owner).read_volatile() };
    if owner == 0 {
        return 0;
    }
    let Some(cpu) = EXCLUSIVE_CPUS.get_ptr_mut(number) else { return 0 };
    // SAFETY: this CPU's map value; the tracepoint's typed arguments.
    unsafe {
        let now = bpf_ktime_get_ns();
        end_softirq(cpu, now);
        // Else the turn began under another owner, or while the CPU was not exclusive: it does not count.
        if (*cpu).owner == owner {
            end_turn(cpu, owner, prev, now);
        } else {
            (*cpu).looked_up = 0;
        }
        let kind = kind_of(cpu, next, owner);
        (*cpu).owner = owner;
        (*cpu).interrupt_ns_before = (*cpu).interrupt_ns;
        (*cpu).softirq_ns_before = (*cpu).softirq_ns;
        (*cpu).pid = field(next, &OFF_TASK_PID);
        (*cpu).kind = kind as u32;
        // Last, since the agent takes the turn for what it is by this word.
        (*cpu).since_ns = now;
        (*cpu).switches[kind & (TASK_KINDS - 1)] += 1;
    }
    0
}

/// Who a task is on a CPU with this owner: `BY_OWNER` …. The tasks on a CPU are of few cgroups: the answer
/// for the last one is kept.
///
/// # Safety
/// `cpu` must be this CPU's map value, `task` a BTF-typed task_struct.
#[inline(always)]
unsafe fn kind_of(cpu: *mut ExclusiveCpu, task: Ptr, owner: u64) -> usize {
    // SAFETY: as the caller says.
    unsafe {
        if field::<u32>(task, &OFF_TASK_PID) == 0 {
            return BY_IDLE;
        }
        if field::<u32>(task, &OFF_TASK_FLAGS) & PF_KTHREAD != 0 {
            return BY_KERNEL_THREAD;
        }
        let cgroup = cpu_cgroup(task);
        let id = cgroup_id(cgroup);
        if id == owner_id(owner) {
            return BY_OWNER;
        }
        if id != (*cpu).looked_up {
            (*cpu).looked_up_kind = if is_below(cgroup, owner) { BY_OWNER } else { BY_OTHER } as u64;
            (*cpu).looked_up = id;
        }
        (*cpu).looked_up_kind as usize
    }
}

/// Whether a cgroup is below the owner's.
///
/// # Safety
/// `cgroup` must be a BTF-typed cgroup.
#[inline(always)]
unsafe fn is_below(cgroup: Ptr, owner: u64) -> bool {
    let level = owner_level(owner);
    // SAFETY: as the caller says.
    if unsafe { field::<u32>(cgroup, &OFF_CGROUP_LEVEL) } <= level {
        return false;
    }
    let at = get(&OFF_CGROUP_ANCESTRY) + level * 8;
    let Some(ancestor) = probe::<u64>(cgroup, at) else { return false };
    let id = if get(&OFF_CGROUP_ANCESTOR_IDS) != u32::MAX { Some(ancestor) } else { id_of(ancestor as Ptr) };
    id == Some(owner_id(owner))
}

/// Kernel id of a cgroup to which the verifier knows no type.
#[inline(always)]
fn id_of(cgroup: Ptr) -> Option<u64> {
    let node: Ptr = probe(cgroup, get(&OFF_CGROUP_KN))?;
    probe(node, get(&OFF_KN_ID))
}

/// Counts the turn that ends now. Some kernels make some switches without calling the tracepoint (see `cpu`):
/// then `prev` is not the task that was switched to last, and the turn is divided at the moment when `prev`
/// got the CPU.
///
/// # Safety
/// `cpu` must be this CPU's map value, `prev` a BTF-typed task_struct.
#[inline(always)]
unsafe fn end_turn(cpu: *mut ExclusiveCpu, owner: u64, prev: Ptr, now: u64) {
    // SAFETY: as the caller says.
    unsafe {
        let since = (*cpu).since_ns;
        let interrupted = ((*cpu).interrupt_ns - (*cpu).interrupt_ns_before)
            + ((*cpu).softirq_ns - (*cpu).softirq_ns_before);
        let arrival: u64 = field(prev, &OFF_TASK_LAST_ARRIVAL);
        let pid: u32 = field(prev, &OFF_TASK_PID);
        if pid == (*cpu).pid {
            (*cpu).clock_offset_ns = arrival.wrapping_sub(since);
            let ran = (now - since).saturating_sub(interrupted);
            ran_for(cpu, (*cpu).kind as usize, ran, pid, prev);
            return;
        }
        (*cpu).untraced += 1;
        let arrival = arrival.wrapping_sub((*cpu).clock_offset_ns);
        let arrival = if arrival < since || arrival > now { now } else { arrival };
        // When the interrupts came is not known: they are taken off the first task's part as far as it goes.
        let (first, second) = (arrival - since, now - arrival);
        let of_first = if interrupted < first { interrupted } else { first };
        ran_for(cpu, (*cpu).kind as usize, first - of_first, (*cpu).pid, ptr::null());
        let kind = kind_of(cpu, prev, owner);
        (*cpu).switches[kind & (TASK_KINDS - 1)] += 1;
        ran_for(cpu, kind, second.saturating_sub(interrupted - of_first), pid, prev);
    }
}

/// Counts a turn of `ns` nanoseconds of a task of this kind. `task` is null where only its pid is known.
///
/// # Safety
/// `cpu` must be this CPU's map value.
#[inline(always)]
unsafe fn ran_for(cpu: *mut ExclusiveCpu, kind: usize, ns: u64, pid: u32, task: Ptr) {
    // SAFETY: as the caller says; the index is bounded.
    unsafe {
        (*cpu).task_ns[kind & (TASK_KINDS - 1)] += ns;
        let which = match kind {
            BY_KERNEL_THREAD => LONGEST_KERNEL_THREAD,
            BY_OTHER => LONGEST_OTHER,
            _ => return,
        };
        if let Some(longest) = longer(cpu, which, ns) {
            (*longest).pid = pid;
            (*longest).number = 0;
            (*longest).command = if task.is_null() { [0; COMMAND_LEN] } else { command(task) };
        }
    }
}

/// The longest turn of this period, if one of `ns` nanoseconds is longer: then it has this time, and the
/// caller writes the rest.
///
/// # Safety
/// `cpu` must be this CPU's map value.
#[inline(always)]
unsafe fn longer(cpu: *mut ExclusiveCpu, which: usize, ns: u64) -> Option<*mut LongestTurn> {
    let period = EXCLUSIVE_CPU_PERIOD.get(0)?;
    // SAFETY: one aligned word of a map; this CPU's map value, in which the indexes are bounded.
    unsafe {
        let period = ptr::from_ref(period).read_volatile();
        let longest = &raw mut (*cpu).longest[(period & 1) as usize][which];
        if (*longest).period == period && (*longest).ns >= ns {
            return None;
        }
        (*longest).period = period;
        (*longest).ns = ns;
        Some(longest)
    }
}

/// This CPU's map value, if the CPU is exclusive.
#[inline(always)]
fn if_exclusive() -> Option<*mut ExclusiveCpu> {
    // SAFETY: no arguments.
    let number = unsafe { bpf_get_smp_processor_id() };
    let owner = EXCLUSIVE_CPU_OWNERS.get(number)?;
    // SAFETY: one aligned word of the map.
    if unsafe { ptr::from_ref(owner).read_volatile() } == 0 {
        return None;
    }
    EXCLUSIVE_CPUS.get_ptr_mut(number)
}

/// This CPU's map value. What has begun is ended whether the CPU is still exclusive or not.
#[inline(always)]
fn this_cpu() -> Option<*mut ExclusiveCpu> {
    // SAFETY: no arguments.
    EXCLUSIVE_CPUS.get_ptr_mut(unsafe { bpf_get_smp_processor_id() })
}

/// A handler of an interrupt begins.
#[inline(always)]
fn begin_interrupt() -> i32 {
    if let Some(cpu) = if_exclusive() {
        // SAFETY: this CPU's map value; interrupts are disabled.
        unsafe { (*cpu).interrupt_since_ns = bpf_ktime_get_ns() };
    }
    0
}

/// The handler of interrupt `number` ends.
#[inline(always)]
fn end_interrupt(number: u32) -> i32 {
    let Some(cpu) = this_cpu() else { return 0 };
    // SAFETY: this CPU's map value; interrupts are disabled.
    unsafe {
        let since = (*cpu).interrupt_since_ns;
        if since == 0 {
            return 0;
        }
        let ns = bpf_ktime_get_ns() - since;
        (*cpu).interrupt_since_ns = 0;
        (*cpu).interrupt_ns += ns;
        (*cpu).interrupts += 1;
        interrupted_for(cpu, LONGEST_INTERRUPT, ns, number);
    }
    0
}

/// Notes how long an interrupt or a softirq took.
///
/// # Safety
/// `cpu` must be this CPU's map value.
#[inline(always)]
unsafe fn interrupted_for(cpu: *mut ExclusiveCpu, which: usize, ns: u64, number: u32) {
    // SAFETY: as the caller says.
    unsafe {
        if let Some(longest) = longer(cpu, which, ns) {
            (*longest).pid = 0;
            (*longest).number = number;
            (*longest).command = [0; COMMAND_LEN];
        }
    }
}

#[btf_tracepoint(function = "irq_handler_entry")]
pub fn exclusive_irq_entry(_: BtfTracePointContext) -> i32 {
    begin_interrupt()
}

#[btf_tracepoint(function = "irq_handler_exit")]
pub fn exclusive_irq_exit(ctx: BtfTracePointContext) -> i32 {
    let number: u64 = ctx.arg(0);
    end_interrupt(number as u32)
}

/// The programs of an interrupt of x86 that has a vector of its own
/// (arch/x86/include/asm/trace/irq_vectors.h): it does not pass irq_handler_entry.
macro_rules! vector {
    ($entry:ident $exit:ident $at_entry:literal $at_exit:literal) => {
        #[btf_tracepoint(function = $at_entry)]
        pub fn $entry(_: BtfTracePointContext) -> i32 {
            begin_interrupt()
        }

        #[btf_tracepoint(function = $at_exit)]
        pub fn $exit(ctx: BtfTracePointContext) -> i32 {
            let vector: u64 = ctx.arg(0);
            end_interrupt(vector as u32 | VECTOR)
        }
    };
}

vector!(exclusive_timer_entry exclusive_timer_exit "local_timer_entry" "local_timer_exit");
vector!(exclusive_reschedule_entry exclusive_reschedule_exit "reschedule_entry" "reschedule_exit");
vector!(exclusive_call_entry exclusive_call_exit "call_function_entry" "call_function_exit");
vector!(exclusive_call_one_entry exclusive_call_one_exit "call_function_single_entry" "call_function_single_exit");
vector!(exclusive_irq_work_entry exclusive_irq_work_exit "irq_work_entry" "irq_work_exit");

#[btf_tracepoint(function = "softirq_entry")]
pub fn exclusive_softirq_entry(_: BtfTracePointContext) -> i32 {
    if let Some(cpu) = if_exclusive() {
        // SAFETY: this CPU's map value, words that only softirqs write.
        unsafe {
            (*cpu).softirq_interrupt_ns_before = (&raw const (*cpu).interrupt_ns).read_volatile();
            (*cpu).softirq_since_ns = bpf_ktime_get_ns();
        }
    }
    0
}

#[btf_tracepoint(function = "softirq_exit")]
pub fn exclusive_softirq_exit(ctx: BtfTracePointContext) -> i32 {
    let number: u64 = ctx.arg(0);
    let Some(cpu) = this_cpu() else { return 0 };
    // SAFETY: this CPU's map value.
    unsafe {
        if let Some(ns) = end_softirq(cpu, bpf_ktime_get_ns()) {
            (*cpu).softirqs += 1;
            interrupted_for(cpu, LONGEST_SOFTIRQ, ns, number as u32);
        }
    }
    0
}

/// Counts the time of the running softirq, if there is one, up to now, and returns it.
///
/// # Safety
/// `cpu` must be this CPU's map value.
#[inline(always)]
unsafe fn end_softirq(cpu: *mut ExclusiveCpu, now: u64) -> Option<u64> {
    // SAFETY: as the caller says. An interrupt may come between any two of these lines: it changes
    // `interrupt_ns`, and then counts for itself and no longer for the softirq.
    unsafe {
        let since = (*cpu).softirq_since_ns;
        if since == 0 {
            return None;
        }
        let interrupted =
            (&raw const (*cpu).interrupt_ns).read_volatile() - (*cpu).softirq_interrupt_ns_before;
        let ns = (now - since).saturating_sub(interrupted);
        (*cpu).softirq_since_ns = 0;
        (*cpu).softirq_ns += ns;
        Some(ns)
    }
}
