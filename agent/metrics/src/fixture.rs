//! A snapshot and a status for tests, with every kind of cgroup and every field set.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::exposition::Exposition;
use super::own;
use super::summary::Sources;
use nodewarden_manifest::QosClass;
use nodewarden_model::{
    AgentCost, AgentState, ContainerDiskView, ContainerNames, CpuUsage, DenialCount, DeviceOwner,
    DeviceResource, DeviceView, DevicesView, DiskFigure, DiskView, EventCounts, EventType, ExclusiveCpusView,
    FsUsage, FsUse, GroupView, HierarchyStatus, HookState, Identity, ImageGc, ImagesView, Interface, IoUsage,
    KernelCounters, Machine, MemoryEvents, MemoryUsage, Neighbour, NeighbourWait, NodeResource, PodDiskView,
    PodNames, PodPhase, PodReason, PodView, Pressure, PressureLine, PressureView, Pressures, ProbesView,
    ProcessUsage, ProgramCost, Snapshot, Status, StatusReason, SystemCgroups, Topic, TopicStatus, Usage,
    WaitResource, Workload,
};

/// Time at which the fixture's files were read, in milliseconds since 1970.
pub const READ_MILLIS: u64 = 1_700_000_500_125;

fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

/// The uid of pod `i` of [`snapshot`].
pub fn pod_uid(i: usize) -> String {
    format!("8c5e1f2a-0000-4000-8000-{i:012}")
}

/// The id of the container of pod `i`.
pub fn container_id(i: usize) -> String {
    format!("c{i:063}")
}

/// The id of the sandbox of pod `i`.
pub fn sandbox_id(i: usize) -> String {
    format!("5{i:063}")
}

/// A snapshot with `pods` pods of one container and a sandbox each, the levels above and a few other cgroups.
pub fn snapshot(pods: usize) -> Snapshot {
    let mut groups = vec![
        group("/", Identity::Root),
        group("/kubepods", Identity::Kubepods),
        group("/kubepods/burstable", Identity::Qos(QosClass::Burstable)),
    ];
    // Levels, pods and units have no tasks of their own, so the kernel programs count nothing for them.
    for group in &mut groups {
        group.kernel = KernelCounters::idle();
    }
    groups[0].usage = Usage::default();
    for i in 0..pods {
        groups.extend(pod(i));
    }
    groups.push(group("/system.slice", Identity::Other));
    groups.push(group("/system.slice/containerd.service", Identity::Other));
    groups.push(group("/system.slice/kubelet.service", Identity::Other));
    Snapshot { time: at(READ_MILLIS + 5), machine: machine(), groups }
}

/// What the summary shows beside a snapshot: of the first pod everything, of the others nothing.
pub fn summary_sources() -> Sources {
    let fs = |used: Option<(u64, u64)>| {
        Some(FsUse {
            path: "/".into(),
            device: 1,
            capacity: 1_000_000,
            available: 300_000,
            inodes: 100,
            inodes_free: 60,
            used: used.map(|(bytes, _)| bytes),
            inodes_used: used.map(|(_, inodes)| inodes),
        })
    };
    let figure = |bytes, inodes| DiskFigure { bytes, inodes };
    let container = ContainerDiskView { root: Some(figure(8192, 5)), logs: Some(figure(0, 1)) };
    let pod = PodDiskView {
        total: Some(figure(12_288, 7)),
        containers: [("app".to_owned(), container)].into(),
        volumes: [("data".to_owned(), figure(4096, 2))].into(),
    };
    let interface = Interface {
        name: "eth0".into(),
        rx_bytes: 10,
        rx_errors: 1,
        tx_bytes: 20,
        tx_errors: 2,
        ..Interface::default()
    };
    let workload = Workload { processes: Some(3), interfaces: vec![interface] };
    Sources {
        system: system_cgroups(),
        workloads: [(pod_uid(0), workload)].into(),
        disk: Arc::new(DiskView {
            time: Some(at(READ_MILLIS)),
            node: fs(None),
            image: fs(Some((5000, 9))),
            container: fs(Some((700, 3))),
            pods: [(pod_uid(0), pod)].into(),
        }),
    }
}

