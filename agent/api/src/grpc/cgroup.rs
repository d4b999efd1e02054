//! Converts a [`Snapshot`] and its cgroups into protobuf. Figures that are not known are left out.

use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;

use super::{filter, time};
use nodewarden_model::{GroupView, Identity, NeighbourWait, PodNames, Snapshot, Usage};

/// The answer to ListCgroups.
pub fn list(snapshot: &Snapshot, path_prefix: &str, pods_only: bool) -> proto::ListCgroupsResponse {
    let machine = &snapshot.machine;
    let cgroups = snapshot
        .groups
        .iter()
        .filter(|g| filter::below(&g.path, path_prefix) && (!pods_only || filter::is_of_pod(&g.identity)))
        .map(|g| match *g.identity {
            Identity::Root => to_proto(g, &root_usage(&g.usage, &machine.usage)),
            _ => to_proto(g, &g.usage),
        })
        .collect();
    proto::ListCgroupsResponse {
        time: Some(time::from_system_time(snapshot.time)),
        cpus: machine.cpus,
        memory_bytes: machine.memory_bytes,
        cgroups,
        node_name: machine.node_name.clone(),
    }
}

/// The root cgroup's figures, completed by the machine's: on v2 the root has few files.
fn root_usage(own: &Usage, machine: &Usage) -> Usage {
    Usage {
        time: own.time.or(machine.time),
        cpu: own.cpu.clone().or_else(|| machine.cpu.clone()),
        memory: own.memory.clone().or_else(|| machine.memory.clone()),
        processes: own.processes.or(machine.processes),
        io: if own.io.is_empty() { machine.io.clone() } else { own.io.clone() },
        pressures: nodewarden_model::Pressures {
            cpu: own.pressures.cpu.or(machine.pressures.cpu),
            memory: own.pressures.memory.or(machine.pressures.memory),
            io: own.pressures.io.or(machine.pressures.io),
        },
    }
}

fn to_proto(group: &GroupView, usage: &Usage) -> proto::Cgroup {
    let mut out = proto::Cgroup {
        path: group.path.to_string(),
        created: Some(time::from_system_time(group.created)),
        removed: group.removed.map(time::from_system_time),
        read: usage.time.map(time::from_system_time),
        ..proto::Cgroup::default()
    };
    identify(&mut out, &group.identity);
    put_usage(&mut out, usage);
    group.kernel.put(&mut out);
    let wait = |wait: &NeighbourWait| proto::NeighbourWait {
        neighbour: wait.neighbour.to_string(),
        wait_ns: wait.ns,
        resource: wait.resource.name().to_owned(),
    };
    out.waits = group.waits.iter().map(wait).collect();
    out
}

fn identify(out: &mut proto::Cgroup, identity: &Identity) {
    let pod_ref = |uid: &str, names: &Option<Arc<PodNames>>| proto::PodRef {
        uid: uid.to_owned(),
        namespace: names.as_ref().map(|n| n.namespace.clone()).unwrap_or_default(),
        name: names.as_ref().map(|n| n.name.clone()).unwrap_or_default(),
        ..proto::PodRef::default()
    };
    let kind = match identity {
        Identity::Root => "root",
        Identity::Kubepods => "kubepods",
        Identity::Qos(qos) => {
            out.qos = qos.to_string();
            "qos"
        }
        Identity::Pod { uid, qos, names } => {
            out.qos = qos.to_string();
            out.pod = Some(pod_ref(uid, names));
            "pod"
        }
        Identity::Container { pod_uid, qos, id, sandbox, pod, names, .. } => {
            out.qos = qos.to_string();
            let mut pod = pod_ref(pod_uid, pod);
            pod.container_id.clone_from(id);
            if let Some(names) = names {
                pod.container_name.clone_from(&names.name);
                out.image.clone_from(&names.image);
            }
            out.pod = Some(pod);
            if *sandbox { "sandbox" } else { "container" }
        }
        Identity::Nested { pod_uid, container_id } => {
            let mut pod = pod_ref(pod_uid, &None);
            pod.container_id.clone_from(container_id);
            out.pod = Some(pod);
            "nested"
        }
        Identity::Other => "other",
    };
    out.kind = kind.to_owned();
}

