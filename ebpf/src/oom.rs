//! Topic oom: every victim of the OOM killer, with its own cgroup and the limit that was reached.
//!
//! `oom:mark_victim` runs in the task that asked for memory; the victim is the tracepoint's argument. The
//! kernel also marks tasks that were dying anyway, which are no kills. The return addresses on the stack
//! distinguish them (`__oom_kill_process` is there only for a kill), and a cgroup OOM
//! (`mem_cgroup_out_of_memory`) from a global one.

use aya_ebpf::{
    EbpfContext, helpers::generated::bpf_get_stack, macros::btf_tracepoint, programs::BtfTracePointContext,
};
use nodewarden_ebpf_abi::{Kind, OomRecord, SCOPE_CGROUP, SCOPE_GLOBAL, SCOPE_UNKNOWN};

use crate::{
    count::{add, group_cell},
    globals::*,
    read::{Ptr, probe, probe_or_zero},
    ring::{command, current, emit, header},
    slots::{memcg, memory_cgroup_id},
};

globals! {
    /// task_struct
    OFF_TASK_MM: u32 = 0;
    /// cgroup_subsys_state
    OFF_CSS_PARENT: u32 = 0;
    /// mm_struct
    OFF_MM_TOTAL_VM: u32 = 0;
    OFF_MM_RSS: u32 = 0;
    /// Distance from one rss counter to the next.
    RSS_STRIDE: u32 = 0;
    /// signal_struct
    OFF_SIGNAL_OOM_ADJ: u32 = 0;
    /// mem_cgroup (its css is its first field)
    OFF_MEMCG_USAGE: u32 = 0;
    OFF_MEMCG_MAX: u32 = 0;
    /// The same, `memory.high`, where it counts as a limit too.
    OFF_MEMCG_HIGH: u32 = 0;
    /// Begin and end addresses of mem_cgroup_out_of_memory and __oom_kill_process; 0 if not known.
    SYM_MEMCG_OOM: u64 = 0;
    SYM_MEMCG_OOM_END: u64 = 0;
    SYM_OOM_KILL: u64 = 0;
    SYM_OOM_KILL_END: u64 = 0;
}

/// Number of stack frames examined; the two functions are within the first dozen.
const FRAMES: usize = 24;
/// Number of cgroup levels examined, from the victim's upwards.
const LEVELS: usize = 32;
/// Limits from this number of pages on mean none. The kernel's number for none is PAGE_COUNTER_MAX, LONG_MAX
/// / PAGE_SIZE (include/linux/page_counter.h). This is its value for pages of 256 KiB, the largest that Linux
/// has, so that it holds for every page size; with pages of 4 KiB it is 128 PiB, more than any machine has.
const NO_LIMIT: u64 = (i64::MAX as u64) / (256 << 10);

#[btf_tracepoint(function = "mark_victim")]
pub fn mark_victim(ctx: BtfTracePointContext) -> i32 {
    let victim: Ptr = ctx.arg(0);
    let (scope, killed) = how(&ctx);
    if !killed {
        return 0;
    }
    let cgroup = memory_cgroup_id(victim);
    if let Some(cell) = group_cell(cgroup) {
        // SAFETY: a map value.
        unsafe { add(&raw mut (*cell).oom_kills, 1) };
    }
    let (limit_cgroup, limit_pages) = if scope == SCOPE_GLOBAL { (0, 0) } else { limit(victim) };
    let mm: Ptr = probe(victim, get(&OFF_TASK_MM)).unwrap_or(core::ptr::null());
    let signal: Ptr = probe(victim, get(&OFF_TASK_SIGNAL)).unwrap_or(core::ptr::null());
    emit::<OomRecord>(Kind::Oom, |record| {
        let trigger = current();
        // SAFETY: the record is reserved and as large as its type; every field is written.
        unsafe {
            (*record).header = header(Kind::Oom, get(&SPACE_MEMORY), cgroup);
            (*record).limit_cgroup = limit_cgroup;
            (*record).limit_pages = limit_pages;
            (*record).total_vm = probe(mm, get(&OFF_MM_TOTAL_VM)).unwrap_or(0);
            // MM_FILEPAGES, MM_ANONPAGES, MM_SWAPENTS, MM_SHMEMPAGES (include/linux/mm_types_task.h)
            (*record).file_rss = rss(mm, 0);
            (*record).anon_rss = rss(mm, 1);
            (*record).shmem_rss = rss(mm, 3);
            (*record).trigger_cgroup = memory_cgroup_id(trigger);
            (*record).pid = probe(victim, get(&OFF_TASK_TGID)).unwrap_or(0);
            (*record).trigger_pid = probe(trigger, get(&OFF_TASK_TGID)).unwrap_or(0);
            (*record).oom_score_adj = probe::<i16>(signal, get(&OFF_SIGNAL_OOM_ADJ)).unwrap_or(0).into();
            (*record).scope = scope;
            (*record).command = command(victim);
            (*record).trigger_command = command(trigger);
        }
    });
    0
}

/// One of the mm's counters, in pages. It is approximate and may be slightly below 0, as when the kernel
/// itself reads it; then 0.
#[inline(always)]
fn rss(mm: Ptr, counter: u32) -> u64 {
    let pages: i64 = probe(mm, get(&OFF_MM_RSS) + counter * get(&RSS_STRIDE)).unwrap_or(0);
    if pages < 0 { 0 } else { pages as u64 }
}

