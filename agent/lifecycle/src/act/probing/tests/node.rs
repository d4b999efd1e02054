//! A worker of pod `u` on a runtime and with a prober of our own.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use super::runtime::Fake;
use crate::environment::Environment;
use crate::faults::Faults;
use crate::fixture;
use crate::orders::{Orders, Report, orders};
use crate::record::store::Store;
use crate::record::{ContainerRecord, Record};
use crate::set_aside::SetAside;
use crate::state::PodState;
use crate::stop_signals::StopSignals;
use crate::worker;
use nodewarden_admission as admission;
use nodewarden_admission::Admission;
use nodewarden_config::{DeviceSettings, EvictionSettings, NodeSettings, PodSettings, ProbeSettings};
use nodewarden_devices::{DeviceTasks, Devices};
use nodewarden_eviction::Pressure;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::Pod;
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Outcome;
use nodewarden_model::{ContainerView, PodView};
use nodewarden_pods::probes::{Answer, ProbeError, Prober, Probes, Target};
use nodewarden_pods::status::PodStatusCache;
use nodewarden_qos::fixture::V2;
use nodewarden_resource_managers::{Reservation, ResourceManagers};
use nodewarden_storage::journal::{Journal, Limits};

/// Of a pod that was evicted once.
pub const BACK_OFF: Duration = Duration::from_millis(300);

/// How long the end of a pod waits for its volumes here.
pub const VOLUME_PATIENCE: Duration = Duration::from_millis(700);

/// The node's at first.
pub const FIRST_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Answers as scripted; a probe without a scripted answer never gets one.
#[derive(Default)]
pub struct Script {
    answers: Mutex<BTreeMap<ProbeKind, Outcome>>,
    runs: Mutex<BTreeMap<ProbeKind, u32>>,
    /// The address of the last run.
    address: Mutex<Option<IpAddr>>,
    /// Called with each run.
    on_run: Mutex<Option<Box<dyn FnMut() + Send>>>,
}

impl Script {
    pub fn answer(&self, kind: ProbeKind, outcome: Outcome) {
        self.answers.lock().insert(kind, outcome);
    }

    pub fn runs(&self, kind: ProbeKind) -> u32 {
        self.runs.lock().get(&kind).copied().unwrap_or(0)
    }

    pub fn address(&self) -> Option<IpAddr> {
        *self.address.lock()
    }

    pub fn on_run(&self, call: impl FnMut() + Send + 'static) {
        *self.on_run.lock() = Some(Box::new(call));
    }
}

impl Prober for Script {
    fn probe<'a>(
        &'a self,
        target: &'a Target,
        spec: &'a ProbeSpec,
    ) -> BoxFuture<'a, Result<Answer, ProbeError>> {
        assert_eq!(target.container_id, "c0");
        *self.address.lock() = target.address;
        *self.runs.lock().entry(spec.kind).or_default() += 1;
        if let Some(call) = &mut *self.on_run.lock() {
            call();
        }
        match self.answers.lock().get(&spec.kind) {
            None => std::future::pending().boxed(),
            Some(outcome) => {
                let answer = Answer { outcome: *outcome, output: "as scripted".into() };
                std::future::ready(Ok(answer)).boxed()
            }
        }
    }
}

/// Managers without a policy.
fn managers(dir: &Path) -> ResourceManagers {
    let machine =
        nodewarden_topology::Machine { cpus: nodewarden_topology::CpuTopology::new([]), nodes: Vec::new() };
    let keys = NodeSettings::default().managers;
    let (reserved, none) = (Reservation::default(), BTreeSet::new());
    ResourceManagers::start(&keys, reserved, machine, dir, none, Arc::new(|_| {})).unwrap()
}

/// Of a node with room for ten pods that ask for nothing.
fn admission() -> Admission {
    let capacity = [(admission::amounts::PODS.to_owned(), 10)].into();
    Admission::new(admission::Deps {
        node: admission::Node { capacity, ..admission::Node::default() },
        devices: Arc::new(|_, _| None),
        pressure: watch::channel(Pressure::default()).1,
        evict: Arc::new(|_, _| {}),
        explain: admission::Explain::default(),
    })
}

/// One pod with its worker, on a fake runtime and with scripted probes.
pub struct Node {
    dir: tempfile::TempDir,
    pub script: Arc<Script>,
    pub runtime: Fake,
    pub state: Arc<PodState>,
    pub orders: Orders,
    pub worker: JoinHandle<()>,
    pub reports: mpsc::UnboundedReceiver<Report>,
    pub pressure: watch::Sender<Pressure>,
    /// The node's addresses.
    pub addresses: watch::Sender<Vec<IpAddr>>,
    _serving: DeviceTasks,
}

impl Node {
    /// An agent that finds the pod of this spec as `known` says of its container.
    pub async fn start(spec: Value, known: ContainerRecord, runtime: Fake, script: Script) -> Self {
        Self::start_from("/manifests/p.yaml", spec, known, runtime, script).await
    }

    /// As [`Node::start`], of this origin.
    pub async fn start_from(
        origin: &str,
        spec: Value,
        known: ContainerRecord,
        runtime: Fake,
        script: Script,
    ) -> Self {
        let pod: Arc<Pod> = fixture::pod(spec);
        let mut record = Record::new(&pod, origin, fixture::at(0));
        record.containers.insert("c".into(), known);
        Self::adopt(tempfile::tempdir().unwrap(), pod, record, runtime, script).await
    }

