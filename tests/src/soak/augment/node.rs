//! The real kubelet with its control plane, and the agent in mode augment that is started and ended beside
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::signal::Signal;
use nodewarden_augment::table::NOTIFIERS;
use serde_json::{Value, json};

use super::broken::Broken;
use super::kinds::{self, KINDS};
use super::reloads::Reloads;
use super::values::{Values, file_of_pod, of_pod, perhaps_never_set};
use crate::e2e::cluster::beside::arguments;
use crate::e2e::cluster::fixture::ClusterFixture;
use crate::e2e::cluster::node::NodeKind;
use crate::e2e::cluster::options::{NodeOptions, Prepared};
use crate::e2e::cluster::written::{self, OF_IDLE};
use crate::ensure;
use crate::fixture::{Agent, AgentOptions, Api, ApiError, CgroupWriters, Watch, Writers, systemd_answers};
use crate::harness::{Context, Failure};

/// Everything is done. Memory is always short for `memoryHigh`, which then has something to do (cgroup v2).
const SECTION: &str = "augment: {events: Enforce, protection: Enforce, memoryHigh: Enforce, cpuIdle: Enforce, \
                       cpuBurst: Enforce, devices: Audit, neighbours: Audit, memoryDistance: 1024Gi}";
/// The name of the agent's processes.
const PROGRAM: &str = "nodewarden";
/// Files that the agent also sets as properties of systemd's units.
const PROPERTIES: [&str; 2] = ["memory.high", "memory.min"];

pub struct Node<'c> {
    pub context: &'c Context,
    agent: Option<Agent>,
    watch: Watch,
    api: Api,
    writers: CgroupWriters,
    /// Files that the agent has written.
    pub written: BTreeSet<PathBuf>,
    /// Restarts and failures of pods that the API has shown.
    pub broken: BTreeSet<String>,
    judge: Broken,
    /// A kubelet was ended or killed.
    pub kubelet_ended: bool,
    pub agents: u64,
    /// Pods that there ever were.
    pub pods_seen: BTreeSet<String>,
    version: u64,
    state: PathBuf,
    /// Where systemd is process 1.
    reloads: Option<Reloads>,
    pub fixture: ClusterFixture<'c>,
}