/// The scope, and whether this is a kill, from the return addresses on the stack.
#[inline(always)]
fn how(ctx: &BtfTracePointContext) -> (u32, bool) {
    if get(&SYM_OOM_KILL) == 0 {
        return (SCOPE_UNKNOWN, true);
    }
    let mut frames = [0u64; FRAMES];
    // SAFETY: the buffer and its true size.
    let bytes = unsafe { bpf_get_stack(ctx.as_ptr(), frames.as_mut_ptr().cast(), (FRAMES * 8) as u32, 0) };
    if bytes <= 0 {
        return (SCOPE_UNKNOWN, true);
    }
    let (mut memcg, mut kill) = (0, 0);
    for frame in frames {
        memcg |= within(frame, get(&SYM_MEMCG_OOM), get(&SYM_MEMCG_OOM_END));
        kill |= within(frame, get(&SYM_OOM_KILL), get(&SYM_OOM_KILL_END));
    }
    let (memcg, kill) = (memcg != 0, kill != 0);
    let scope = match (get(&SYM_MEMCG_OOM) != 0, memcg) {
        (false, _) => SCOPE_UNKNOWN,
        (true, true) => SCOPE_CGROUP,
        (true, false) => SCOPE_GLOBAL,
    };
    (scope, kill)
}

/// 1 if a return address is in the function that begins at `begin` and ends before `end`, else 0: by the
/// signs of the distances, which are far below 2^63 between two addresses of the kernel. A comparison would
/// be a branch, and the verifier would follow each of them for every frame.
#[inline(always)]
fn within(address: u64, begin: u64, end: u64) -> u64 {
    let (after, before) = (address.wrapping_sub(begin).wrapping_sub(1), end.wrapping_sub(address));
    !(after | before) >> 63
}

/// Kernel id of the cgroup, at or above the victim's, that has the least room left below its limit, and that
/// limit in pages; zeros if none has a limit. The kernel kills only for a cgroup that has less room than the
/// pages that were asked for (mem_cgroup_out_of_memory()), so the one with the least room is the one whose
/// limit was reached.
#[inline(always)]
fn limit(victim: Ptr) -> (u64, u64) {
    let best = tightest(victim, get(&OFF_MEMCG_MAX));
    (cgroup_of(&best), best.limit)
}

/// Kernel id of the cgroup, at or above the task's, that has the least room left below its `memory.max` or
/// `memory.high`; 0 if none has such a limit. A task that reclaims in a cgroup's name does so for this one:
/// it is over its `memory.high`, or has less room than the pages that were asked for.
#[inline(always)]
pub fn reclaiming_for(task: Ptr) -> u64 {
    cgroup_of(&tightest(task, get(&OFF_MEMCG_HIGH)))
}

/// Kernel id of the cgroup of a level; 0 for none.
#[inline(always)]
fn cgroup_of(level: &Level) -> u64 {
    // Without a level these are reads of address 0, which give 0.
    let cgroup: u64 = probe_or_zero(level.css as Ptr, get(&OFF_CSS_CGROUP));
    let node: u64 = probe_or_zero(cgroup as Ptr, get(&OFF_CGROUP_KN));
    probe_or_zero(node as Ptr, get(&OFF_KN_ID))
}

/// The level, at or above the task's cgroup, with the least room below its `memory.max` and below the limit
/// at the offset `second` of mem_cgroup, which may be the same.
#[inline(always)]
fn tightest(task: Ptr, second: u32) -> Level {
    let mut best = Level { css: 0, room: i64::MAX as u64, limit: 0 };
    let mut css = memcg(task).unwrap_or(core::ptr::null());
    for _ in 0..LEVELS {
        if css.is_null() {
            break;
        }
        let usage: u64 = probe_or_zero(css, get(&OFF_MEMCG_USAGE));
        let limit: u64 = probe(css, get(&OFF_MEMCG_MAX)).unwrap_or(NO_LIMIT);
        best.tighten(css as u64, usage, limit);
        if second != get(&OFF_MEMCG_MAX) {
            let limit: u64 = probe(css, second).unwrap_or(NO_LIMIT);
            best.tighten(css as u64, usage, limit);
        }
        css = probe_or_zero(css, get(&OFF_CSS_PARENT)) as Ptr;
    }
    best
}

/// A level of the hierarchy that has a limit.
struct Level {
    /// Its address; 0 for none.
    css: u64,
    /// What is left below its limit, in pages.
    room: u64,
    /// Its limit, in pages.
    limit: u64,
}

impl Level {
    /// Takes another level instead if it has a limit and less room. All numbers of pages are below 2^63, so
    /// that the sign of a difference says which is less. There are no branches, because the verifier would
    /// follow each of them for every level.
    #[inline(always)]
    fn tighten(&mut self, css: u64, usage: u64, limit: u64) {
        let left = limit.wrapping_sub(usage);
        let room = left & !negative(left);
        let take = negative(room.wrapping_sub(self.room)) & negative(limit.wrapping_sub(NO_LIMIT));
        self.css ^= (self.css ^ css) & take;
        self.room ^= (self.room ^ room) & take;
        self.limit ^= (self.limit ^ limit) & take;
    }
}

/// All bits if a difference is negative, else none.
#[inline(always)]
fn negative(difference: u64) -> u64 {
    (difference as i64 >> 63) as u64
}
