//! Converts a `PodView` into protobuf, with the resource usage from a snapshot.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1 as proto;
use proto::container::State;

use super::super::time;
use super::probe::Probes;
use nodewarden_kube::pod_object::{self, NodeFacts};
use nodewarden_manifest::{Container, ContainerKind, ResourceList};
use nodewarden_model::{
    ContainerState, ContainerView, Ended, GroupView, Identity, OomVictim, PodView, Snapshot,
};

/// Resource usage by pod uid and by container id.
pub struct Used<'a> {
    pods: HashMap<&'a str, &'a GroupView>,
    containers: HashMap<&'a str, &'a GroupView>,
}

impl<'a> Used<'a> {
    /// The usage of the cgroups that exist in the snapshot.
    pub fn of(snapshot: &'a Snapshot) -> Self {
        let mut used = Self { pods: HashMap::new(), containers: HashMap::new() };
        for group in snapshot.groups.iter().filter(|g| g.removed.is_none()) {
            match &*group.identity {
                Identity::Pod { uid, .. } => drop(used.pods.insert(uid, group)),
                Identity::Container { id, .. } => drop(used.containers.insert(id, group)),
                _ => {}
            }
        }
        used
    }
}

pub fn pod(view: &PodView, used: &Used<'_>, probes: &Probes<'_>) -> proto::Pod {
    let pod = &view.pod;
    let declared = pod.declared();
    let containers = view.containers.iter().zip(declared).map(|(view, declared)| proto::Container {
        probes: probes.of_container(&pod.uid, &view.name),
        ..container(view, declared, used)
    });
    proto::Pod {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        qos: pod.qos.to_string(),
        priority: pod.priority,
        phase: view.phase.name().to_owned(),
        reason: view.reason.to_string(),
        message: view.message.clone(),
        origin: view.origin.to_string(),
        started: Some(time::from_timestamp(view.started)),
        terminating: view.terminating.map(time::from_timestamp),
        ips: view.ips.iter().map(ToString::to_string).collect(),
        host_network: pod.host_network,
        sandbox_id: view.sandbox_id.clone(),
        containers: containers.collect(),
        resize: resize(view),
        labels: pod.labels.clone().into_iter().collect(),
        annotations: pod.annotations.clone().into_iter().collect(),
        r#use: used.pods.get(pod.uid.as_str()).map(|group| of_group(group)),
        kubernetes: String::new(),
    }
}

/// The pod as Kubernetes JSON.
pub fn kubernetes(view: &PodView, node: &str, runtime: Option<&str>) -> String {
    let node = NodeFacts { name: node.to_owned(), ips: Vec::new(), runtime: runtime.map(str::to_owned) };
    // Serializing fails only for maps with non-string keys, and a pod has none.
    serde_json::to_string(&pod_object::pod(view, &node)).unwrap_or_default()
}

fn container(view: &ContainerView, declared: &Container, used: &Used<'_>) -> proto::Container {
    let kind = match view.kind {
        ContainerKind::Init => "init",
        ContainerKind::Sidecar => "sidecar",
        ContainerKind::Regular => "container",
        ContainerKind::Ephemeral => "ephemeral",
    };
    let state = match &view.state {
        ContainerState::Waiting { reason, message } => {
            State::Waiting(proto::Waiting { reason: reason.to_string(), message: message.clone() })
        }
        ContainerState::Running { since } => State::RunningSince(time::from_timestamp(*since)),
        ContainerState::Terminated(end) => State::Terminated(ended(end)),
    };
    proto::Container {
        name: view.name.clone(),
        kind: kind.to_owned(),
        image: view.image.clone(),
        image_id: view.image_id.clone(),
        id: view.id.clone(),
        state: Some(state),
        last: view.last.as_deref().map(ended),
        restarts: view.restarts,
        ready: view.ready,
        started: view.started,
        oom: view.oom.as_deref().map(victim),
        requests: amounts(&declared.resources.requests).into_iter().collect(),
        limits: amounts(&declared.resources.limits).into_iter().collect(),
        r#use: used.containers.get(view.id.as_str()).map(|group| of_group(group)),
        probes: Vec::new(),
    }
}

fn amounts(list: &ResourceList) -> BTreeMap<String, String> {
    list.iter().map(|(name, quantity)| (name.clone(), quantity.to_string())).collect()
}

fn ended(end: &Ended) -> proto::Ended {
    let time = |t: Option<Timestamp>| t.map(time::from_timestamp);
    proto::Ended {
        id: end.id.clone(),
        exit_code: end.exit_code,
        signal: end.signal,
        reason: end.reason.to_string(),
        message: end.message.clone(),
        started: time(end.started),
        finished: time(end.finished),
        oom: end.oom.as_ref().map(victim),
    }
}

fn victim(victim: &OomVictim) -> proto::OomVictim {
    proto::OomVictim {
        time: Some(time::from_timestamp(victim.time)),
        pid: victim.pid,
        command: victim.command.clone(),
    }
}

fn of_group(group: &GroupView) -> proto::Use {
    let usage = &group.usage;
    let (cpu, memory) = (usage.cpu.as_ref(), usage.memory.as_ref());
    proto::Use {
        read: usage.time.map(time::from_system_time),
        cpu_usage_ns: cpu.map(|c| c.usage_ns),
        memory_working_set_bytes: memory.map(|m| m.working_set_bytes),
        memory_limit_bytes: memory.and_then(|m| m.limit_bytes),
        cpu_quota_us: cpu.and_then(|c| c.quota_us),
        cpu_period_us: cpu.and_then(|c| c.period_us),
    }
}

/// Why the pod does not have the resources that it should have; empty when it has them.
fn resize(view: &PodView) -> String {
    let pending = view.resize.as_ref().map(ToString::to_string);
    let resizing = view.resizing.as_ref().map(ToString::to_string);
    pending.or(resizing).unwrap_or_default()
}
