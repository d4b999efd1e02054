//! The node's part of a frame: what it is, its totals, its pressure, its devices, and the state of the agent.
//! Pure.

use nodewarden_proto::nodewarden::v1 as proto;
use serde::Serialize;

use super::rows::millis;
use nodewarden_model::{FsUsage, Pressure, Pressures, Snapshot, Status};

/// The node at a glance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node<'a> {
    name: &'a str,
    /// When the files were read, in milliseconds since 1970.
    time: u64,
    os: &'a str,
    kernel: &'a str,
    cpus: u32,
    memory_bytes: u64,
    swap_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_pids: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fs: Option<Fs>,
    psi: Psi,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Fs {
    capacity_bytes: u64,
    available_bytes: u64,
    inodes: u64,
    inodes_free: u64,
}

/// Pressure stall information of the machine; `None` where the kernel has none.
#[derive(Debug, Serialize)]
struct Psi {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<Stalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Stalls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    io: Option<Stalls>,
}

/// Percent of the last 10 and 60 seconds.
#[derive(Debug, Serialize)]
struct Stalls {
    some10: f64,
    some60: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    full10: Option<f64>,
}

impl<'a> Node<'a> {
    /// The node of a snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let machine = &snapshot.machine;
        let root = snapshot.groups.iter().find(|group| &*group.path == "/");
        let own = root.map(|root| root.usage.pressures).unwrap_or_default();
        let Pressures { cpu, memory, io } = machine.usage.pressures;
        let psi = |a: Option<Pressure>, b: Option<Pressure>| a.or(b).map(stalls);
        Self {
            name: &machine.node_name,
            time: millis(snapshot.time),
            os: &machine.os_version,
            kernel: &machine.kernel_version,
            cpus: machine.cpus,
            memory_bytes: machine.memory_bytes,
            swap_bytes: machine.swap_bytes,
            memory_available_bytes: machine.memory_available_bytes,
            processes: machine.processes,
            max_pids: machine.max_pids,
            fs: machine.fs.map(fs),
            psi: Psi { cpu: psi(own.cpu, cpu), memory: psi(own.memory, memory), io: psi(own.io, io) },
        }
    }
}

fn stalls(own: Pressure) -> Stalls {
    Stalls { some10: own.some.avg10, some60: own.some.avg60, full10: own.full.map(|full| full.avg10) }
}

fn fs(own: FsUsage) -> Fs {
    Fs {
        capacity_bytes: own.capacity_bytes,
        available_bytes: own.available_bytes,
        inodes: own.inodes,
        inodes_free: own.inodes_free,
    }
}

/// The agent's own state.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Agent<'a> {
    version: &'a str,
    mode: &'a str,
    started: u64,
    layout: &'a str,
    runtime: &'a str,
    cpu_seconds: f64,
    resident_bytes: u64,
    map_bytes: u64,
    cgroups: u64,
    cgroups_untracked: u64,
    events_lost: u64,
    topics: Vec<Topic<'a>>,
    warnings: &'a [String],
    /// What is wrong with the hierarchy of mode manage.
    problems: &'a [String],
}

#[derive(Debug, Serialize)]
struct Topic<'a> {
    name: &'static str,
    state: &'static str,
    reason: &'a str,
}

impl<'a> Agent<'a> {
    /// The agent of this status.
    pub fn of(status: &'a Status) -> Self {
        let topic = |own: &'a nodewarden_model::TopicStatus| Topic {
            name: own.topic.name(),
            state: own.state.name(),
            reason: &own.reason,
        };
        Self {
            version: &status.version,
            mode: &status.mode,
            started: millis(status.started),
            layout: &status.cgroup_layout,
            runtime: &status.runtime,
            cpu_seconds: (status.cost.cpu_seconds * 100.0).round() / 100.0,
            resident_bytes: status.cost.resident_bytes,
            map_bytes: status.cost.map_bytes,
            cgroups: status.cgroups,
            cgroups_untracked: status.cgroups_untracked,
            events_lost: status.events.iter().map(|events| events.lost).sum(),
            topics: status.topics.iter().map(topic).collect(),
            warnings: &status.warnings,
            problems: status.hierarchy.as_ref().map_or(&[], |own| &own.problems),
        }
    }
}

/// Conditions and thresholds.
pub(super) fn pressure(own: &proto::NodePressure) -> serde_json::Value {
    let condition = |own: &proto::NodeCondition| {
        serde_json::json!({
            "name": own.name, "status": own.status, "reason": own.reason, "message": own.message,
            "since": own.since.as_ref().and_then(super::rows::proto_millis),
        })
    };
    let conditions: Vec<_> = own.conditions.iter().map(condition).collect();
    let signals: Vec<_> = own.signals.iter().map(signal).collect();
    serde_json::json!({"conditions": conditions, "signals": signals, "watching": own.watching})
}

fn signal(own: &proto::SignalReading) -> serde_json::Value {
    serde_json::json!({
        "signal": own.signal, "available": own.available, "capacity": own.capacity, "threshold": own.threshold,
        "hard": own.hard, "passed": own.passed, "passedForMs": own.passed_for_ms, "graceMs": own.grace_ms,
    })
}

/// Resources of device plugins with their devices.
pub(super) fn devices(own: &proto::ListDevicesResponse) -> serde_json::Value {
    let device = |own: &proto::Device| {
        let owner = own.owner.as_ref().map(|own| {
            serde_json::json!({
                "uid": own.uid, "namespace": own.namespace, "name": own.name, "container": own.container,
            })
        });
        serde_json::json!({"id": own.id, "health": own.health, "numa": own.numa, "owner": owner})
    };
    let resource = |own: &proto::DeviceResource| {
        serde_json::json!({
            "name": own.name, "capacity": own.capacity, "allocatable": own.allocatable,
            "allocated": own.allocated, "awaySince": own.away_since.as_ref().and_then(super::rows::proto_millis),
            "devices": own.devices.iter().map(device).collect::<Vec<_>>(),
        })
    };
    let removed = |own: &proto::RemovedResource| {
        serde_json::json!({
            "name": own.name, "removed": own.removed.as_ref().and_then(super::rows::proto_millis),
        })
    };
    serde_json::json!({
        "resources": own.resources.iter().map(resource).collect::<Vec<_>>(),
        "removed": own.removed.iter().map(removed).collect::<Vec<_>>(),
        "problems": own.problems,
    })
}
