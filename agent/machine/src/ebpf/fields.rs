//! The short list of kernel fields that the programs read, by the global that carries each offset and the topics
//! that cannot do without it. Where a field was renamed, the names are tried in order.

use nodewarden_model::Topic;

/// One field: `global` gets the offset of the first of `paths` (`struct.member.member…`) that exists.
pub struct Field {
    pub global: &'static str,
    pub paths: &'static [&'static str],
    pub topics: &'static [Topic],
}

const fn field(global: &'static str, paths: &'static [&'static str], topics: &'static [Topic]) -> Field {
    Field { global, paths, topics }
}

/// By task: everything that is counted to a task's cgroup.
const TASK: &[Topic] = &[Topic::Cpu, Topic::Oom, Topic::Reclaim, Topic::Process, Topic::Device];
/// By any cgroup at all.
const GROUP: &[Topic] = &[
    Topic::Cpu,
    Topic::Oom,
    Topic::Reclaim,
    Topic::Process,
    Topic::Block,
    Topic::CgroupLifecycle,
    Topic::Network,
    Topic::Device,
];
/// By events that name a process.
const NAMED: &[Topic] = &[Topic::Oom, Topic::Process, Topic::CgroupLifecycle, Topic::Device];
const CPU: &[Topic] = &[Topic::Cpu];
const OOM: &[Topic] = &[Topic::Oom];
const PROCESS: &[Topic] = &[Topic::Process];
const CGROUP_LIFECYCLE: &[Topic] = &[Topic::CgroupLifecycle];
const BLOCK: &[Topic] = &[Topic::Block];
/// Without it only a substitute of a program cannot be used.
const SUBSTITUTE: &[Topic] = &[];

pub const FIELDS: &[Field] = &[
    field("OFF_TASK_CGROUPS", &["task_struct.cgroups"], TASK),
    field("OFF_TASK_PID", &["task_struct.pid"], &[Topic::Cpu, Topic::Process]),
    field("OFF_TASK_TGID", &["task_struct.tgid"], NAMED),
    field("OFF_TASK_COMM", &["task_struct.comm"], NAMED),
    field("OFF_TASK_FLAGS", &["task_struct.flags"], PROCESS),
    field("OFF_TASK_RUN_DELAY", &["task_struct.sched_info.run_delay"], CPU),
    field("OFF_TASK_LAST_ARRIVAL", &["task_struct.sched_info.last_arrival"], CPU),
    field("OFF_TASK_MM", &["task_struct.mm"], OOM),
    field("OFF_TASK_SIGNAL", &["task_struct.signal"], &[Topic::Oom, Topic::Process]),
    field("OFF_TASK_EXIT_CODE", &["task_struct.exit_code"], PROCESS),
    field("OFF_TASK_THREAD_PID", &["task_struct.thread_pid"], PROCESS),
    field("OFF_TASK_REAL_PARENT", &["task_struct.real_parent"], PROCESS),
    field("OFF_CSSET_SUBSYS", &["css_set.subsys"], TASK),
    field("OFF_CSSET_DFL", &["css_set.dfl_cgrp"], TASK),
    field("OFF_CSS_CGROUP", &["cgroup_subsys_state.cgroup"], GROUP),
    field("OFF_CSS_PARENT", &["cgroup_subsys_state.parent"], OOM),
    field("OFF_CGROUP_KN", &["cgroup.kn"], GROUP),
    field("OFF_CGROUP_ROOT", &["cgroup.root"], CGROUP_LIFECYCLE),
    field("OFF_CGROUP_SELF_PARENT", &["cgroup.self.parent"], CGROUP_LIFECYCLE),
    field("OFF_CGROUP_LEVEL", &["cgroup.level"], SUBSTITUTE),
    field("OFF_CGROUP_ANCESTORS", &["cgroup.ancestors"], SUBSTITUTE),
    field("OFF_ROOT_HIERARCHY", &["cgroup_root.hierarchy_id"], CGROUP_LIFECYCLE),
    field("OFF_KN_ID", &["kernfs_node.id"], GROUP),
    field("OFF_KN_NAME", &["kernfs_node.name"], CGROUP_LIFECYCLE),
    field("OFF_MM_TOTAL_VM", &["mm_struct.total_vm"], OOM),
    field("OFF_SIGNAL_LIVE", &["signal_struct.live"], PROCESS),
    field("OFF_SIGNAL_FLAGS", &["signal_struct.flags"], PROCESS),
    field("OFF_SIGNAL_GROUP_EXIT", &["signal_struct.group_exit_code"], PROCESS),
    field("OFF_SIGNAL_OOM_ADJ", &["signal_struct.oom_score_adj"], OOM),
    field("OFF_PID_LEVEL", &["pid.level"], PROCESS),
    field("OFF_PID_NUMBERS", &["pid.numbers"], PROCESS),
    field("OFF_UPID_NS", &["upid.ns"], PROCESS),
    field("OFF_PIDNS_REAPER", &["pid_namespace.child_reaper"], PROCESS),
    field("OFF_MEMCG_USAGE", &["mem_cgroup.memory.usage"], OOM),
    field("OFF_MEMCG_MAX", &["mem_cgroup.memory.max"], OOM),
    field("OFF_RQ_CMD_FLAGS", &["request.cmd_flags"], BLOCK),
    field("OFF_RQ_DATA_LEN", &["request.__data_len"], BLOCK),
    field("OFF_RQ_BIO", &["request.bio"], BLOCK),
    field("OFF_BIO_BLKG", &["bio.bi_blkg"], BLOCK),
    field("OFF_BLKG_BLKCG", &["blkcg_gq.blkcg"], BLOCK),
    field("OFF_BLKCG_CSS", &["blkcg.css"], BLOCK),
];