fn pod(i: usize) -> Vec<GroupView> {
    let uid = pod_uid(i);
    let place = format!("/kubepods/burstable/pod{uid}");
    let names = Some(Arc::new(PodNames { namespace: "default".into(), name: format!("web-{i}") }));
    let container = |id: String, sandbox, name: &str, image: &str| Identity::Container {
        pod_uid: uid.clone(),
        qos: QosClass::Burstable,
        id,
        runtime: String::new(),
        sandbox,
        pod: names.clone(),
        names: Some(Arc::new(ContainerNames { name: name.into(), image: image.into() })),
    };
    let (app, pause) = (container_id(i), sandbox_id(i));
    let mut pod =
        group(&place, Identity::Pod { uid: uid.clone(), qos: QosClass::Burstable, names: names.clone() });
    pod.kernel = KernelCounters::idle();
    if let Some(memory) = &mut pod.usage.memory {
        (memory.usage_bytes, memory.working_set_bytes) = (500_000, 438_272);
    }
    let nested = Identity::Nested { pod_uid: uid.clone(), container_id: app.clone() };
    vec![
        pod,
        group(&format!("{place}/{pause}"), container(pause, true, "", "registry.k8s.io/pause:3.10")),
        group(&format!("{place}/{app}"), container(app.clone(), false, "app", "docker.io/library/app:1")),
        group(&format!("{place}/{app}/inner"), nested),
    ]
}

/// A cgroup with usage and kernel counters in every field.
pub fn group(path: &str, identity: Identity) -> GroupView {
    let wait =
        NeighbourWait { resource: WaitResource::Memory, neighbour: Neighbour::Node, ns: 1_500_000_000 };
    let waits = matches!(identity, Identity::Container { .. }).then_some(wait);
    GroupView {
        path: Arc::from(path),
        identity: Arc::new(identity),
        created: at(1_700_000_100_250),
        removed: None,
        usage: usage(21_473_214),
        kernel: KernelCounters::example(),
        waits: waits.into_iter().collect(),
    }
}

fn usage(cpu_ns: u64) -> Usage {
    let line = |total_us| PressureLine { avg10: 0.5, avg60: 0.25, avg300: 0.1, total_us };
    let pressure = Some(Pressure { some: line(2_050_000), full: Some(line(50_000)) });
    Usage {
        time: Some(at(READ_MILLIS)),
        cpu: Some(CpuUsage {
            usage_ns: cpu_ns,
            user_ns: Some(cpu_ns / 3),
            system_ns: Some(cpu_ns / 5),
            periods: Some(100),
            throttled_periods: Some(7),
            throttled_ns: Some(350_000_000),
            shares: None,
            weight: Some(79),
            quota_us: Some(50_000),
            period_us: Some(100_000),
        }),
        memory: Some(MemoryUsage {
            usage_bytes: 300_000,
            working_set_bytes: 212_992,
            rss_bytes: Some(45_056),
            cache_bytes: Some(90_112),
            swap_bytes: Some(4_096),
            mapped_file_bytes: Some(8_192),
            kernel_bytes: Some(12_288),
            active_file_bytes: Some(2_048),
            inactive_file_bytes: Some(87_008),
            max_usage_bytes: Some(400_000),
            failcnt: Some(3),
            page_faults: Some(796),
            major_page_faults: Some(2),
            own_page_faults: None,
            own_major_page_faults: None,
            limit_bytes: Some(20_971_520),
            swap_limit_bytes: Some(20_971_520),
            reservation_bytes: None,
            high_bytes: None,
            events: MemoryEvents { oom_kill: Some(1), ..MemoryEvents::default() },
        }),
        processes: Some(ProcessUsage { threads: 4, max: None }),
        io: vec![
            IoUsage {
                major: 254,
                minor: 0,
                device: Some("/dev/vda".into()),
                read_bytes: 4_096,
                write_bytes: 8_192,
                reads: 1,
                writes: 2,
            },
            IoUsage { major: 7, minor: 1, device: None, read_bytes: 1, write_bytes: 2, reads: 3, writes: 4 },
        ],
        pressures: Pressures { cpu: pressure, memory: pressure, io: pressure },
    }
}

