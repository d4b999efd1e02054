//! Topic block: how long devices took for the requests of a cgroup.

use std::sync::{Arc, LazyLock};

use nodewarden_ebpf_abi::{BlockCell, CellReader, Space};
use nodewarden_proto::nodewarden::v1 as proto;

use super::KernelCounters;
use super::fields::{BIO_BLKG, BLKCG_CSS, BLKG_BLKCG, CGROUP_KN, CSS_CGROUP, KN_ID, RQ_BIO, RQ_DATA_LEN};
use super::samples::{CgroupFamily, Figure, GROUP_OPERATION};
use super::spec::Argument::{Any, Number, Pointer};
use super::spec::{Program, TopicSpec, field};
use crate::Log2Histogram;

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "block",
    space: Some(Space::Io),
    needs: &[
        CSS_CGROUP,
        CGROUP_KN,
        KN_ID,
        field("OFF_RQ_CMD_FLAGS", &["request.cmd_flags"]),
        RQ_DATA_LEN,
        RQ_BIO,
        BIO_BLKG,
        BLKG_BLKCG,
        BLKCG_CSS,
    ],
    programs: &[
        Program::at("block_rq_issue", "block_rq_issue")
            .reading(&[Pointer("request")])
            // Before Linux 5.11.
            .or(&Program::at("block_rq_issue_of_queue", "block_rq_issue")
                .reading(&[Pointer("request_queue"), Pointer("request")])),
        Program::at("block_rq_complete", "block_rq_complete").reading(&[Pointer("request"), Any, Number]),
    ],
    // Requests under way at once; beyond that the oldest ones are forgotten.
    tables: &[("REQUESTS", 8192)],
    families: FAMILIES,
    put,
    ..TopicSpec::EMPTY
};

/// Device time of block requests, from issue to completion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockCounters {
    /// Requests that read.
    pub read: Log2Histogram,
    /// Requests that write.
    pub write: Log2Histogram,
}

#[cfg(any(test, feature = "testing"))]
impl BlockCounters {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self { read: Log2Histogram::example(), write: Log2Histogram::default() }
    }
}

impl BlockCounters {
    /// These counters in an `Arc`; all empty ones share one value.
    pub(super) fn shared(self) -> Arc<Self> {
        static NOTHING: LazyLock<Arc<BlockCounters>> = LazyLock::new(Arc::default);
        if self == **NOTHING { NOTHING.clone() } else { Arc::new(self) }
    }
}

pub(super) fn read(cells: &impl CellReader, slot: u32, counters: &mut KernelCounters) {
    let Some(cell) = cells.cell::<BlockCell>(slot) else { return };
    let histogram = |i: usize| Log2Histogram { buckets: cell.buckets[i], sum_ns: cell.sum_ns[i] };
    counters.block = Some(BlockCounters { read: histogram(0), write: histogram(1) }.shared());
}

const FAMILIES: &[CgroupFamily] = &[CgroupFamily::histogram(
    "nodewarden_cgroup_block_latency_seconds",
    GROUP_OPERATION,
    "Time from issue to completion of block requests of the cgroup itself: read or write.",
    |counters, sample| {
        if let Some(block) = counters.block.as_deref() {
            sample(Some(("operation", "read")), Figure::Histogram(&block.read));
            sample(Some(("operation", "write")), Figure::Histogram(&block.write));
        }
    },
)];

fn put(counters: &KernelCounters, out: &mut proto::Cgroup) {
    if let Some(block) = &counters.block {
        out.block_read = Some(block.read.to_proto());
        out.block_write = Some(block.write.to_proto());
    }
}