impl<'c> Node<'c> {
    /// Starts the control plane, the kubelet and the record of writes, without the agent.
    ///
    /// # Errors
    /// Something does not start.
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        let writers = CgroupWriters::start(&context.layout, PROGRAM).map_err(Failure::file("fanotify"))?;
        let options = NodeOptions { kind: Some(NodeKind::Kubelet), ..NodeOptions::default() };
        let fixture = Prepared::alone(context, None)?.start(options)?;
        let api = Api::new(fixture.cluster())?;
        let watch = Watch::start(&api, &format!("/api/v1/namespaces/{}/pods", fixture.namespace()));
        let state = context.temp.join("augment-state");
        Ok(Self {
            context,
            agent: None,
            watch,
            api,
            writers,
            written: BTreeSet::new(),
            broken: BTreeSet::new(),
            judge: Broken::default(),
            kubelet_ended: false,
            agents: 0,
            pods_seen: BTreeSet::new(),
            version: 0,
            state,
            reloads: systemd_answers().is_ok().then(|| Reloads::start(context.problems())),
            fixture,
        })
    }

    /// Starts the agent with the state of the one before.
    ///
    /// # Errors
    /// It does not become ready.
    pub fn start_agent(&mut self) -> Result<(), Failure> {
        let options = AgentOptions {
            state: Some(self.state.clone()),
            runtime: Some(self.fixture.runtime().to_owned()),
            kubelet: format!("cgroupRoot: {}\n", self.root()),
            section: SECTION.to_owned(),
            arguments: arguments(&self.fixture),
            ..AgentOptions::default()
        };
        let agent = Agent::start(self.context, &options)?;
        self.writers.add_own(agent.pid());
        self.agent = Some(agent);
        self.agents += 1;
        Ok(())
    }

    /// Ends the agent by a signal.
    ///
    /// # Errors
    /// It does not end, or by SIGTERM with another status than 0.
    pub fn end_agent(&mut self, signal: Signal) -> Result<(), Failure> {
        let Some(mut agent) = self.agent.take() else { return Ok(()) };
        let status = agent.end(signal, self.context.patiently(20))?;
        ensure!(signal == Signal::SIGKILL || status.success(), "the agent ended with {status}");
        Ok(())
    }

    /// Runs `nodewarden undo`.
    ///
    /// # Errors
    /// It fails.
    pub fn undo(&self) -> Result<(), Failure> {
        let mut command = Command::new(&self.context.agent);
        command.args(["undo", "--state-dir"]).arg(&self.state).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let file = || Failure::file("nodewarden undo");
        let child = command.spawn().map_err(file())?;
        self.writers.add_own(child.id());
        let output = child.wait_with_output().map_err(file())?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "undo: {} {text}", output.status);
        Ok(())
    }

    /// Takes over what the watch has shown.
    pub fn observe(&mut self) {
        while let Some(change) = self.watch.next_until(Instant::now()) {
            let pod = &change.object;
            self.pods_seen.insert(pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned());
            self.broken.extend(self.judge.update(pod));
        }
    }

    /// Adds up who has written which file since the last time. Returns the files that both have written,
    /// other than those that the kernel changes with `cpu.idle`, and writes that the agent's table does not
    /// have.
    pub fn wrong_writes(&mut self) -> Vec<String> {
        let files: BTreeMap<PathBuf, Writers> = self.writers.files();
        let mut wrong = written::differences(&files);
        for (path, writers) in files.into_iter().filter(|(_, writers)| writers.own) {
            let is_no_setting = NOTIFIERS.iter().any(|file| path.ends_with(file));
            let is_of_idle = OF_IDLE.iter().any(|file| path.ends_with(file));
            // The agent sets these as properties of the units too, so that systemd writes them for it.
            let by_systemd = writers.other.as_deref().is_some_and(|other| other.starts_with("systemd "))
                && PROPERTIES.iter().any(|file| path.ends_with(file));
            if let (Some(other), false) = (writers.other, is_no_setting || is_of_idle || by_systemd) {
                wrong.push(format!("{} was written by {PROGRAM} and {other}", path.display()));
            }
            self.written.insert(path);
        }
        wrong
    }

    /// The settings of a pod's cgroups.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn values(&self, pod: &Value) -> Result<Values, Failure> {
        of_pod(&self.context.layout, &self.root(), pod)
    }

    /// Whether no process has ever written this setting of the pod's cgroup: a kubelet ended before it did.
    pub fn was_never_set(&self, pod: &Value, key: &str) -> bool {
        let file = perhaps_never_set(key).filter(|_| self.kubelet_ended);
        let file = file.and_then(|file| file_of_pod(&self.context.layout, &self.root(), pod, file));
        file.is_some_and(|file| !self.writers.files().contains_key(&file))
    }

    /// The kubelet's `cgroupRoot`.
    fn root(&self) -> String {
        format!("/{}", self.context.prefix())
    }

    /// How often systemd was reloaded.
    pub fn reloads(&self) -> u64 {
        self.reloads.as_ref().map_or(0, Reloads::count)
    }

    /// The pods of the Deployments that are not being deleted.
    ///
    /// # Errors
    /// The API server does not answer.
    pub fn pods(&mut self) -> Result<Vec<Value>, Failure> {
        let path = self.path("api/v1", "pods");
        let list = self.api.get(&path)?;
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        let of_apps =
            |pod: &Value| (0..KINDS).any(|kind| pod["metadata"]["labels"]["app"] == kinds::name(kind));
        Ok(pods
            .into_iter()
            .filter(|pod| of_apps(pod) && pod["metadata"]["deletionTimestamp"].is_null())
            .collect())
    }

    fn path(&self, group: &str, rest: &str) -> String {
        let group = if group == "api/v1" { group.to_owned() } else { format!("apis/{group}") };
        format!("/{group}/namespaces/{}/{rest}", self.fixture.namespace())
    }

    pub fn create_app(&mut self, kind: usize, replicas: u64) -> Result<(), Failure> {
        let object = kinds::object(kind, self.fixture.name(), replicas);
        let path = self.path("apps/v1", "deployments");
        done(self.api.create(&path, &object))
    }

    pub fn scale(&mut self, kind: usize, replicas: u64) -> Result<(), Failure> {
        self.patch(kind, &json!({ "spec": { "replicas": replicas } }))
    }

    /// Gives a Deployment's pods a new version.
    pub fn roll(&mut self, kind: usize) -> Result<(), Failure> {
        self.version += 1;
        let annotations = json!({ "version": self.version.to_string() });
        self.patch(kind, &json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } }))
    }

    fn patch(&mut self, kind: usize, change: &Value) -> Result<(), Failure> {
        let path = self.path("apps/v1", &format!("deployments/{}", kinds::name(kind)));
        done(self.api.patch(&path, change))
    }

    /// Whether a Deployment is as its spec says.
    pub fn is_settled(&mut self, kind: usize) -> Result<bool, Failure> {
        let path = self.path("apps/v1", &format!("deployments/{}", kinds::name(kind)));
        let object = self.api.get(&path)?;
        let (wanted, status) = (object["spec"]["replicas"].as_u64().unwrap_or(0), &object["status"]);
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
        let are = counts.iter().all(|field| status[*field].as_u64().unwrap_or(0) == wanted);
        Ok(are && status["observedGeneration"] == object["metadata"]["generation"])
    }

    pub fn delete_pod(&mut self, name: &str) -> Result<(), Failure> {
        let path = self.path("api/v1", &format!("pods/{name}"));
        done(self.api.delete(&path))
    }

    pub fn evict_pod(&mut self, name: &str) -> Result<(), Failure> {
        let path = self.path("api/v1", &format!("pods/{name}/eviction"));
        let object =
            json!({ "apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": { "name": name } });
        done(self.api.create(&path, &object))
    }

    pub fn create_job(&mut self, name: &str, seconds: u64) -> Result<(), Failure> {
        let object = kinds::job(name, self.fixture.name(), seconds);
        let path = self.path("batch/v1", "jobs");
        done(self.api.create(&path, &object))
    }

    pub fn delete_job(&mut self, name: &str) -> Result<(), Failure> {
        let path = self.path("batch/v1", &format!("jobs/{name}?propagationPolicy=Background"));
        done(self.api.delete(&path))
    }

    /// Ends everything, and looks for what is left.
    ///
    /// # Errors
    /// Something is left.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.end_agent(Signal::SIGTERM)?;
        let Self { fixture, watch, .. } = self;
        drop(watch);
        fixture.finish()
    }
}

/// A pod that a request names may be gone meanwhile.
fn done(answer: Result<Value, ApiError>) -> Result<(), Failure> {
    match answer {
        Err(error) if !matches!(error.status(), Some(404 | 409)) => Err(error.into()),
        _ => Ok(()),
    }
}