fn machine() -> Machine {
    let interface =
        |name: &str| Interface { name: name.into(), rx_bytes: 666, tx_bytes: 222, ..Interface::default() };
    Machine {
        node_name: "anchor".into(),
        boot_time: Some(at(1_699_990_000_000)),
        kernel_version: "6.18.0".into(),
        os_version: "Debian \"12\"\\bookworm".into(),
        machine_id: "m".into(),
        boot_id: "b".into(),
        system_uuid: "s".into(),
        cpus: 2,
        memory_bytes: 25_000_000_000,
        swap_bytes: 1_000_000,
        usage: usage(4_288_423_535_628),
        memory_available_bytes: Some(24_000_000_000),
        max_pids: Some(32_768),
        processes: Some(1_530),
        fs: Some(FsUsage {
            capacity_bytes: 270_553_174_016,
            available_bytes: 76_095_258_624,
            used_bytes: 21_477_490_688,
            inodes: 16_777_216,
            inodes_free: 16_208_909,
        }),
        interfaces: vec![interface("lo"), interface("ifb0"), interface("eth0"), interface("veth1")],
    }
}

/// Removes the names, as without a container runtime: uids and ids are known from paths, names are not.
pub fn forget_names(snapshot: &mut Snapshot) {
    snapshot.groups.retain(|g| !matches!(&*g.identity, Identity::Container { sandbox: true, .. }));
    for group in &mut snapshot.groups {
        let mut identity = (*group.identity).clone();
        match &mut identity {
            Identity::Pod { names, .. } => *names = None,
            Identity::Container { pod, names, .. } => (*pod, *names) = (None, None),
            _ => continue,
        }
        group.identity = Arc::new(identity);
    }
}

/// A status with a topic in every state.
pub fn status() -> Status {
    let topics = Topic::ALL.into_iter().enumerate().map(|(i, topic)| {
        let state = [HookState::On, HookState::Partial, HookState::Off][i % 3];
        let reason = if state == HookState::On { "" } else { "BPF_PROG_LOAD: \"EPERM\"" };
        TopicStatus { topic, state, reason: reason.into() }
    });
    Status {
        version: "0.1.0".into(),
        mode: "observe".into(),
        started: at(1_700_000_000_500),
        cgroup_layout: "hybrid".into(),
        controllers: vec!["memory (v1)".into()],
        kernel_version: "6.18.0".into(),
        topics: topics.collect(),
        programs: vec![ProgramCost {
            name: "on_switch".into(),
            topic: Topic::Cpu,
            hook: "tp_btf/sched_switch".into(),
            run_count: 1_000,
            run_time_ns: 90_000,
            memory_bytes: 8_192,
            recursion_misses: Some(2),
        }],
        events: EventType::ALL
            .into_iter()
            .map(|event_type| EventCounts { event_type, seen: 5, lost: 1 })
            .collect(),
        cgroups: 9,
        cgroup_capacity: 8_192,
        cgroups_untracked: 0,
        untracked_counts: 0,
        cost: AgentCost { cpu_seconds: 1.25, resident_bytes: 20_000_000, map_bytes: 60_000_000 },
        runtime: "none".into(),
        warnings: Vec::new(),
        journal_events: 12,
        programs_measured_seconds: 6.0,
        journal_write_errors: 0,
        device_denials: vec![DenialCount {
            uid: nodewarden_model::fixture::pod().pod.uid.clone(),
            namespace: nodewarden_model::fixture::pod().pod.namespace.clone(),
            name: nodewarden_model::fixture::pod().pod.name.clone(),
            device: "c 10:229".into(),
            audited: 0,
            denied: 3,
        }],
        hierarchy: Some(HierarchyStatus {
            driver: "cgroupfs".into(),
            kubepods: "/kubepods".into(),
            foreign: vec!["/kubepods/podother".into()],
            last_reconcile: Some(at(1_700_000_060_000)),
            corrections: 3,
            resources: vec![
                NodeResource { name: "cpu".into(), capacity: 2000, allocatable: 1900 },
                NodeResource { name: "memory".into(), capacity: 4 << 30, allocatable: 3 << 30 },
                NodeResource { name: "hugepages-2Mi".into(), capacity: 0, allocatable: 0 },
                NodeResource { name: "pods".into(), capacity: 110, allocatable: 110 },
            ],
            ..HierarchyStatus::default()
        }),
        privileges: nodewarden_model::fixture::privileges(),
    }
}