    /// The agent that comes after one that was killed, with the same runtime.
    pub async fn killed(self) -> Self {
        let Self { dir, runtime, worker, state, .. } = self;
        worker.abort();
        // What was on its way to the disk may still get there, as with a process that is killed.
        assert!(worker.await.unwrap_err().is_cancelled());
        let (pod, record) = (state.pod(), record(dir.path().into()));
        // With it goes the journal, which has one writer at a time.
        drop(state);
        Self::adopt(dir, pod, record, runtime, Script::default()).await
    }

    async fn adopt(
        dir: tempfile::TempDir,
        pod: Arc<Pod>,
        record: Record,
        runtime: Fake,
        script: Script,
    ) -> Self {
        let (pressure, pressed) = watch::channel(Pressure::default());
        let (addresses, own) = watch::channel(vec![FIRST_ADDRESS]);
        let script = Arc::new(script);
        let settings = DeviceSettings { kubelet_dir: dir.path().to_owned(), ..DeviceSettings::default() };
        let (devices, serving) = Devices::start(&settings, Arc::new(|_| {})).await;
        std::fs::write(dir.path().join("resolv.conf"), "").unwrap();
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        let client = runtime.serve(dir.path());
        let env = Arc::new(Environment {
            list: nodewarden_cri::SharedList::new(client.endpoint(), Duration::from_secs(5)),
            client,
            settings: NodeSettings { cgroups_per_qos: false, ..NodeSettings::default() },
            pods: PodSettings {
                logs_dir: dir.path().join("logs"),
                resolv_conf: Some(dir.path().join("resolv.conf")),
                ..PodSettings::default()
            },
            eviction: EvictionSettings { back_off: BACK_OFF, ..EvictionSettings::default() },
            facts: V2,
            capacity: watch::channel(Arc::new(Capacity::default())).1,
            cgroups: Arc::new(nodewarden_machine::cgroup::control::GroupFiles::new(Arc::new(
                nodewarden_machine::cgroup::Layout::detect().unwrap(),
            ))),
            node_name: "node".into(),
            addresses: own,
            ownership: nodewarden_pods::spec::Ownership::new("me".into(), false),
            store: Arc::new(Store::open(&records(dir.path().into())).unwrap().0),
            faults: Arc::new(Faults::open(&dir.path().join("faults"), jiff::Timestamp::now())),
            pods_dir: dir.path().join("pods"),
            set_aside: SetAside::with_patience(&dir.path().join("pods"), &journal, VOLUME_PATIENCE),
            seccomp_root: dir.path().join("seccomp"),
            recursive_read_only: AtomicBool::new(false),
            admission: admission(),
            devices,
            managers: managers(dir.path()),
            guards: None,
            probes: Probes::start_in_runtime(&ProbeSettings::default(), script.clone()),
            journal,
            objects: None,
            credential_providers: None,
            status: PodStatusCache::default(),
            places: watch::channel(Arc::default()).1,
            holds: nodewarden_gc::Holds::default(),
            pulls: crate::pulls::Pulls::new(Some(1), None),
            verifier: Arc::new(crate::pulls::verified::Verifier::open(dir.path(), Default::default()).0),
            pressure: pressed,
            stop_signals: StopSignals::default(),
            starts: Arc::new(Semaphore::new(1)),
            ends: Semaphore::new(16),
            ends_reported: true,
            removals_reported: true,
        });
        let (orders, inbox) = orders();
        let (reporting, reports) = mpsc::unbounded_channel();
        let state = PodState::new(env, pod, record, orders.downgrade(), None);
        state.update(|_| {});
        let worker = tokio::spawn(worker::run(state.clone(), inbox, reporting, false));
        Self { dir, script, runtime, state, orders, worker, reports, pressure, addresses, _serving: serving }
    }

    /// The pod's published status.
    pub fn pod(&self) -> Option<Arc<PodView>> {
        self.state.env.status.pods().first().cloned()
    }

    /// The pod's record on disk.
    pub fn record(&self) -> Record {
        record(self.dir.path().into())
    }

    /// The container's published status, once the runtime was asked.
    pub fn shown(&self) -> Option<ContainerView> {
        let pods = self.state.env.status.pods();
        pods.first().map(|pod| pod.containers[0].clone()).filter(|container| !container.id.is_empty())
    }

    pub fn is_ready(&self) -> bool {
        self.shown().is_some_and(|container| container.ready)
    }

    /// The container's record on disk.
    pub fn saved(&self) -> ContainerRecord {
        saved(self.dir.path().into())
    }

    pub fn dir(&self) -> PathBuf {
        self.dir.path().into()
    }
}

fn records(dir: PathBuf) -> PathBuf {
    dir.join("records")
}

/// Read from the disk, as the next agent would.
pub fn saved(dir: PathBuf) -> ContainerRecord {
    record(dir).container("c").cloned().unwrap_or_default()
}

fn record(dir: PathBuf) -> Record {
    let text = std::fs::read(records(dir).join("u.json")).unwrap();
    let content: Value = serde_json::from_slice(&text).unwrap();
    serde_json::from_value(content["record"].clone()).unwrap()
}

/// Waits for it, up to 10 s.
#[track_caller]
pub fn until(what: &'static str, mut is: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let from = std::panic::Location::caller();
    async move {
        for _ in 0..2000 {
            if is() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{from}: not in 10 s: {what}");
    }
}
