//! Topic neighbours: whom tasks of a cgroup waited for, for a CPU, for memory and for a disk. Its programs
//! are attached where the configuration asks for it, and its sums are of pairs of cgroups: see
//! `nodewarden_machine::ebpf::Neighbours`.

use nodewarden_ebpf_abi::Space;

use super::fields::{
    BIO_BLKG, BLKCG_CSS, BLKG_BLKCG, CGROUP_KN, CSS_CGROUP, CSS_PARENT, CSSET_DFL, CSSET_SUBSYS, KN_ID,
    MEMCG_MAX, MEMCG_SUBSYS, MEMCG_USAGE, RQ_BIO, RQ_DATA_LEN, RUN_QUEUE_CLOCK, TASK_CGROUPS,
    TASK_LAST_ARRIVAL, TASK_PID,
};
use super::spec::Argument::{Any, Number, Pointer};
use super::spec::{Program, TopicSpec, field};

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "neighbours",
    space: Some(Space::Cpu),
    needs: &[
        TASK_CGROUPS,
        TASK_PID,
        TASK_LAST_ARRIVAL,
        field("OFF_TASK_LAST_QUEUED", &["task_struct.sched_info.last_queued"]),
        CSSET_SUBSYS,
        CSSET_DFL,
        CSS_CGROUP,
        CSS_PARENT,
        CGROUP_KN,
        KN_ID,
        MEMCG_USAGE,
        MEMCG_MAX,
        field("OFF_MEMCG_HIGH", &["mem_cgroup.memory.high"]),
        MEMCG_SUBSYS,
        RQ_DATA_LEN,
        RQ_BIO,
        field("OFF_RQ_QUEUE", &["request.q"]),
        BIO_BLKG,
        BLKG_BLKCG,
        BLKCG_CSS,
    ],
    wants: RUN_QUEUE_CLOCK,
    programs: &[
        Program::at("neighbours_sched_switch", "sched_switch").reading(&[
            Any,
            Pointer("task_struct"),
            Pointer("task_struct"),
        ]),
        Program::at("neighbours_direct_reclaim_begin", "mm_vmscan_direct_reclaim_begin"),
        Program::at("neighbours_direct_reclaim_end", "mm_vmscan_direct_reclaim_end"),
        Program::at("neighbours_memcg_reclaim_begin", "mm_vmscan_memcg_reclaim_begin"),
        Program::at("neighbours_memcg_reclaim_end", "mm_vmscan_memcg_reclaim_end"),
        Program::at("neighbours_rq_issue", "block_rq_issue")
            .reading(&[Pointer("request")])
            // Before Linux 5.11.
            .or(&Program::at("neighbours_rq_issue_of_queue", "block_rq_issue")
                .reading(&[Pointer("request_queue"), Pointer("request")])),
        Program::at("neighbours_rq_complete", "block_rq_complete").reading(&[
            Pointer("request"),
            Any,
            Number,
        ]),
    ],
    on_request: true,
    ..TopicSpec::EMPTY
};