/// The cgroups of the node's own processes in [`snapshot`].
pub fn system_cgroups() -> SystemCgroups {
    let unit = |name: &str| Some(format!("/system.slice/{name}.service"));
    SystemCgroups { kubelet: unit("kubelet"), runtime: unit("containerd"), misc: None }
}

/// An agent state that always returns this snapshot and the rest of the fixture.
pub struct Still(pub Arc<Snapshot>);

impl AgentState for Still {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.0.clone()
    }

    fn status(&self) -> Status {
        status()
    }

    fn pods(&self) -> Vec<Arc<PodView>> {
        pods()
    }

    fn probes(&self) -> ProbesView {
        probes()
    }

    fn image_gc(&self) -> Option<Arc<dyn ImageGc>> {
        Some(Arc::new(nodewarden_model::fixture::ImageGc::default()))
    }
}

/// Two pods: one that runs, with a container that was restarted and had a process killed by the OOM killer,
/// and one that waits to be admitted.
pub fn pods() -> Vec<Arc<PodView>> {
    let runs = nodewarden_model::fixture::pod();
    let mut pod = (*runs.pod).clone();
    (pod.name, pod.uid) = ("web-7f6b".into(), "9d1a".into());
    let waits = PodView {
        pod: Arc::new(pod),
        phase: PodPhase::Pending,
        reason: StatusReason::Trouble(PodReason::OutOf("cpu".into())),
        ips: Vec::new(),
        sandbox_id: String::new(),
        containers: Vec::new(),
        ..runs.clone()
    };
    vec![Arc::new(runs), Arc::new(waits)]
}

/// Probes of the running pod: one that is finished, one that ran often and one that never ran.
pub fn probes() -> ProbesView {
    nodewarden_model::fixture::probes()
}

/// Writes `/metrics` with the whole fixture, except the families counted through the facade; `pod_count` is
/// the number of pods.
pub fn write_own(out: &mut Exposition<'_>, pod_count: usize) {
    let (snapshot, status, pods) = (snapshot(pod_count), status(), pods());
    let (devices, probes, images, pressure) = (devices(), probes(), images(), pressure());
    let shown = own::Shown {
        snapshot: &snapshot,
        status: &status,
        pods: &pods,
        devices: &devices,
        exclusive_cpus: &ExclusiveCpusView::example(),
        probes: &probes,
        images: Some(&images),
        pressure: Some(&pressure),
    };
    own::write(out, shown);
}

/// A node that is short of disk.
pub fn pressure() -> PressureView {
    PressureView::of(&nodewarden_model::fixture::EvictionStatus(Vec::new()))
}

/// Images in several states on a file system that is too full.
pub fn images() -> ImagesView {
    nodewarden_model::fixture::images()
}

/// A resource with two devices, one of them unhealthy and allocated, and a resource whose plugin is
/// disconnected.
pub fn devices() -> DevicesView {
    let device = |id: &str, health, owner| DeviceView {
        id: id.into(),
        health,
        numa: vec![0],
        owner,
        nodes: Vec::new(),
        problem: String::new(),
    };
    let owner = DeviceOwner {
        uid: "u1".into(),
        namespace: "shop".into(),
        name: "cart".into(),
        container: "app".into(),
    };
    let full = DeviceResource {
        name: "a.b/c".into(),
        capacity: 2,
        allocatable: Some(1),
        allocated: 1,
        away_since: None,
        devices: vec![device("d0", "Healthy", None), device("d1", "Unhealthy", Some(owner))],
    };
    let away = DeviceResource {
        name: "x.y/z".into(),
        capacity: 0,
        allocatable: Some(0),
        allocated: 0,
        away_since: Some(at(1_700_000_000_000)),
        devices: Vec::new(),
    };
    DevicesView { resources: vec![full, away], ..DevicesView::default() }
}
