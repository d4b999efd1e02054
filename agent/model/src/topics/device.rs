//! Topic device: accesses to devices that were not allocated to the pod. Its program is attached where device
//! plugins are in use, and its counters are by pod and device, not by cgroup: see
//! `nodewarden_machine::ebpf::DeviceTables`.

use std::sync::Arc;

use nodewarden_ebpf_abi::{DEVICE_AUDIT, DEVICE_BLOCK, DEVICE_READ, DEVICE_WRITE, DeviceRecord, Space};
use nodewarden_proto::nodewarden::v1 as proto;
use proto::event::Detail as ProtoDetail;
use serde::{Deserialize, Serialize};

use super::fields::{
    CGROUP_KN, CGROUP_LEVEL, CSS_CGROUP, CSSET_DFL, CSSET_SUBSYS, KN_ID, TASK_CGROUPS, TASK_COMM, TASK_TGID,
};
use super::spec::{TopicSpec, field};
use super::{Detail, Tree};
use crate::event_body::EventBody;
use crate::place::Place;
use crate::text::until_zero;

pub(super) const TOPIC: TopicSpec = TopicSpec {
    name: "device",
    space: Some(Space::Unified),
    needs: &[TASK_CGROUPS, TASK_TGID, TASK_COMM, CSSET_SUBSYS, CSSET_DFL, CSS_CGROUP, CGROUP_KN, KN_ID],
    wants: &[CGROUP_LEVEL, field("OFF_CGROUP_ANCESTORS", &["cgroup.ancestors"])],
    on_request: true,
    ..TopicSpec::EMPTY
};

/// Accesses of a process to a device that was not allocated to its pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeviceAccess {
    /// The process, by its number in the machine's first pid namespace.
    pub pid: u32,
    /// The process's command name.
    pub command: String,
    /// Type, major and minor number: `c 10:229`.
    pub device: String,
    /// The device node on the machine; empty if there is none. The pod may have it under another name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The kinds of access that were wanted: `r`, `w` or `rw`.
    pub access: String,
    /// What the agent's policy did.
    pub verdict: DeviceVerdict,
    /// Whether the runtime's own rules had already refused the access: it fails under any policy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused_by_runtime: bool,
    /// Number of such accesses to this device by this pod since the last event about them, including this
    /// one. There is at most one event a second.
    pub count: u64,
}

#[cfg(any(test, feature = "testing"))]
impl DeviceAccess {
    /// An example for tests.
    pub(super) fn example() -> Self {
        Self {
            pid: 1,
            command: "cat".into(),
            device: "c 10:229".into(),
            path: "/dev/fuse".into(),
            access: "rw".into(),
            verdict: DeviceVerdict::Audited,
            refused_by_runtime: true,
            count: 3,
        }
    }
}

/// What the agent's policy did about an access.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::EnumString, strum::IntoStaticStr,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum DeviceVerdict {
    /// Refused it.
    Denied,
    /// Allowed it because the policy only audits.
    Audited,
}

impl DeviceVerdict {
    /// The name used in JSON, in protobuf and as a metric label.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The verdict with that name; `None` if there is none.
    pub fn parse(name: &str) -> Option<Self> {
        name.parse().ok()
    }
}

/// A device's type and numbers, as the v1 controller writes them: `c 10:229`.
pub fn device_name(kind: u32, major: u32, minor: u32) -> String {
    let kind = if kind == DEVICE_BLOCK { 'b' } else { 'c' };
    format!("{kind} {major}:{minor}")
}

/// The event of a record, and the path of the process's cgroup. The path of the device node is left empty.
pub(super) fn event(r: &DeviceRecord, tree: &mut dyn Tree) -> (Arc<str>, Detail) {
    let space = r.header.space as usize;
    // If the process's cgroup is removed already, at least its pod's is known.
    let known = tree.path(space, r.header.cgroup).or_else(|| tree.path(space, r.device.pod));
    let path = known.unwrap_or_else(|| tree.path_or_id(space, r.header.cgroup));
    let wants = |access: u32, letter| if r.wanted & access != 0 { letter } else { "" };
    let detail = Detail::Device(DeviceAccess {
        pid: r.pid,
        command: until_zero(&r.command),
        device: device_name(r.device.kind, r.device.major, r.device.minor),
        path: String::new(),
        access: format!("{}{}", wants(DEVICE_READ, "r"), wants(DEVICE_WRITE, "w")),
        verdict: if r.mode == DEVICE_AUDIT { DeviceVerdict::Audited } else { DeviceVerdict::Denied },
        refused_by_runtime: r.refused_before != 0,
        count: r.count,
    });
    (path, detail)
}

impl EventBody for DeviceAccess {
    fn line(&self, place: &Place<'_>) -> String {
        let verdict = match self.verdict {
            DeviceVerdict::Denied => "denied",
            DeviceVerdict::Audited if self.refused_by_runtime => "would be denied",
            DeviceVerdict::Audited => "allowed, would be denied",
        };
        let path = if self.path.is_empty() { String::new() } else { format!(" ({})", self.path) };
        let too = if self.refused_by_runtime { ", by the runtime too" } else { "" };
        let times = if self.count > 1 { format!(", {} times", self.count) } else { String::new() };
        format!(
            "{} (pid {}) wanted {} {}{path} in {place}: {verdict}{too}{times}",
            self.command, self.pid, self.access, self.device
        )
    }

    fn to_proto(&self) -> ProtoDetail {
        ProtoDetail::Device(proto::DeviceAccess {
            pid: self.pid,
            command: self.command.clone(),
            device: self.device.clone(),
            path: self.path.clone(),
            access: self.access.clone(),
            verdict: self.verdict.name().to_owned(),
            refused_by_runtime: self.refused_by_runtime,
            count: self.count,
        })
    }

    fn from_proto(detail: ProtoDetail) -> Option<Self> {
        let ProtoDetail::Device(d) = detail else { return None };
        Some(Self {
            verdict: DeviceVerdict::parse(&d.verdict)?,
            pid: d.pid,
            command: d.command,
            device: d.device,
            path: d.path,
            access: d.access,
            refused_by_runtime: d.refused_by_runtime,
            count: d.count,
        })
    }
}
