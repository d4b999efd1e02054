//! Starts the same pods by direct calls to the container runtime, to measure what they take without an agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodewarden_config::{Config, Endpoint, Overrides};
use nodewarden_cri::Client;
use nodewarden_machine::cgroup::control::{Cgroupfs, Manager};
use nodewarden_machine::node::Capacity;
use nodewarden_machine::node::gather::Sources;
use nodewarden_manifest::Pod;
use nodewarden_pods::objects::PodObjects;
use nodewarden_pods::paths::PodPaths;
use nodewarden_pods::source::manifests::Manifests;
use nodewarden_pods::spec as container;
use nodewarden_pods::spec::DeviceInjection;
use nodewarden_pods::spec::dns::Resolv;
use nodewarden_pods::spec::{Beginning, Host};
use nodewarden_proto::runtime::v1 as cri;
use nodewarden_qos as qos;
use nodewarden_qos::{HierarchyFacts, Levels, Role};
use nodewarden_storage::state_file::{self, Format};
use serde_json::Value;
use tokio::sync::Semaphore;

use super::evidence::now;
use crate::ensure;
use crate::fixture::{BUSYBOX_IMAGE, TestRoot};
use crate::harness::{Context, Failure};

/// The node's name, used by the agent too.
pub const NODE: &str = "bench";
/// The owner label of these pods. The agent ignores pods with another owner than itself.
const OWNER: &str = "bench";
/// Time-out for destroying a cgroup.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(30);

/// What is kept on disk of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing; a pod's files are removed after the measured time.
    Nothing,
    /// The least with which an agent finds its pods again after a crash of the machine: a record before the
    /// first call, another one before the pod is ended, and none when its files are gone. Each is on the disk
    /// before the work goes on. The pods' cgroups and files are made in the measured time too.
    Records,
}

/// How a record is written.
const RECORD: Format = Format::new("record", 1);

/// Starts and ends pods by direct calls.
pub struct Bare {
    runtime: tokio::runtime::Runtime,
    calls: Arc<Calls>,
    config: Config,
    capacity: Capacity,
    facts: HierarchyFacts,
    resolv: Resolv,
    image: cri::Image,
    manifests: PathBuf,
    _root: TestRoot,
}

struct Calls {
    client: Client,
    manager: Manager,
    /// Directory of records.
    records: PathBuf,
}

/// Everything that exists before the first call: the pod's cgroup with its limits, its files, and the
/// configurations for the runtime.
pub struct Prepared {
    pod: Arc<Pod>,
    paths: PodPaths,
    cgroup: String,
    sandbox: cri::PodSandboxConfig,
    containers: Vec<cri::ContainerConfig>,
}

/// A running pod.
pub struct Running {
    prepared: Prepared,
    sandbox: String,
    containers: Vec<String>,
}

impl Bare {
    /// # Errors
    /// The runtime does not answer, or a cgroup cannot be made.
    pub fn new(context: &Context, socket: &Path) -> Result<Self, Failure> {
        let root = TestRoot::named(context, "-bare")?;
        let manifests = context.temp.join("bare-manifests");
        let records = context.temp.join("bare-records");
        for folder in [&manifests, &records] {
            std::fs::create_dir_all(folder).map_err(Failure::file(folder))?;
        }
        let config = config(context, socket, root.group().path())?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("bare-calls")
            .enable_all()
            .build()
            .map_err(Failure::file("tokio"))?;
        let endpoint = Endpoint::parse(&socket.to_string_lossy());
        let endpoint = endpoint.ok_or_else(|| Failure::Unexpected(format!("{socket:?} is no endpoint")))?;
        let client = {
            let _inside = runtime.enter();
            Client::new(&endpoint)
        };
        let image = runtime.block_on(image(&client, context.patiently(10)))?;
        let layout = Arc::new(nodewarden_machine::cgroup::Layout::detect()?);
        let manager = Manager::new(Arc::new(Cgroupfs::new(layout.clone())), layout.clone());
        let levels = Levels::below(&config.node.cgroup_root).map_err(failure)?;
        Ok(Self {
            capacity: Sources::default().capacity(Some(&manifests)).map_err(failure)?,
            facts: nodewarden_hierarchy::facts(&layout, &manager.path(&levels.kubepods)),
            resolv: config
                .pods
                .resolv_conf
                .as_deref()
                .and_then(|path| Resolv::read(path).ok())
                .unwrap_or_default(),
            image,
            calls: Arc::new(Calls { client, manager, records }),
            runtime,
            config,
            manifests,
            _root: root,
        })
    }

    /// The default interval of the agent's full reconcile.
    pub fn reconcile(&self) -> Duration {
        self.config.reconcile
    }

