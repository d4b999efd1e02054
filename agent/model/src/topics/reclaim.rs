//! Topic reclaim: tasks that stalled because they had to reclaim memory themselves.

use nodewarden_ebpf_abi::{CellReader, GroupCell, Space};
use nodewarden_proto::nodewarden::v1 as proto;

use super::fields::{CGROUP_KN, CSS_CGROUP, CSSET_DFL, CSSET_SUBSYS, KN_ID, TASK_CGROUPS};
use super::samples::{CgroupFamily, Figure, GROUP_KIND};
use super::spec::Argument::Number;
use super::spec::{Program, TopicSpec};
use super::{KernelCounters, counted};

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "reclaim",
    space: Some(Space::Memory),
    needs: &[TASK_CGROUPS, CSSET_SUBSYS, CSSET_DFL, CSS_CGROUP, CGROUP_KN, KN_ID],
    programs: &[
        Program::at("direct_reclaim_begin", "mm_vmscan_direct_reclaim_begin"),
        Program::at("direct_reclaim_end", "mm_vmscan_direct_reclaim_end").reading(&[Number]),
        Program::at("memcg_reclaim_begin", "mm_vmscan_memcg_reclaim_begin"),
        Program::at("memcg_reclaim_end", "mm_vmscan_memcg_reclaim_end").reading(&[Number]),
    ],
    // Reclaims under way at once; beyond that the oldest ones are forgotten.
    tables: &[("RECLAIMS", 8192)],
    families: FAMILIES,
    put,
    events: |counters| counters.reclaim.map_or(0, |c| c.direct_count + c.memcg_count),
    ..TopicSpec::EMPTY
};

/// Memory reclaim by tasks of this cgroup that had to wait for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReclaimCounters {
    /// Direct reclaims: the node was short of memory.
    pub direct_count: u64,
    /// Nanoseconds that tasks waited in direct reclaim.
    pub direct_stall_ns: u64,
    /// Pages freed by direct reclaim.
    pub direct_pages: u64,
    /// Reclaims of a memory cgroup: a limit was reached.
    pub memcg_count: u64,
    /// Nanoseconds that tasks waited in such reclaims.
    pub memcg_stall_ns: u64,
    /// Pages freed by such reclaims.
    pub memcg_pages: u64,
}

#[cfg(any(test, feature = "testing"))]
impl ReclaimCounters {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self { memcg_count: 3, memcg_stall_ns: 1_500_000, memcg_pages: 96, ..Self::default() }
    }
}

pub(super) fn read(cells: &impl CellReader, slot: u32, counters: &mut KernelCounters) {
    let Some(cell) = cells.cell::<GroupCell>(slot) else { return };
    counters.reclaim = Some(ReclaimCounters {
        direct_count: cell.direct_count,
        direct_stall_ns: cell.direct_stall_ns,
        direct_pages: cell.direct_pages,
        memcg_count: cell.memcg_count,
        memcg_stall_ns: cell.memcg_stall_ns,
        memcg_pages: cell.memcg_pages,
    });
}

const FAMILIES: &[CgroupFamily] = &[
    CgroupFamily::counter(
        "nodewarden_cgroup_reclaim_stall_seconds_total",
        GROUP_KIND,
        "Time tasks of the cgroup itself stalled in memory reclaim: direct (node short) or memcg (limit reached).",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(DIRECT, Figure::Nanos(c.direct_stall_ns));
                sample(MEMCG, Figure::Nanos(c.memcg_stall_ns));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_reclaims_total",
        GROUP_KIND,
        "Times a task of the cgroup itself had to reclaim memory: direct or memcg.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(DIRECT, Figure::Count(c.direct_count));
                sample(MEMCG, Figure::Count(c.memcg_count));
            }
        },
    ),
    CgroupFamily::counter(
        "nodewarden_cgroup_reclaimed_pages_total",
        GROUP_KIND,
        "Pages that tasks of the cgroup itself reclaimed: direct or memcg.",
        |counters, sample| {
            if let Some(c) = of(counters) {
                sample(DIRECT, Figure::Count(c.direct_pages));
                sample(MEMCG, Figure::Count(c.memcg_pages));
            }
        },
    ),
];

const DIRECT: Option<(&str, &str)> = Some(("kind", "direct"));
const MEMCG: Option<(&str, &str)> = Some(("kind", "memcg"));

fn of(counters: &KernelCounters) -> Option<&ReclaimCounters> {
    counted(counters.reclaim.as_ref())
}

fn put(counters: &KernelCounters, out: &mut proto::Cgroup) {
    out.reclaim_stall_ns = counters.reclaim.map(|c| c.direct_stall_ns + c.memcg_stall_ns);
}
