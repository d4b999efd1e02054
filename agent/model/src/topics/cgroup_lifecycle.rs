//! Topic cgroup: cgroups that are created, removed, populated and emptied, and processes moved between them.
//! Its events change which cgroups are known, see `nodewarden_observer::registry`.

use super::fields::{
    CGROUP_KN, CGROUP_ROOT, CSS_CGROUP, KN_ID, KN_NAME, ROOT_HIERARCHY, TASK_COMM, TASK_TGID,
};
use super::spec::Argument::{self, Any, Number, Pointer};
use super::spec::{Program, TopicSpec, field};

/// The arguments of a move: the cgroup, its path, the task.
const MOVE: &[Argument] = &[Pointer("cgroup"), Any, Pointer("task_struct")];

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "cgroup",
    needs: &[
        TASK_TGID,
        TASK_COMM,
        CSS_CGROUP,
        CGROUP_KN,
        CGROUP_ROOT,
        field("OFF_CGROUP_SELF_PARENT", &["cgroup.self.parent"]),
        ROOT_HIERARCHY,
        KN_ID,
        KN_NAME,
    ],
    programs: &[
        Program::at("cgroup_mkdir", "cgroup_mkdir").reading(&[Pointer("cgroup")]),
        Program::at("cgroup_rmdir", "cgroup_rmdir").reading(&[Pointer("cgroup")]),
        Program::at("cgroup_notify_populated", "cgroup_notify_populated").reading(&[
            Pointer("cgroup"),
            Any,
            Number,
        ]),
        Program::at("cgroup_attach_task", "cgroup_attach_task").reading(MOVE),
        Program {
            optional: true,
            ..Program::at("cgroup_transfer_tasks", "cgroup_transfer_tasks").reading(MOVE)
        },
    ],
    ..TopicSpec::EMPTY
};