    /// Prepares the pods of these manifests, with the QoS cgroups of a node that has just them.
    ///
    /// # Errors
    /// A manifest is invalid, or a cgroup or file cannot be created.
    pub fn prepare(&self, manifests: &[Value]) -> Result<Vec<Prepared>, Failure> {
        let mut pods = Vec::new();
        for manifest in manifests {
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            let path = self.manifests.join(format!("{name}.json"));
            std::fs::write(&path, manifest.to_string()).map_err(Failure::file(&path))?;
            let read = Manifests::at(&path, NODE);
            ensure!(
                read.problems.is_empty(),
                "{}: {}",
                path.display(),
                read.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
            );
            pods.extend(read.pods.iter().map(|sourced| sourced.pod.clone()));
        }
        let manager = &self.calls.manager;
        let tree = qos::tree(pods.iter().map(|pod| &**pod), self.host().node).map_err(failure)?;
        let mut cgroups = std::collections::BTreeMap::new();
        for (name, group) in &tree.groups {
            let path = manager.path(name);
            manager.create(&path, &group.limits)?;
            if let Role::Pod { uid } = &group.role {
                cgroups.insert(uid.clone(), path);
            }
        }
        pods.into_iter()
            .map(|pod| {
                let cgroup = cgroups.remove(&pod.uid).unwrap_or_default();
                self.prepared(pod, cgroup)
            })
            .collect()
    }

    fn prepared(&self, pod: Arc<Pod>, cgroup: String) -> Result<Prepared, Failure> {
        let host = self.host();
        let paths = host.paths(&pod);
        let objects = PodObjects::default();
        nodewarden_pods::volume::prepare(&pod, &paths, host.node, OWNER, &objects).map_err(failure)?;
        let sandbox = container::sandbox_config(&pod, 0, &cgroup, &host).map_err(failure)?;
        let injection = DeviceInjection::default();
        let beginning = Beginning {
            attempt: 0,
            ips: &[],
            image: &self.image,
            image_ref: &self.image.id,
            injection: &injection,
            objects: &objects,
        };
        let mut containers = Vec::new();
        for own in &pod.spec().containers {
            let (container, files) =
                container::plan_container(&pod, &own.name, &beginning, &host).map_err(failure)?;
            files.make(&pod, &host, &objects).map_err(failure)?;
            containers.push(container);
        }
        Ok(Prepared { containers, pod, paths, cgroup, sandbox })
    }

    /// Starts a pod. Returns it and the time of the first call.
    ///
    /// # Errors
    /// A call fails.
    pub fn start(&self, prepared: Prepared) -> Result<(Running, Duration), Failure> {
        let begun = now()?;
        Ok((self.runtime.block_on(self.calls.start(prepared, Keeps::Nothing))?, begun))
    }

    /// Ends a pod. Returns how long it took until its cgroup was gone.
    ///
    /// # Errors
    /// A call fails, or the cgroup stays.
    pub fn end(&self, running: Running) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let paths = self.runtime.block_on(self.calls.clone().end(running, Keeps::Nothing))?;
        let took = begun.elapsed();
        remove_files(&paths)?;
        Ok(took)
    }

    /// Starts pods, at most `at_once` at the same time.
    ///
    /// # Errors
    /// As [`Bare::start`].
    pub fn start_all(
        &self,
        pods: Vec<Prepared>,
        at_once: usize,
        keeps: Keeps,
    ) -> Result<Vec<Running>, Failure> {
        self.each(pods, at_once, move |calls, pod| async move { calls.start(pod, keeps).await })
    }

    /// Ends pods, at most `at_once` at the same time. Returns how long it took until all cgroups were gone.
    ///
    /// # Errors
    /// As [`Bare::end`].
    pub fn end_all(&self, pods: Vec<Running>, at_once: usize, keeps: Keeps) -> Result<Duration, Failure> {
        let begun = Instant::now();
        let ended = self.each(pods, at_once, move |calls, pod| calls.end(pod, keeps))?;
        let took = begun.elapsed();
        if keeps == Keeps::Nothing {
            ended.iter().try_for_each(remove_files)?;
        }
        Ok(took)
    }

    fn each<T, R, F>(
        &self,
        items: Vec<T>,
        at_once: usize,
        work: impl Fn(Arc<Calls>, T) -> F,
    ) -> Result<Vec<R>, Failure>
    where
        F: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Send + 'static,
    {
        let permits = Arc::new(Semaphore::new(at_once));
        let mut tasks = tokio::task::JoinSet::new();
        for item in items {
            let (permits, work) = (permits.clone(), work(self.calls.clone(), item));
            let one = async move {
                // The semaphore is never closed.
                let _permit = permits.acquire_owned().await;
                work.await
            };
            tasks.spawn_on(one, self.runtime.handle());
        }
        self.runtime.block_on(async {
            let mut done = Vec::new();
            while let Some(one) = tasks.join_next().await {
                done.push(one.map_err(failure)??);
            }
            Ok(done)
        })
    }

    fn host(&self) -> Host<'_> {
        Host {
            node: qos::Node { settings: &self.config.node, capacity: &self.capacity, facts: &self.facts },
            node_name: NODE,
            host_ips: &[std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST)],
            pods: &self.config.pods,
            resolv: &self.resolv,
            owner: OWNER,
            state_pods: &self.config.state_dir,
            seccomp_root: &self.config.state_dir,
            recursive_read_only: false,
        }
    }
}