fn put_usage(out: &mut proto::Cgroup, usage: &Usage) {
    if let Some(cpu) = &usage.cpu {
        out.cpu_usage_ns = Some(cpu.usage_ns);
        out.cpu_throttled_ns = cpu.throttled_ns;
        out.cpu_throttled_periods = cpu.throttled_periods;
        out.cpu_periods = cpu.periods;
        out.cpu_shares = cpu.shares;
        out.cpu_weight = cpu.weight;
        out.cpu_quota_us = cpu.quota_us;
        out.cpu_period_us = cpu.period_us;
    }
    if let Some(memory) = &usage.memory {
        out.memory_usage_bytes = Some(memory.usage_bytes);
        out.memory_working_set_bytes = Some(memory.working_set_bytes);
        out.memory_limit_bytes = memory.limit_bytes;
        out.memory_rss_bytes = memory.rss_bytes;
        out.memory_cache_bytes = memory.cache_bytes;
        out.memory_swap_bytes = memory.swap_bytes;
        out.memory_oom_kill = memory.events.oom_kill;
    }
    if let Some(processes) = &usage.processes {
        out.threads = Some(processes.threads);
        out.threads_max = processes.max;
    }
    if !usage.io.is_empty() {
        out.io_read_bytes = Some(usage.io.iter().map(|d| d.read_bytes).sum());
        out.io_write_bytes = Some(usage.io.iter().map(|d| d.write_bytes).sum());
    }
    out.memory_pressure_some_avg10 = usage.pressures.memory.map(|p| p.some.avg10);
    out.cpu_pressure_some_avg10 = usage.pressures.cpu.map(|p| p.some.avg10);
    out.io_pressure_some_avg10 = usage.pressures.io.map(|p| p.some.avg10);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_manifest::QosClass;
    use nodewarden_model::{KernelCounters, MemoryUsage};

    #[test]
    fn kinds_and_names() {
        let names = Some(Arc::new(PodNames { namespace: "shop".into(), name: "cart".into() }));
        let container = |sandbox| Identity::Container {
            pod_uid: "u".into(),
            qos: QosClass::Burstable,
            id: "c0ffee".into(),
            runtime: String::new(),
            sandbox,
            pod: names.clone(),
            names: None,
        };
        for (identity, kind, qos, pod) in [
            (Identity::Root, "root", "", None),
            (Identity::Kubepods, "kubepods", "", None),
            (Identity::Qos(QosClass::BestEffort), "qos", "BestEffort", None),
            (
                Identity::Pod { uid: "u".into(), qos: QosClass::Guaranteed, names: None },
                "pod",
                "Guaranteed",
                Some(("u", "", "")),
            ),
            (container(false), "container", "Burstable", Some(("u", "cart", "c0ffee"))),
            (container(true), "sandbox", "Burstable", Some(("u", "cart", "c0ffee"))),
            (
                Identity::Nested { pod_uid: "u".into(), container_id: "c0ffee".into() },
                "nested",
                "",
                Some(("u", "", "c0ffee")),
            ),
            (Identity::Other, "other", "", None),
        ] {
            let mut out = proto::Cgroup::default();
            identify(&mut out, &identity);
            assert_eq!((out.kind.as_str(), out.qos.as_str()), (kind, qos));
            let got = out.pod.as_ref().map(|p| (p.uid.as_str(), p.name.as_str(), p.container_id.as_str()));
            assert_eq!(got, pod, "{kind}");
        }
    }

    #[test]
    fn unknown_stays_absent() {
        let mut out = proto::Cgroup::default();
        put_usage(&mut out, &Usage::default());
        KernelCounters::default().put(&mut out);
        assert_eq!(out, proto::Cgroup::default());
    }

    #[test]
    fn the_root_is_completed_by_the_machine() {
        let memory = MemoryUsage { usage_bytes: 5, ..MemoryUsage::default() };
        let machine = Usage { memory: Some(memory), ..Usage::default() };
        assert_eq!(root_usage(&Usage::default(), &machine), machine);
        let own = Usage { memory: Some(MemoryUsage::default()), ..Usage::default() };
        assert_eq!(root_usage(&own, &machine).memory, own.memory);
    }
}
