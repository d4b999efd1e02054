//! Topic oom: processes that the OOM killer killed.

use std::sync::Arc;

use nodewarden_ebpf_abi::{CellReader, GroupCell, OomRecord, SCOPE_CGROUP, SCOPE_GLOBAL, Space};
use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use super::fields::{
    CGROUP_KN, CSS_CGROUP, CSS_PARENT, CSSET_DFL, CSSET_SUBSYS, KN_ID, MEMCG_MAX, MEMCG_SUBSYS, MEMCG_USAGE,
    TASK_CGROUPS, TASK_COMM, TASK_SIGNAL, TASK_TGID,
};
use super::samples::{CgroupFamily, Figure, GROUP};
use super::spec::Argument::Pointer;
use super::spec::{Need, Program, TopicSpec, field};
use super::{Detail, KernelCounters, Tree};
use crate::event_body::EventBody;
use crate::place::Place;
use crate::text::{bytes, until_zero};

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "oom",
    space: Some(Space::Memory),
    needs: &[
        TASK_CGROUPS,
        TASK_TGID,
        TASK_COMM,
        field("OFF_TASK_MM", &["task_struct.mm"]),
        TASK_SIGNAL,
        CSSET_SUBSYS,
        CSSET_DFL,
        CSS_CGROUP,
        CSS_PARENT,
        CGROUP_KN,
        KN_ID,
        field("OFF_MM_TOTAL_VM", &["mm_struct.total_vm"]),
        field("OFF_SIGNAL_OOM_ADJ", &["signal_struct.oom_score_adj"]),
        MEMCG_USAGE,
        MEMCG_MAX,
        Need::RssCounters { offset: "OFF_MM_RSS", stride: "RSS_STRIDE" },
        // Before Linux 6.9 the tracepoint gave only a pid.
        Need::PointerArgument {
            tracepoint: "mark_victim",
            argument: 1,
            otherwise: "task in the tracepoint oom:mark_victim (Linux 6.9)",
        },
        MEMCG_SUBSYS,
    ],
    programs: &[Program::at("mark_victim", "mark_victim").reading(&[Pointer("task_struct")])],
    families: &[CgroupFamily::counter(
        "nodewarden_cgroup_oom_kills_total",
        GROUP,
        "Processes of the cgroup itself that the OOM killer killed.",
        // Shown even while it is 0: the first kill has to show as an increase.
        |counters, sample| {
            if let Some(kills) = counters.oom_kills {
                sample(None, Figure::Count(kills));
            }
        },
    )],
    put: |counters, out| out.oom_kills = counters.oom_kills,
    events: |counters| counters.oom_kills.unwrap_or(0),
    ..TopicSpec::EMPTY
};

pub(super) fn read(cells: &impl CellReader, slot: u32, counters: &mut KernelCounters) {
    if let Some(cell) = cells.cell::<GroupCell>(slot) {
        counters.oom_kills = Some(cell.oom_kills);
    }
}

/// Where the memory ran out.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::EnumString, strum::IntoStaticStr,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum LimitScope {
    /// A memory cgroup reached its limit.
    Cgroup,
    /// The node ran out of memory.
    Global,
    /// This kernel does not let the programs find out.
    Unknown,
}

/// A process that the OOM killer killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OomKill {
    /// The victim, by its number in the machine's first pid namespace.
    pub pid: u32,
    /// The victim's command name.
    pub command: String,
    /// Virtual memory of the victim when it was killed, in bytes.
    pub total_vm_bytes: u64,
    /// Resident anonymous memory of the victim, in bytes.
    pub anon_rss_bytes: u64,
    /// Resident file pages of the victim, in bytes.
    pub file_rss_bytes: u64,
    /// Resident shared memory (tmpfs, System V) of the victim, in bytes.
    pub shmem_rss_bytes: u64,
    /// The victim's `oom_score_adj`, -1000…1000.
    pub oom_score_adj: i32,
    /// Where the memory ran out.
    pub scope: LimitScope,
    /// The cgroup whose limit was reached; empty for a global OOM or when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit_cgroup: String,
    /// That limit in bytes; `None` when there is no such cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// The process whose allocation failed.
    pub trigger_pid: u32,
    /// Its command name.
    pub trigger_command: String,
    /// Path of its memory cgroup; empty when unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trigger_cgroup: String,
}

#[cfg(any(test, feature = "testing"))]
impl OomKill {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self {
            pid: 7,
            command: "quote\" line\n".into(),
            total_vm_bytes: u64::MAX,
            anon_rss_bytes: 1,
            file_rss_bytes: 2,
            shmem_rss_bytes: 3,
            oom_score_adj: -998,
            scope: LimitScope::Cgroup,
            limit_cgroup: "/a".into(),
            limit_bytes: Some(64 << 20),
            trigger_pid: 8,
            trigger_command: "t".into(),
            trigger_cgroup: String::new(),
        }
    }
}