impl Calls {
    async fn start(self: &Arc<Self>, prepared: Prepared, keeps: Keeps) -> Result<Running, Failure> {
        let config = prepared.sandbox.clone();
        self.record(&prepared, "accepted", keeps).await?;
        let sandbox = self.client.run_sandbox(config.clone()).await.map_err(failure)?;
        let mut containers = Vec::new();
        for container in prepared.containers.clone() {
            let id = self.client.create_container(&sandbox, container, config.clone()).await;
            let id = id.map_err(failure)?;
            self.client.start_container(&id).await.map_err(failure)?;
            containers.push(id);
        }
        Ok(Running { prepared, sandbox, containers })
    }

    async fn end(self: Arc<Self>, running: Running, keeps: Keeps) -> Result<PodPaths, Failure> {
        let Running { prepared, sandbox, containers } = running;
        self.record(&prepared, "terminating", keeps).await?;
        let grace = nodewarden_manifest::grace(&prepared.pod);
        for container in &containers {
            self.client.stop_container(container, grace).await.map_err(failure)?;
        }
        self.client.stop_sandbox(&sandbox).await.map_err(failure)?;
        self.client.remove_sandbox(&sandbox).await.map_err(failure)?;
        let done = tokio::task::spawn_blocking(move || {
            self.manager.destroy(&prepared.cgroup, DESTROY_TIMEOUT).map_err(failure)?;
            if keeps == Keeps::Records {
                remove_files(&prepared.paths)?;
                let record = self.path(&prepared);
                std::fs::remove_file(&record).map_err(Failure::file(&record))?;
                state_file::sync(&self.records).map_err(failure)?;
            }
            Ok(prepared.paths)
        });
        done.await.map_err(failure)?
    }

    /// Writes the record of a pod; it is on the disk when this returns.
    async fn record(
        self: &Arc<Self>,
        prepared: &Prepared,
        state: &'static str,
        keeps: Keeps,
    ) -> Result<(), Failure> {
        if keeps == Keeps::Nothing {
            return Ok(());
        }
        let (path, content) = (self.path(prepared), format!("{state} {:?}", prepared.sandbox));
        let written = tokio::task::spawn_blocking(move || RECORD.write(&path, &content, None, || {})).await;
        written.map_err(failure)?.map(drop).map_err(failure)
    }

    fn path(&self, prepared: &Prepared) -> PathBuf {
        self.records.join(format!("{}.json", prepared.pod.uid))
    }
}

/// The image of the pods. containerd's CRI knows an image a moment after it was imported.
async fn image(client: &Client, limit: Duration) -> Result<cri::Image, Failure> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(image) = client.image(BUSYBOX_IMAGE).await.map_err(failure)? {
            return Ok(image);
        }
        ensure!(Instant::now() < deadline, "the runtime has no {BUSYBOX_IMAGE}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Removes a pod's files, after the measured time.
fn remove_files(paths: &PodPaths) -> Result<(), Failure> {
    nodewarden_pods::volume::clean(&paths.pod_dir).map_err(failure)
}

/// The agent's configuration, with other directories.
fn config(context: &Context, socket: &Path, root: &str) -> Result<Config, Failure> {
    let [file, state, logs] = ["bare.yaml", "bare-state", "bare-logs"].map(|name| context.temp.join(name));
    let text = format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupRoot: {root}\n\
         cgroupDriver: cgroupfs\npodLogsDir: {}\nfailSwapOn: false\nnodewarden:\n  mode: manage\n  stateDir: {}\n  \
         runtimeEndpoint: unix://{}\n  nodeName: {NODE}\n",
        logs.display(),
        state.display(),
        socket.display()
    );
    for folder in [&state, &logs] {
        std::fs::create_dir_all(folder).map_err(Failure::file(folder))?;
    }
    std::fs::write(&file, text).map_err(Failure::file(&file))?;
    nodewarden_config::load(Some(&file), None, &Overrides::default()).map_err(failure)
}

/// Converts an error of nodewarden's own code or of the runtime.
fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Unexpected(error.to_string())
}
