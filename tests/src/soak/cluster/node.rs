//! The cluster of the soak: a control plane, a node with a private container runtime, pods that stay from
//! beginning to end, and a watch of every pod.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use super::check::Causes;
use super::history::History;
use super::objects::{self, CALM};
use super::plan::App;
use crate::e2e::cluster::fixture::ClusterFixture;
use crate::e2e::cluster::node::NodeKind;
use crate::e2e::cluster::options::{NodeOptions, Prepared};
use crate::fixture::{Agent, Api, ApiError, Cri, Watch};
use crate::harness::{Context, Failure};

/// Seconds in which the agent renews the node's lease when the API server answers again: the longest wait
/// after a failure is 7.
const RENEWED_S: u64 = 20;
/// The largest memory that an agent may ever have had, in MiB (`VmHWM`): 64 of its own, and its code, of
/// which the kernel maps up to all (45 MiB, more in a development build) before the agent gives back what
/// does not run.
pub const MEMORY_MIB: u64 = 64 + if cfg!(debug_assertions) { 64 } else { 48 };
/// The Deployment whose pods stay.
pub const RESIDENT: &str = "resident";
/// How long a request is tried again.
const TRIES_S: u64 = 60;
/// Short back-offs of containers that end.
const LINES: &str = "featureGates: {KubeletCrashLoopBackOffMax: true}\n\
                     crashLoopBackOff: {maxContainerRestartPeriod: 3s}\n";
/// The journal keeps every event.
const SECTION: &str = "crashLoopBackOffInitialSeconds: 1\n\
     journal: {memoryEvents: 500000, memoryBytes: 268435456, fileBytes: 67108864, files: 10}";

pub struct Node<'c> {
    pub context: &'c Context,
    watch: Watch,
    api: Api,
    cri: Cri,
    pub fixture: ClusterFixture<'c>,
    pub history: History,
    pub causes: Causes,
    /// A directory that containers write into.
    pub evidence: PathBuf,
    /// Versions of pods are counted over all rounds.
    version: u64,
    /// The largest memory of every agent so far, in bytes.
    pub peak: u64,
    pub agents: u64,
}