/// The event of a record, and the path of the victim's cgroup.
pub(super) fn event(r: &OomRecord, tree: &mut dyn Tree) -> (Arc<str>, Detail) {
    let space = r.header.space as usize;
    let path = tree.path_or_id(space, r.header.cgroup);
    let mut named = |id: u64| match id {
        0 => String::new(),
        id => tree.path_or_id(space, id).to_string(),
    };
    let (limit_cgroup, trigger_cgroup) = (named(r.limit_cgroup), named(r.trigger_cgroup));
    let page = tree.page_bytes();
    let detail = Detail::Oom(OomKill {
        pid: r.pid,
        command: until_zero(&r.command),
        total_vm_bytes: r.total_vm.saturating_mul(page),
        anon_rss_bytes: r.anon_rss.saturating_mul(page),
        file_rss_bytes: r.file_rss.saturating_mul(page),
        shmem_rss_bytes: r.shmem_rss.saturating_mul(page),
        oom_score_adj: r.oom_score_adj,
        scope: match r.scope {
            SCOPE_CGROUP => LimitScope::Cgroup,
            SCOPE_GLOBAL => LimitScope::Global,
            _ => LimitScope::Unknown,
        },
        limit_bytes: (r.limit_cgroup != 0).then_some(r.limit_pages.saturating_mul(page)),
        limit_cgroup,
        trigger_pid: r.trigger_pid,
        trigger_command: until_zero(&r.trigger_command),
        trigger_cgroup,
    });
    (path, detail)
}

impl EventBody for OomKill {
    fn line(&self, place: &Place<'_>) -> String {
        let limit = self.limit_bytes.map(|b| format!(" {}", bytes(b))).unwrap_or_default();
        let why = match self.scope {
            LimitScope::Global => "the node ran out of memory".to_owned(),
            LimitScope::Unknown if self.limit_cgroup.is_empty() => "out of memory".to_owned(),
            LimitScope::Cgroup if self.limit_cgroup.is_empty() => format!("at its limit{limit}"),
            _ if self.limit_cgroup == place.cgroup => format!("at its own limit{limit}"),
            _ => format!("at the limit{limit} of {}", self.limit_cgroup),
        };
        let used = format!(
            "anon {} file {} shmem {}",
            bytes(self.anon_rss_bytes),
            bytes(self.file_rss_bytes),
            bytes(self.shmem_rss_bytes)
        );
        let by = if self.trigger_pid == self.pid {
            "itself".to_owned()
        } else {
            let other = (!self.trigger_cgroup.is_empty() && self.trigger_cgroup != place.cgroup)
                .then(|| format!(" in {}", self.trigger_cgroup));
            format!("{} (pid {}){}", self.trigger_command, self.trigger_pid, other.unwrap_or_default())
        };
        format!(
            "{} (pid {}) killed in {place}, {why}; had {used}, oom_score_adj {}; triggered by {by}",
            self.command, self.pid, self.oom_score_adj
        )
    }

    fn to_proto(&self) -> ProtoDetail {
        ProtoDetail::Oom(proto::OomKill {
            pid: self.pid,
            command: self.command.clone(),
            total_vm_bytes: self.total_vm_bytes,
            anon_rss_bytes: self.anon_rss_bytes,
            file_rss_bytes: self.file_rss_bytes,
            shmem_rss_bytes: self.shmem_rss_bytes,
            oom_score_adj: self.oom_score_adj,
            scope: <&str>::from(self.scope).to_owned(),
            limit_cgroup: self.limit_cgroup.clone(),
            limit_bytes: self.limit_bytes,
            trigger_pid: self.trigger_pid,
            trigger_command: self.trigger_command.clone(),
            trigger_cgroup: self.trigger_cgroup.clone(),
        })
    }

    fn from_proto(detail: ProtoDetail) -> Option<Self> {
        let ProtoDetail::Oom(oom) = detail else { return None };
        Some(Self {
            pid: oom.pid,
            command: oom.command,
            total_vm_bytes: oom.total_vm_bytes,
            anon_rss_bytes: oom.anon_rss_bytes,
            file_rss_bytes: oom.file_rss_bytes,
            shmem_rss_bytes: oom.shmem_rss_bytes,
            oom_score_adj: oom.oom_score_adj,
            scope: oom.scope.parse().unwrap_or(LimitScope::Unknown),
            limit_cgroup: oom.limit_cgroup,
            limit_bytes: oom.limit_bytes,
            trigger_pid: oom.trigger_pid,
            trigger_command: oom.trigger_command,
            trigger_cgroup: oom.trigger_cgroup,
        })
    }
}
