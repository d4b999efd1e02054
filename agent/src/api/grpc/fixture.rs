//! A node for tests: a `Watch` whose counters grow with every reading, and a server of it on a real socket.

mod garbage;
mod pressure;
mod probes;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use garbage::{Garbage, images};
pub use pressure::{Pressed, decisions};
pub use probes::probes;

use super::GrpcError;
use crate::journal::{Journal, Limits};
use crate::pod::ContainerKind;
use crate::view::*;

/// Reading `n` is `n` seconds after the first and shows a steady load.
#[derive(Default)]
pub struct Node {
    /// Mode manage instead of observe.
    manages: bool,
    garbage: Option<Garbage>,
    pressed: Option<Pressed>,
    readings: AtomicU64,
    start: OnceLock<SystemTime>,
}

impl Node {
    /// In mode manage or observe, with these images.
    pub fn with(manages: bool, garbage: Option<Garbage>) -> Self {
        Self { manages, garbage, ..Self::default() }
    }

    /// One that has been under pressure.
    pub fn pressed() -> Self {
        Self::default().and_pressed(decisions())
    }

    /// The same that is watched for pressure and has decided this.
    pub fn and_pressed(self, decisions: Vec<Arc<Decision>>) -> Self {
        Self { pressed: Some(Pressed(decisions)), ..self }
    }

    fn group(&self, path: &str, identity: Identity, load: u64, n: u64, time: SystemTime) -> GroupView {
        let mut wait = Log2Histogram::default();
        wait.buckets[3] = 1000 * n;
        wait.sum_ns = load * 1_000_000 * n;
        GroupView {
            path: path.into(),
            identity: Arc::new(identity),
            created: time - Duration::from_secs(3600 + n),
            removed: None,
            usage: Usage {
                time: Some(time),
                cpu: Some(CpuUsage { usage_ns: load * 10_000_000 * n, ..CpuUsage::default() }),
                memory: Some(MemoryUsage {
                    usage_bytes: (load + 1) << 20,
                    working_set_bytes: load << 20,
                    limit_bytes: (10..100).contains(&load).then_some(128 << 20),
                    ..MemoryUsage::default()
                }),
                processes: Some(ProcessUsage { threads: load, max: None }),
                ..Usage::default()
            },
            kernel: KernelCounters {
                cpu: Some(CpuCounters { wait, ..CpuCounters::default() }),
                network: Some(NetworkCounters { rx_bytes: load * 1024 * n, ..NetworkCounters::default() }),
                ..KernelCounters::default()
            },
        }
    }
}

impl Watch for Node {
    fn snapshot(&self) -> Arc<Snapshot> {
        let n = self.readings.fetch_add(1, Ordering::Relaxed);
        let time = *self.start.get_or_init(SystemTime::now) + Duration::from_secs(n);
        let names = Some(PodNames { namespace: "shop".into(), name: "cart-5d9c".into() });
        let pod = Identity::Pod { uid: "8c5e".into(), qos: QosClass::Burstable, names: names.clone() };
        let container = Identity::Container {
            pod_uid: "8c5e".into(),
            qos: QosClass::Burstable,
            id: "c0ffee".into(),
            runtime: "cri-containerd".into(),
            sandbox: false,
            pod: names,
            names: Some(ContainerNames { name: "web".into(), image: "shop/web:1".into() }),
        };
        let mut gone = self.group("/system.slice/old.service", Identity::Other, 1, n, time);
        gone.removed = Some(time);
        let groups = vec![
            self.group("/", Identity::Root, 150, n, time),
            self.group("/kubepods", Identity::Kubepods, 64, n, time),
            self.group("/kubepods/burstable", Identity::Qos(QosClass::Burstable), 64, n, time),
            self.group("/kubepods/burstable/pod8c5e", pod, 64, n, time),
            self.group("/kubepods/burstable/pod8c5e/c0ffee", container, 63, n, time),
            self.group("/system.slice", Identity::Other, 20, n, time),
            self.group("/system.slice/cron.service", Identity::Other, 5, n, time),
            gone,
        ];
        let machine =
            Machine { node_name: "node-1".into(), cpus: 2, memory_bytes: 4 << 30, ..Machine::default() };
        Arc::new(Snapshot { time, machine, groups })
    }

    fn status(&self) -> Status {
        let topic = |topic, state, reason: &str| TopicStatus { topic, state, reason: reason.into() };
        Status {
            version: "0.1.0".into(),
            mode: if self.manages { "manage" } else { "observe" }.into(),
            started: SystemTime::now() - Duration::from_secs(90),
            cgroup_layout: "hybrid".into(),
            controllers: vec!["cpu (v1)".into(), "memory (v1)".into()],
            kernel_version: "6.18.0".into(),
            topics: vec![
                topic(Topic::Cpu, HookState::On, ""),
                topic(Topic::Network, HookState::Off, "cgroup_skb: operation not permitted"),
            ],
            programs: vec![ProgramCost {
                name: "sched_switch".into(),
                topic: Topic::Cpu,
                hook: "tp_btf/sched_switch".into(),
                run_count: 1000,
                run_time_ns: 150_000,
                memory_bytes: 4096,
            }],
            events: vec![EventCounts { event_type: EventType::Oom, seen: 3, lost: 0 }],
            cgroups: 8,
            cgroup_capacity: 8192,
            cgroups_untracked: 0,
            untracked_counts: 0,
            cost: AgentCost { cpu_seconds: 1.25, resident_bytes: 21 << 20, map_bytes: 30 << 20 },
            runtime: "none configured: ids stand for names".into(),
            warnings: vec!["journal: disk full".into()],
            journal_events: 3,
            programs_measured_seconds: 6.0,
            journal_write_errors: 1,
            device_denials: Vec::new(),
            hierarchy: Some(hierarchy()),
        }
    }