impl<'c> Node<'c> {
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        let begun = SystemTime::now();
        let options = NodeOptions {
            kind: Some(NodeKind::Nodewarden),
            lines: LINES.to_owned(),
            section: SECTION.to_owned(),
            ..NodeOptions::default()
        };
        let fixture = Prepared::alone(context, None)?.start(options)?;
        let evidence = context.temp.join("evidence");
        fs::create_dir(&evidence).map_err(Failure::file(&evidence))?;
        let api = Api::new(fixture.cluster())?;
        let watch = Watch::start(&api, &format!("/api/v1/namespaces/{}/pods", fixture.namespace()));
        let mut this = Self {
            context,
            watch,
            cri: Cri::connect(fixture.containerd().socket())?,
            api,
            fixture,
            history: History::default(),
            causes: Causes::new(begun),
            evidence,
            version: 0,
            peak: 0,
            agents: 1,
        };
        this.set_config(0)?;
        this.create_app(RESIDENT, App { replicas: 2, is_probed: false })?;
        Ok(this)
    }

    /// The agent.
    pub fn agent(&self) -> Result<&Agent, Failure> {
        self.fixture.runs_by().agent()
    }

    pub fn cri(&self) -> &Cri {
        &self.cri
    }

    /// Takes over what the watch has shown.
    pub fn observe(&mut self) {
        while let Some(change) = self.watch.next_until(Instant::now()) {
            self.history.take(&change.kind, &change.object);
        }
    }

    /// A path of the API in the soak's namespace.
    fn path(&self, group: &str, rest: &str) -> String {
        format!("/{group}/namespaces/{}/{rest}", self.fixture.namespace())
    }

    /// Makes a request until there is an answer. `None` if the object is not there, or is there already.
    fn ask(
        &mut self,
        mut request: impl FnMut(&mut Api) -> Result<Value, ApiError>,
    ) -> Result<Option<Value>, Failure> {
        let deadline = Instant::now() + self.context.patiently(TRIES_S);
        loop {
            self.observe();
            match request(&mut self.api) {
                Ok(answer) => return Ok(Some(answer)),
                Err(error) if matches!(error.status(), Some(404 | 409)) => return Ok(None),
                // The API server is away, or has just been started.
                Err(error) if Instant::now() >= deadline => return Err(error.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// The items of a list, by the path below the namespace.
    pub fn list(&mut self, group: &str, kind: &str) -> Result<Vec<Value>, Failure> {
        let path = self.path(group, kind);
        let list = self.ask(|api| api.get(&path))?.unwrap_or_default();
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// The pods.
    pub fn pods(&mut self) -> Result<Vec<Value>, Failure> {
        self.list("api/v1", "pods")
    }

    pub fn set_config(&mut self, value: u64) -> Result<(), Failure> {
        let (all, object) = (self.path("api/v1", "configmaps"), objects::config(value));
        let one = format!("{all}/{}", objects::CONFIG);
        if self.ask(|api| api.patch(&one, &object))?.is_none() {
            self.ask(|api| api.create(&all, &object))?;
        }
        Ok(())
    }

    /// Creates a Deployment of a new version. Returns the version.
    pub fn create_app(&mut self, name: &str, app: App) -> Result<u64, Failure> {
        self.version += 1;
        let object = objects::deployment(name, self.fixture.name(), app, self.version, &self.evidence);
        let path = self.path("apis/apps/v1", "deployments");
        self.ask(|api| api.create(&path, &object))?;
        Ok(self.version)
    }

    pub fn scale(&mut self, name: &str, replicas: u64) -> Result<(), Failure> {
        let path = self.path("apis/apps/v1", &format!("deployments/{name}"));
        self.ask(|api| api.patch(&path, &json!({ "spec": { "replicas": replicas } }))).map(drop)
    }

    /// Gives a Deployment's pods a new version. Returns the version.
    pub fn roll(&mut self, name: &str, app: App) -> Result<u64, Failure> {
        self.version += 1;
        let change = objects::new_version(name, app, self.fixture.name(), self.version, &self.evidence);
        let path = self.path("apis/apps/v1", &format!("deployments/{name}"));
        self.ask(|api| api.patch(&path, &change))?;
        Ok(self.version)
    }

    /// Starts the controller manager again, so that every controller looks at everything.
    pub fn restart_controllers(&mut self) -> Result<(), Failure> {
        let controllers = self.fixture.control_plane()?.controller_manager();
        controllers.kill();
        Ok(controllers.start()?)
    }

    pub fn create_job(&mut self, name: &str, job: super::plan::Job) -> Result<(), Failure> {
        let object = objects::job(name, self.fixture.name(), job, &self.evidence);
        let path = self.path("apis/batch/v1", "jobs");
        self.ask(|api| api.create(&path, &object)).map(drop)
    }

    /// Deletes a Deployment or Job with its pods.
    pub fn delete(&mut self, group: &str, kind: &str, name: &str) -> Result<(), Failure> {
        let path = self.path(group, &format!("{kind}/{name}?propagationPolicy=Background"));
        self.ask(|api| api.delete(&path)).map(drop)
    }

    pub fn delete_pod(&mut self, name: &str) -> Result<(), Failure> {
        let path = self.path("api/v1", &format!("pods/{name}"));
        self.ask(|api| api.delete(&path)).map(drop)
    }

    pub fn evict_pod(&mut self, name: &str) -> Result<(), Failure> {
        let path = self.path("api/v1", &format!("pods/{name}/eviction"));
        let eviction = objects::eviction(name);
        self.ask(|api| api.create(&path, &eviction)).map(drop)
    }

    /// From now on no probe fails, or probes fail at random.
    pub fn set_calm(&self, calm: bool) -> Result<(), Failure> {
        let path = self.evidence.join(CALM);
        match calm {
            true => fs::write(&path, "").map_err(Failure::file(&path)),
            false => {
                // It is not there in the first round.
                let _first = fs::remove_file(&path);
                Ok(())
            }
        }
    }

    /// Reads the journal: causes of restarts.
    pub fn read_causes(&mut self) -> Result<(), Failure> {
        let client = self.fixture.runs_by().agent()?.client()?;
        self.causes.read(&client, self.context.patiently(30))
    }

    pub fn kill_agent(&mut self) -> Result<(), Failure> {
        self.note_memory()?;
        self.fixture.runs_by_mut().kill_agent()
    }

    pub fn start_agent(&mut self) -> Result<(), Failure> {
        self.agents += 1;
        self.fixture.runs_by_mut().start_agent()
    }

    pub fn kill_runtime(&mut self) {
        self.fixture.containerd_mut().kill();
    }

    pub fn start_runtime(&mut self) -> Result<(), Failure> {
        self.fixture.containerd_mut().start_again()?;
        self.cri = Cri::connect(self.fixture.containerd().socket())?;
        Ok(())
    }

    pub fn kill_api_server(&mut self) -> Result<(), Failure> {
        self.fixture.control_plane()?.api_server().kill();
        Ok(())
    }

    /// Returns when the agent has renewed the node's lease.
    pub fn start_api_server(&mut self) -> Result<(), Failure> {
        let control_plane = self.fixture.control_plane()?;
        control_plane.api_server().start()?;
        control_plane.wait_ready()?;
        self.fixture.wait_renewed(RENEWED_S)
    }

    /// Reads the largest memory that the agent has had.
    pub fn note_memory(&mut self) -> Result<u64, Failure> {
        let path = format!("/proc/{}/status", self.agent()?.pid());
        let text = fs::read_to_string(&path).map_err(Failure::file(&path))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        let kib: u64 = kib.ok_or_else(|| Failure::Unexpected(format!("{path} has no VmHWM")))?;
        self.peak = self.peak.max(kib << 10);
        Ok(self.peak)
    }

    /// The uids of pods with this label `app`, or of all.
    pub fn uids(&mut self, app: Option<&str>) -> Result<BTreeSet<String>, Failure> {
        let pods = self.pods()?;
        let of = pods.iter().filter(|pod| app.is_none_or(|app| pod["metadata"]["labels"]["app"] == app));
        Ok(of.filter_map(|pod| pod["metadata"]["uid"].as_str().map(str::to_owned)).collect())
    }

    /// Ends everything, and looks for what is left.
    pub fn finish(self) -> Result<(), Failure> {
        let Self { fixture, watch, .. } = self;
        drop(watch);
        fixture.finish()
    }
}
