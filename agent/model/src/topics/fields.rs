//! The kernel fields that more than one topic needs.

use super::spec::{Need, field};

pub(super) const TASK_CGROUPS: Need = field("OFF_TASK_CGROUPS", &["task_struct.cgroups"]);
pub(super) const TASK_PID: Need = field("OFF_TASK_PID", &["task_struct.pid"]);
pub(super) const TASK_TGID: Need = field("OFF_TASK_TGID", &["task_struct.tgid"]);
pub(super) const TASK_COMM: Need = field("OFF_TASK_COMM", &["task_struct.comm"]);
pub(super) const TASK_SIGNAL: Need = field("OFF_TASK_SIGNAL", &["task_struct.signal"]);
pub(super) const TASK_FLAGS: Need = field("OFF_TASK_FLAGS", &["task_struct.flags"]);
pub(super) const TASK_LAST_ARRIVAL: Need =
    field("OFF_TASK_LAST_ARRIVAL", &["task_struct.sched_info.last_arrival"]);
pub(super) const CSSET_SUBSYS: Need = field("OFF_CSSET_SUBSYS", &["css_set.subsys"]);
pub(super) const CSSET_DFL: Need = field("OFF_CSSET_DFL", &["css_set.dfl_cgrp"]);
pub(super) const CSS_CGROUP: Need = field("OFF_CSS_CGROUP", &["cgroup_subsys_state.cgroup"]);
pub(super) const CGROUP_KN: Need = field("OFF_CGROUP_KN", &["cgroup.kn"]);
pub(super) const CGROUP_LEVEL: Need = field("OFF_CGROUP_LEVEL", &["cgroup.level"]);
pub(super) const CGROUP_ROOT: Need = field("OFF_CGROUP_ROOT", &["cgroup.root"]);
pub(super) const ROOT_HIERARCHY: Need = field("OFF_ROOT_HIERARCHY", &["cgroup_root.hierarchy_id"]);
pub(super) const KN_NAME: Need = field("OFF_KN_NAME", &["kernfs_node.name"]);
pub(super) const KN_ID: Need = field("OFF_KN_ID", &["kernfs_node.id"]);
pub(super) const CSS_PARENT: Need = field("OFF_CSS_PARENT", &["cgroup_subsys_state.parent"]);
pub(super) const MEMCG_USAGE: Need = field("OFF_MEMCG_USAGE", &["mem_cgroup.memory.usage"]);
pub(super) const MEMCG_MAX: Need = field("OFF_MEMCG_MAX", &["mem_cgroup.memory.max"]);
pub(super) const MEMCG_SUBSYS: Need = Need::Controller { global: "MEMCG_SUBSYS", name: "memory" };
pub(super) const RQ_DATA_LEN: Need = field("OFF_RQ_DATA_LEN", &["request.__data_len"]);
pub(super) const RQ_BIO: Need = field("OFF_RQ_BIO", &["request.bio"]);
pub(super) const BIO_BLKG: Need = field("OFF_BIO_BLKG", &["bio.bi_blkg"]);
pub(super) const BLKG_BLKCG: Need = field("OFF_BLKG_BLKCG", &["blkcg_gq.blkcg"]);
pub(super) const BLKCG_CSS: Need = field("OFF_BLKCG_CSS", &["blkcg.css"]);

/// The way from a task to the clock of its run queue. Without it programs read CLOCK_MONOTONIC.
pub(super) const RUN_QUEUE_CLOCK: &[Need] = &[
    field("OFF_TASK_CFS_RQ", &["task_struct.se.cfs_rq"]),
    field("OFF_CFS_RQ_RQ", &["cfs_rq.rq"]),
    field("OFF_RQ_CLOCK", &["rq.clock"]),
];
