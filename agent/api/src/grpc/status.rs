//! Converts the agent's [`Status`] into protobuf.

use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;

use super::{device, pressure, time};
use nodewarden_model::{
    AgentState, DevicesView, HeldCapability, HierarchyStatus, NodeResource, PodCgroup, PodPhase, PodView,
    PressureView, Privileges, Status,
};

/// The answer to GetStatus.
pub fn answer(state: &dyn AgentState) -> proto::GetStatusResponse {
    proto::GetStatusResponse {
        pressure: state.eviction().map(|own| pressure::convert::pressure(PressureView::of(own.as_ref()))),
        ..counted(state.status(), &state.pods(), state.devices())
    }
}

/// The answer without the node's pressure, with the counts of pods and devices.
pub fn counted(status: Status, pods: &[Arc<PodView>], devices: DevicesView) -> proto::GetStatusResponse {
    let count = |phase: Option<PodPhase>| {
        let of = |pod: &&Arc<PodView>| match phase {
            Some(phase) => pod.terminating.is_none() && pod.phase == phase,
            None => pod.terminating.is_some(),
        };
        u32::try_from(pods.iter().filter(of).count()).unwrap_or(u32::MAX)
    };
    let counts = proto::PodCounts {
        pending: count(Some(PodPhase::Pending)),
        running: count(Some(PodPhase::Running)),
        succeeded: count(Some(PodPhase::Succeeded)),
        failed: count(Some(PodPhase::Failed)),
        ending: count(None),
    };
    proto::GetStatusResponse {
        pods: (!pods.is_empty()).then_some(counts),
        devices: device::summary(devices),
        ..to_proto(status)
    }
}

/// The message for the agent's status, without the counts of pods and devices that [`counted`] adds.
pub fn to_proto(status: Status) -> proto::GetStatusResponse {
    proto::GetStatusResponse {
        version: status.version,
        mode: status.mode,
        started: Some(time::from_system_time(status.started)),
        cgroup_layout: status.cgroup_layout,
        controllers: status.controllers,
        kernel_version: status.kernel_version,
        topics: status
            .topics
            .into_iter()
            .map(|t| proto::TopicStatus {
                topic: t.topic.name().to_owned(),
                state: t.state.name().to_owned(),
                reason: t.reason,
            })
            .collect(),
        programs: status
            .programs
            .into_iter()
            .map(|p| proto::ProgramCost {
                name: p.name,
                topic: p.topic.name().to_owned(),
                hook: p.hook,
                run_count: p.run_count,
                run_time_ns: p.run_time_ns,
                memory_bytes: p.memory_bytes,
                recursion_misses: p.recursion_misses,
            })
            .collect(),
        events: status
            .events
            .into_iter()
            .map(|e| proto::EventCounts {
                r#type: e.event_type.name().to_owned(),
                seen: e.seen,
                lost: e.lost,
            })
            .collect(),
        cgroups: status.cgroups,
        cgroup_capacity: status.cgroup_capacity,
        cgroups_untracked: status.cgroups_untracked,
        untracked_counts: status.untracked_counts,
        cpu_seconds: status.cost.cpu_seconds,
        resident_bytes: status.cost.resident_bytes,
        map_bytes: status.cost.map_bytes,
        runtime: status.runtime,
        warnings: status.warnings,
        journal_events: status.journal_events,
        journal_write_errors: status.journal_write_errors,
        programs_measured_seconds: status.programs_measured_seconds,
        hierarchy: status.hierarchy.map(hierarchy),
        privileges: Some(privileges(status.privileges)),
        pods: None,
        devices: Vec::new(),
        pressure: None,
    }
}

fn privileges(own: Privileges) -> proto::Privileges {
    let held = |own: HeldCapability| proto::HeldCapability { name: own.name, why: own.why };
    proto::Privileges {
        capabilities: own.capabilities.into_iter().map(held).collect(),
        bounding: own.bounding,
        given_up: own.given_up,
        no_new_privileges: own.no_new_privileges,
        refused_calls: own.refused_calls,
        problem: own.problem,
    }
}

fn hierarchy(h: HierarchyStatus) -> proto::HierarchyStatus {
    proto::HierarchyStatus {
        driver: h.driver,
        driver_from: h.driver_from,
        kubepods: h.kubepods,
        pods: h.pods.into_iter().map(pod).collect(),
        removing: h.removing.into_iter().map(pod).collect(),
        foreign: h.foreign,
        last_reconcile: h.last_reconcile.map(time::from_system_time),
        corrections: h.corrections,
        problems: h.problems,
        resources: h.resources.into_iter().map(resource).collect(),
    }
}

fn resource(r: NodeResource) -> proto::NodeResource {
    proto::NodeResource { name: r.name, capacity: r.capacity, allocatable: r.allocatable }
}

fn pod(p: PodCgroup) -> proto::PodCgroup {
    proto::PodCgroup {
        uid: p.uid,
        namespace: p.namespace,
        name: p.name,
        qos: p.qos.map(|q| q.to_string()).unwrap_or_default(),
        path: p.path,
        problem: p.problem,
    }
}