    fn pods(&self) -> Vec<Arc<PodView>> {
        vec![Arc::new(pod())]
    }

    fn probes(&self) -> ProbesView {
        probes()
    }

    fn garbage(&self) -> Option<Arc<dyn crate::view::Garbage>> {
        self.garbage.clone().map(|own| Arc::new(own) as _)
    }

    fn pressed(&self) -> Option<Arc<dyn crate::view::Pressed>> {
        self.pressed.clone().map(|own| Arc::new(own) as _)
    }
}

/// A pod that runs, with a container that was killed for memory twice.
pub fn pod() -> PodView {
    let manifest = serde_json::json!({
        "metadata": {"namespace": "shop", "name": "cart-5d9c", "uid": "8c5e", "labels": {"app": "cart"}},
        "spec": {
            "initContainers": [{"name": "prepare", "image": "shop/prepare:1"}],
            "containers": [{
                "name": "web",
                "image": "shop/web:1",
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            }],
        },
    });
    let pod = crate::pod::Pod::from_kubernetes(serde_json::from_value(manifest).unwrap()).unwrap();
    let at = |second: i64| jiff::Timestamp::from_second(1_700_000_000 + second).unwrap();
    let victim = OomVictim { time: at(50), pid: 4711, command: "stress".into() };
    let ended = |id: &str, exit_code, reason: &str, from, to| Ended {
        id: id.into(),
        exit_code,
        signal: if exit_code == 137 { 9 } else { 0 },
        reason: reason.into(),
        message: String::new(),
        started: Some(at(from)),
        finished: Some(at(to)),
        oom: None,
    };
    let prepare = ended("beef", 0, "Completed", 1, 2);
    let container = |name: &str, kind, image: &str, id: &str, state| ContainerView {
        name: name.into(),
        kind,
        image: image.into(),
        image_id: format!("sha256:{id}"),
        id: id.into(),
        state,
        last: None,
        restarts: 0,
        ready: true,
        started: false,
        devices: Default::default(),
        oom: None,
    };
    let running = ContainerState::Running { since: at(60) };
    PodView {
        pod: Arc::new(pod),
        origin: "/etc/nodewarden/manifests/cart.yaml".into(),
        phase: PodPhase::Running,
        reason: String::new(),
        message: String::new(),
        started: at(0),
        terminating: None,
        ips: vec!["10.0.0.7".parse().unwrap()],
        sandbox_id: "5afe".into(),
        containers: vec![
            container(
                "prepare",
                ContainerKind::Init,
                "shop/prepare:1",
                "beef",
                ContainerState::Terminated(prepare),
            ),
            ContainerView {
                last: Some(Ended { oom: Some(victim.clone()), ..ended("c0fe", 137, "OOMKilled", 3, 50) }),
                restarts: 2,
                started: true,
                oom: Some(OomVictim { time: at(70), pid: 4812, command: "worker".into() }),
                ..container("web", ContainerKind::Ordinary, "shop/web:1", "c0ffee", running)
            },
        ],
        resize: String::new(),
    }
}

/// A running server; ends when dropped or stopped.
pub struct Running {
    pub dir: tempfile::TempDir,
    pub socket: PathBuf,
    pub journal: Journal,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), GrpcError>>,
}

impl Running {
    /// Serves a [`Node`] in a directory of its own.
    pub async fn start() -> Self {
        Self::serving(Node::default()).await
    }

    /// The same with a node that was made for it.
    pub async fn serving(node: Node) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("run/nodewarden.sock");
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (path, served) = (socket.clone(), journal.clone());
        let task = tokio::spawn(async move {
            super::serve(&path, Arc::new(node), served, super::streams::Sources::default(), async {
                let _ = stopped.await;
            })
            .await
        });
        wait_for(&socket).await;
        Self { dir, socket, journal, stop: Some(stop), task }
    }

    pub async fn stop(mut self) -> Result<(), GrpcError> {
        drop(self.stop.take());
        self.task.await.unwrap()
    }
}

async fn wait_for(socket: &Path) {
    while !socket.exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn hierarchy() -> HierarchyStatus {
    let pod = |uid: &str, problem: &str| PodCgroup {
        uid: uid.into(),
        namespace: String::new(),
        name: String::new(),
        qos: None,
        path: format!("/kubepods/pod{uid}"),
        problem: problem.into(),
    };
    HierarchyStatus {
        driver: "cgroupfs".into(),
        driver_from: "configuration".into(),
        kubepods: "/kubepods".into(),
        pods: vec![pod("u1", "")],
        removing: vec![pod("u2", "pid 7 does not die")],
        foreign: vec!["/kubepods/podx".into()],
        last_reconcile: None,
        corrections: 4,
        problems: vec!["the manifest directory is gone".into()],
    }
}
